"""How good a segmentation is, where the truth is known (paper, appendix "Evaluation details")."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Boundaries = Sequence[NDArray[np.integer]]


class Scores(NamedTuple):
    """Averages over demonstrations, between 0 and 1."""

    boundary_accuracy: float
    """Share of true boundaries that the boundary of the same number hits exactly."""
    f1: float
    """Harmonic mean of precision and recall of boundary positions, whatever their number in the order."""
    f1_tolerance_1: float
    """The same, where one step off still counts as a hit."""
    count_accuracy: float
    """Share of demonstrations with the right number of segments."""


def boundary_accuracy(found: Boundaries, true: Boundaries) -> float:
    """1/(M-1) Σ_i 1[found b_i = true b_i], over all demonstrations; a boundary that is missing is a miss."""
    hits = sum(int(np.sum(f[: len(t)] == t[: len(f)])) for f, t in zip(found, true, strict=True))
    num_true = sum(map(len, true))
    return hits / num_true if num_true else 1.0


def boundary_f1(found: Boundaries, true: Boundaries, tolerance: int = 0) -> float:
    """F1 of boundary positions, over all demonstrations, as in the paper.

    Precision is the share of found boundaries with a true one at most `tolerance` steps away, recall the share of true
    ones with a found one there; a boundary may serve as the match of several.
    """
    near = [np.abs(f[:, None] - t[None, :]) <= tolerance for f, t in zip(found, true, strict=True)]
    num_found, num_true = sum(map(len, found)), sum(map(len, true))
    if num_found == 0 or num_true == 0:
        return float(num_found == num_true)
    precision = sum(int(n.any(axis=1).sum()) for n in near) / num_found
    recall = sum(int(n.any(axis=0).sum()) for n in near) / num_true
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def score_boundaries(found: Boundaries, true: Boundaries) -> Scores:
    """All scores of one set of demonstrations."""
    return Scores(
        boundary_accuracy=boundary_accuracy(found, true),
        f1=boundary_f1(found, true),
        f1_tolerance_1=boundary_f1(found, true, tolerance=1),
        count_accuracy=float(np.mean([len(f) == len(t) for f, t in zip(found, true, strict=True)])),
    )
