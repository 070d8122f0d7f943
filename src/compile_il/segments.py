"""What was found in demonstrations: boundaries and skills, how sure they are, and how they compare with the truth."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.metrics import Scores, score_boundaries


@dataclasses.dataclass(frozen=True, repr=False)
class Segments:
    """What was found in some demonstrations; lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """The inner boundaries: the first step of each segment but the first."""
    skills: list[NDArray[np.int32]]
    """The skill of each segment; where codes are Gaussian, a row of numbers for each."""
    boundary_probs: list[NDArray[np.float32]]
    """For each step, the posterior probability that a segment starts there."""
    count_probs: list[NDArray[np.float32]]
    """The posterior probability of 0, 1, 2, ... segments; all mass on one number where that was given."""
    log_likelihood: NDArray[np.float32]
    """Of the actions; found by the recognition model, of the actions together with this segmentation. A score, for
    comparing demonstrations, or models of the same settings: weights of lengths and of terminations are in it.
    """

    def __repr__(self) -> str:
        return f"Segments({len(self.skills)} demonstrations, {self.num_segments.sum()} segments)"

    @property
    def num_segments(self) -> NDArray[np.int64]:
        """How many segments were found in each demonstration."""
        return np.array([len(skills) for skills in self.skills])

    @cached_property
    def labels(self) -> list[NDArray[np.int32]]:
        """The skill of each step."""
        lists = zip(self.boundaries, self.skills, self.boundary_probs, strict=True)
        return [skills[np.searchsorted(inner, np.arange(len(p)), side="right")] for inner, skills, p in lists]


def join_segments(parts: Sequence[Segments]) -> Segments:
    """What was found in all parts, in order."""
    return Segments(
        boundaries=[entry for part in parts for entry in part.boundaries],
        skills=[entry for part in parts for entry in part.skills],
        boundary_probs=[entry for part in parts for entry in part.boundary_probs],
        count_probs=[entry for part in parts for entry in part.count_probs],
        log_likelihood=np.concatenate([part.log_likelihood for part in parts]),
    )


def score(found: Segments, demos: Demonstrations) -> Scores:
    """Compares what was found with the truth."""
    if demos.truth.boundaries is None:
        raise DemonstrationError(
            "The true boundaries of these demonstrations are not known: there is nothing to score."
        )
    return score_boundaries(found.boundaries, demos.truth.boundaries)
