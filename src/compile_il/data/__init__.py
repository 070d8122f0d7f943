"""Holds demonstrations, checks them, reads and writes them, and makes batches of them. See `Demonstrations`."""

from compile_il.data.demonstrations import Demonstration, Demonstrations, Padded
from compile_il.data.labels import UNKNOWN, PartialLabels, Truth
from compile_il.data.validation import ActionWarning, DemonstrationError

__all__ = [
    "UNKNOWN",
    "ActionWarning",
    "Demonstration",
    "DemonstrationError",
    "Demonstrations",
    "Padded",
    "PartialLabels",
    "Truth",
]
