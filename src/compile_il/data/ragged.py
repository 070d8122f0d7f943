"""Packs arrays of different lengths end to end, which is how demonstrations lie in memory."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Int, Shaped

UNKNOWN = -1
"""The label of a step or of a segment without a label."""


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
        """Copies parts end to end; there must be at least one."""
        return cls(np.concatenate(parts), np.array([len(part) for part in parts]))

    @classmethod
    def join(cls, raggeds: Sequence["Ragged"]) -> Self:
        """Copies the parts of several such objects, in order."""
        return cls(np.concatenate([r.values for r in raggeds]), np.concatenate([r.counts for r in raggeds]))

    @cached_property
    def parts(self) -> list[np.ndarray]:
        """The list of parts, each a view of `values`."""
        return [self.values[i : i + n] for i, n in zip(self.starts.tolist(), self.counts.tolist(), strict=True)]

    @property
    def part_index(self) -> Int[np.ndarray, " N"]:
        """For each row of `values`, the index of the part it belongs to."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def locate(self, row: int) -> tuple[int, int]:
        """Returns the part that holds a row of `values`, and the row's place within that part."""
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        return part, row - int(self.starts[part])

    def take(self, indices: Int[np.ndarray, " n"]) -> Self:
        """Takes the parts at `indices`, in that order: a view if they already lie end to end, else a copy."""
        starts, counts = self.starts[indices], self.counts[indices]
        ends = starts + counts
        if np.array_equal(starts[1:], ends[:-1]):
            return type(self)(self.values[starts[0] : ends[-1]], counts)
        new_starts = np.cumsum(counts) - counts
        rows = np.arange(counts.sum()) + np.repeat(starts - new_starts, counts)
        return type(self)(self.values[rows], counts)

    def padded(self, width: int, fill: int = 0) -> Shaped[np.ndarray, "B width ..."]:
        """Stacks the parts, each filled up to `width` rows."""
        out = np.full((len(self.counts), width, *self.values.shape[1:]), fill, self.values.dtype)
        out[np.arange(width) < self.counts[:, None]] = self.values
        return out

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ragged)
            and self.values.dtype == other.values.dtype
            and np.array_equal(self.counts, other.counts)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]


class Storage(NamedTuple):
    """All arrays of a set of demonstrations, checked and of canonical dtypes; None where unknown.

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

    @property
    def raggeds(self) -> dict[str, Ragged]:
        """All fields that are `Ragged`, by name."""
        return {name: field for name, field in self._asdict().items() if isinstance(field, Ragged)}

    def take(self, indices: Int[np.ndarray, " n"]) -> "Storage":
        """Takes the episodes at `indices`, in that order."""
        taken: dict[str, Any] = {name: field.take(indices) for name, field in self.raggeds.items()}
        return self._replace(**taken)

    @classmethod
    def join(cls, storages: Sequence["Storage"]) -> "Storage":
        """Joins episodes in one space with the same parts of the truth; labels that some do not have are unknown."""

        def field_of(name: str, storage: Storage) -> Ragged:
            counts = storage.actions.counts * (name != "label_segments")
            return storage.raggeds.get(name) or Ragged(np.full(counts.sum(), UNKNOWN, np.int32), counts)

        names = {name: None for storage in storages for name in storage.raggeds}
        joined: dict[str, Any] = {n: Ragged.join([field_of(n, storage) for storage in storages]) for n in names}
        return storages[0]._replace(**joined)

    def describe(self) -> str:
        """Describes all, as in `2 episodes, 3..5 steps, vector of 4 float32, 8 discrete actions, truth unknown`."""
        lengths = self.actions.counts
        shortest, longest = int(lengths.min()), int(lengths.max())
        steps = _count(longest, "step") if shortest == longest else f"{shortest}..{longest} steps"
        words = [_count(len(lengths), "episode"), steps, self.describe_space()]
        if self.label_boundaries is not None and self.label_codes is not None:
            is_labelled = (self.label_boundaries.values >= 0) | (self.label_codes.values >= 0)
            has_labels = np.bincount(self.actions.part_index[is_labelled], minlength=len(lengths)) > 0
            if self.label_segments is not None:
                has_labels |= self.label_segments.counts > 0
            words.append(f"labels in {_count(int(has_labels.sum()), 'episode')}")
        return ", ".join(words)

    def describe_space(self) -> str:
        """Describes the space of observations and actions, and which parts of the truth are known."""
        frames, action_dim = self.observations.values, self.actions.values.shape[-1]
        space = describe_space(frames.shape[1:], self.num_actions, action_dim, f" {frames.dtype}", "symbols")
        known = [name for name in ("boundaries", "codes") if f"true_{name}" in self.raggeds]
        truth = f"true {' and '.join(known)} known" if known else "truth unknown"
        return f"{space}, {truth}"


def describe_space(shape: tuple[int, ...], num_actions: int | None, action_dim: int, dtype: str, symbols: str) -> str:
    """Describes observations and actions, as in `vector of 4, 8 discrete actions`."""
    kind = "vector of" if len(shape) == 1 else "grid"
    special = {(): symbols, (0,): "no states"}
    observations = special.get(shape, f"{kind} {'x'.join(map(str, shape))}{dtype}")
    actions = _count(num_actions, "discrete action") if num_actions else f"continuous actions of width {action_dim}"
    return f"{observations}, {actions}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _read_only(array: np.ndarray) -> np.ndarray:
    """Returns a view that refuses writing; the caller's own array is left as it is."""
    view = array.view()
    view.flags.writeable = False
    return view
