"""What all baselines have in common: they are fitted to demonstrations, and then cut others into told numbers."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import DemonstrationError, Demonstrations


class Cuts(NamedTuple):
    """What a baseline found in some demonstrations; lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """The inner boundaries: the first step of each segment but the first."""
    labels: list[NDArray[np.int32]] | None
    """For each step the label of its segment, a whole number; None from methods that only cut."""


@runtime_checkable
class Segmenter(Protocol):
    """A fitted baseline, which segments demonstrations."""

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into as many segments as told, one number for all or one for each."""


@runtime_checkable
class Baseline(Protocol):
    """The settings of a method, before it has seen anything."""

    def fit(self, demos: Demonstrations) -> Segmenter:
        """Learns from demonstrations, and returns the fitted method; boundaries, where known, are not looked at."""


def require_demonstrations(given: object) -> None:
    """Raises an error for what is no set of demonstrations, such as a world's name, which only trained methods take."""
    if not isinstance(given, Demonstrations):
        raise DemonstrationError(
            f"This baseline takes demonstrations, and was given a {type(given).__name__}: make them of a world "
            "with cil.demonstrate(world, num_demos=1000), or read them with cil.Demonstrations.load(file)."
        )


def strongest(scores: NDArray[np.floating], num_boundaries: int) -> NDArray[np.int32]:
    """Returns the steps with the highest scores, in order of time; never step 0, and the earlier of two equal ones."""
    order = np.argsort(-scores[1:], kind="stable")[:num_boundaries]
    return np.sort(order + 1).astype(np.int32)
