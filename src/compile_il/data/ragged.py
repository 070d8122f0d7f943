"""Arrays of different lengths, packed end to end: how demonstrations lie in memory."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Int, Shaped


class Ragged:
    """Parts of different lengths, end to end: part `i` is `counts[i]` rows of `values`, from `starts[i]` on.

    All arrays are read-only. `values` is not copied.
    """

    values: Shaped[np.ndarray, "N ..."]
    counts: Int[np.ndarray, " B"]
    starts: Int[np.ndarray, " B"]

    def __init__(self, values: Shaped[np.ndarray, "N ..."], counts: Int[np.ndarray, " B"]):
        self.values = _read_only(values)
        self.counts = _read_only(counts.astype(np.int32))
        self.starts = _read_only(np.cumsum(counts, dtype=np.int64) - counts)

    @classmethod
    def pack(cls, parts: Sequence[Shaped[np.ndarray, "..."]]) -> Self:
        """Copies `parts` end to end. There must be at least one."""
        return cls(np.concatenate(parts), np.array([len(part) for part in parts]))

    @classmethod
    def join(cls, raggeds: Sequence["Ragged"]) -> Self:
        """The parts of several such objects, in order."""
        return cls(np.concatenate([r.values for r in raggeds]), np.concatenate([r.counts for r in raggeds]))

    @cached_property
    def parts(self) -> list[np.ndarray]:
        """The list of parts, each a view of `values`."""
        ends = self.starts + self.counts
        return [self.values[i:j] for i, j in zip(self.starts.tolist(), ends.tolist(), strict=True)]

    @property
    def part_index(self) -> Int[np.ndarray, " N"]:
        """For each row of `values`, the index of the part it belongs to."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def locate(self, row: int) -> tuple[int, int]:
        """The part that holds a row of `values`, and the row's place within that part."""
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        return part, row - int(self.starts[part])

    def take(self, indices: Int[np.ndarray, " n"]) -> Self:
        """The parts at `indices`, in that order: a view if they already lie end to end, else a copy."""
        starts, counts = self.starts[indices], self.counts[indices]
        ends = starts + counts
        if np.array_equal(starts[1:], ends[:-1]):
            return type(self)(self.values[starts[0] : ends[-1]], counts)
        new_starts = np.cumsum(counts) - counts
        rows = np.arange(counts.sum()) + np.repeat(starts - new_starts, counts)
        return type(self)(self.values[rows], counts)

    def padded(self, width: int) -> Shaped[np.ndarray, "B width ..."]:
        """The parts stacked, each followed by zeros up to `width` rows."""
        out = np.zeros((len(self.counts), width, *self.values.shape[1:]), self.values.dtype)
        out[np.arange(width) < self.counts[:, None]] = self.values
        return out

    def equals(self, other: "Ragged") -> bool:
        """Whether both have the same parts, with the same numbers and dtype."""
        return (
            self.values.dtype == other.values.dtype
            and np.array_equal(self.counts, other.counts)
            and np.array_equal(self.values, other.values)
        )


class Storage(NamedTuple):
    """All that a set of demonstrations holds, checked and of canonical dtypes; None where unknown.

    Each `Ragged` has one part per episode. `num_actions` is None if actions are continuous.
    """

    observations: Ragged
    actions: Ragged
    num_actions: int | None = None
    true_boundaries: Ragged | None = None
    true_codes: Ragged | None = None
    label_boundaries: Ragged | None = None
    label_codes: Ragged | None = None
    label_segments: Ragged | None = None

    def take(self, indices: Int[np.ndarray, " n"]) -> "Storage":
        """The episodes at `indices`, in that order."""
        taken: dict[str, Any] = {name: field.take(indices) for name, field in self._ragged_fields().items()}
        return self._replace(**taken)

    def join(self, others: Sequence["Storage"]) -> "Storage":
        """These episodes, then those of the others, which must know the same things."""
        joined: dict[str, Any] = {
            name: Ragged.join([field, *(getattr(other, name) for other in others)])
            for name, field in self._ragged_fields().items()
        }
        return self._replace(**joined)

    def equals(self, other: "Storage") -> bool:
        """Whether both know the same things, and the same about them."""
        mine, others = self._ragged_fields(), other._ragged_fields()
        return (
            self.num_actions == other.num_actions
            and mine.keys() == others.keys()
            and all(field.equals(others[name]) for name, field in mine.items())
        )

    def _ragged_fields(self) -> dict[str, Ragged]:
        return {name: field for name, field in self._asdict().items() if isinstance(field, Ragged)}


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that refuses writing; the caller's own array is left as it is."""
    view = array.view()
    view.flags.writeable = False
    return view
