"""Demonstrations: episodes of different lengths, with what is known about their segments. See `Demonstrations`."""

from compile_il.demos.checks import ActionWarning, DemonstrationError
from compile_il.demos.demonstrations import Demonstration, Demonstrations
from compile_il.demos.labels import UNKNOWN, EpisodeLabels, PartialLabels
from compile_il.demos.truth import EpisodeTruth, Truth
from compile_il.demos.views import Packed, Padded

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
