"""Holds the segmentation of demonstrations: boundaries and skills, with their probabilities."""

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Segments:
    """Segmentation of some demonstrations, in lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """The inner boundaries: the first step of each segment but the first."""
    skills: list[NDArray[np.int32]]
    """The skill of each segment; where codes are Gaussian, a row of numbers for each."""
    boundary_probs: list[NDArray[np.float32]]
    """For each step, the posterior probability that a segment starts there."""
    count_probs: list[NDArray[np.float32]]
    """The posterior probability of 0, 1, 2, ... segments; all mass on one number if that was given."""
    log_likelihood: NDArray[np.float32]
    """Log-likelihood of the actions; from the recognition model, of the actions together with this segmentation. A
    score, for comparing demonstrations, or models of the same settings: weights of lengths and of terminations are in
    it.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segments) or len(self) != len(other):
            return False
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in dataclasses.fields(self))
        return all(np.array_equal(one, another) for pair in pairs for one, another in zip(*pair, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Segments({len(self.skills)} demonstrations, {self.num_segments.sum()} segments)"

    def __len__(self) -> int:
        """Number of demonstrations."""
        return len(self.skills)

    @property
    def num_segments(self) -> NDArray[np.int64]:
        """Number of segments in each demonstration."""
        return np.array([len(skills) for skills in self.skills])

    @cached_property
    def labels(self) -> list[NDArray[np.int32]]:
        """The skill of each step, as one array for each demonstration."""
        lists = zip(self.boundaries, self.skills, self.boundary_probs, strict=True)
        return [skills[np.searchsorted(inner, np.arange(len(p)), side="right")] for inner, skills, p in lists]

    def rows(self) -> list[dict[str, Any]]:
        """Returns one record of plain values for each segment, in order, for tables: pandas, `csv.DictWriter` or JSON.

        Columns are the indices `demonstration` and `segment`, from 0; `start`, and `end`, the step after its last one;
        and `skill`, a list of numbers where codes are Gaussian. For pandas: `pandas.DataFrame(segments.rows())`.
        """
        rows = list[dict[str, Any]]()
        for i, (inner, skills, probs) in enumerate(zip(self.boundaries, self.skills, self.boundary_probs, strict=True)):
            starts = [0, *inner.tolist()]
            ends = [*starts[1:], len(probs)]
            for m, (start, end, skill) in enumerate(zip(starts, ends, skills.tolist(), strict=True)):
                rows.append({"demonstration": i, "segment": m, "start": start, "end": end, "skill": skill})
        return rows
