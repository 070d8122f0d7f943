"""Demonstrations: episodes of different lengths, with what is known about their segments. See `Demonstrations`."""

from compile_il.data.demonstrations import Demonstration, Demonstrations, Packed, Padded
from compile_il.data.labels import UNKNOWN, EpisodeLabels, EpisodeTruth, PartialLabels, Truth
from compile_il.data.validation import ActionWarning, DemonstrationError

__all__ = [
    "UNKNOWN",
    "ActionWarning",
    "Demonstration",
    "DemonstrationError",
    "Demonstrations",
    "EpisodeLabels",
    "EpisodeTruth",
    "Packed",
    "Padded",
    "PartialLabels",
    "Truth",
]
