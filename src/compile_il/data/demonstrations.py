"""Demonstrations: episodes of different lengths, with what is known about their segments.

A demonstration is T+1 observations, the last one where it ended, and T actions. See `Demonstrations`.

Joins several sets of demonstrations into one.

Demonstrations as arrays of one shape, for programs that run on a whole batch at once.

Both records are named tuples, so JAX takes them as they are: `jax.tree.map(jnp.asarray, demos.padded())`.

Demonstrations in words, for people: what `repr` shows and what errors compare.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy.typing import ArrayLike

from compile_il.data.labels import (
    UNKNOWN,
    EpisodeLabels,
    EpisodeTruth,
    PartialLabels,
    Truth,
    check_label_boundaries,
    check_label_codes,
    check_segment_codes,
    check_true_boundaries,
    check_true_codes,
    labels_at_places,
    no_segment_codes,
    reveal_truth,
    unknown_labels,
)
from compile_il.data.ragged import Ragged, Storage
from compile_il.data.validation import (
    KIND_OF_RANK,
    ActionKind,
    DemonstrationError,
    ObservationKind,
    check_fraction,
    check_packed,
    pack_episodes,
    whole_number,
)


def describe(storage: Storage) -> str:
    """A summary, such as `2 episodes, 3..5 steps, vector of 4 float32, 8 discrete actions, truth known`."""
    lengths = storage.actions.counts
    shortest, longest = int(lengths.min()), int(lengths.max())
    steps = _count(longest, "step") if shortest == longest else f"{shortest}..{longest} steps"
    words = [_count(len(lengths), "episode"), steps, space(storage), truth(storage)]
    if storage.label_boundaries is not None and storage.label_codes is not None:
        told = (storage.label_boundaries.values != UNKNOWN) | (storage.label_codes.values != UNKNOWN)
        is_told = np.bincount(storage.actions.part_index[told], minlength=len(lengths)) > 0
        if storage.label_segments is not None:
            is_told |= storage.label_segments.counts > 0
        num_told = int(is_told.sum())
        words.append(f"labels in {_count(num_told, 'episode')}")
    return ", ".join(words)


def space(storage: Storage) -> str:
    """Kind, shape and dtype of observations and actions; words are equal where spaces are."""
    frames, actions = storage.observations.values, storage.actions.values
    match frames.shape[1:]:
        case ():
            observations = "symbols"
        case (0,):
            observations = "no states"
        case (width,):
            observations = f"vector of {width} {frames.dtype}"
        case (height, width, channels):
            observations = f"grid {height}x{width}x{channels} {frames.dtype}"
    if storage.num_actions is None:
        return f"{observations}, continuous actions of width {actions.shape[1]}"
    return f"{observations}, {_count(storage.num_actions, 'discrete action')}"


def truth(storage: Storage) -> str:
    """Words for what is known of the truth."""
    match storage.true_boundaries is not None, storage.true_codes is not None:
        case True, True:
            return "truth known"
        case True, False:
            return "true boundaries known"
        case False, True:
            return "true codes known"
    return "truth unknown"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def join_storages(parts: Sequence[Storage]) -> Storage:
    """Joins sets of demonstrations, whose spaces must be equal; see `Demonstrations.concatenate`."""
    if len(parts) == 0:
        raise DemonstrationError("There is nothing to concatenate; give at least one set of demonstrations.")
    first = parts[0]
    for i, part in enumerate(parts):
        if space(part) != space(first):
            raise DemonstrationError(
                f"Part {i} has {space(part)}; part 0 has {space(first)}. "
                "Build all parts in one space, with the same num_actions."
            )
        if truth(part) != truth(first):
            raise DemonstrationError(
                f"Part {i}: {truth(part)}; part 0: {truth(first)}. Drop what not all parts know, using with_truth()."
            )
    if any(part.label_codes is not None for part in parts):
        parts = [part if part.label_codes is not None else _with_unknown_labels(part) for part in parts]
    if any(part.label_segments is not None for part in parts):
        parts = [part if part.label_segments is not None else _with_no_segment_codes(part) for part in parts]
    return parts[0].join(parts[1:])


def _with_unknown_labels(storage: Storage) -> Storage:
    unknown = unknown_labels(storage.actions.counts)
    return storage._replace(label_boundaries=unknown, label_codes=unknown)


def _with_no_segment_codes(storage: Storage) -> Storage:
    return storage._replace(label_segments=no_segment_codes(len(storage.actions.counts)))


class Padded(NamedTuple):
    """A batch in which every episode has T steps. What lies beyond an episode's length is zero."""

    observations: Shaped[np.ndarray, "B T+1 ..."]
    actions: Shaped[np.ndarray, "B T ..."]
    valid: Bool[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]


class Packed(NamedTuple):
    """A batch whose frames lie end to end, so that a network runs on frames that exist, and on nothing else.

    `frames[frame_index]` are the observations of `Padded`, except that beyond its end an episode repeats its
    last observation, where `Padded` has zeros. Frames after those of the last episode are zero, and unused.
    """

    frames: Shaped[np.ndarray, "F ..."]
    frame_index: Int[np.ndarray, "B T+1"]
    actions: Shaped[np.ndarray, "B T ..."]
    valid: Bool[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]


def pad(storage: Storage, max_length: int | None) -> Padded:
    """Makes one batch padded with zeros; see `Demonstrations.padded`."""
    T = _check_size(max_length, int(storage.actions.counts.max()), "max_length", "steps of the longest episode")
    return Padded(
        observations=storage.observations.padded(T + 1),
        actions=storage.actions.padded(T),
        valid=np.arange(T) < storage.actions.counts[:, None],
        lengths=storage.actions.counts,
    )


def pack(storage: Storage, num_frames: int | None, max_length: int | None) -> Packed:
    """Makes one batch with frames end to end; see `Demonstrations.packed`."""
    lengths, frames = storage.actions.counts, storage.observations.values
    T = _check_size(max_length, int(lengths.max()), "max_length", "steps of the longest episode")
    F = _check_size(num_frames, len(frames), "num_frames", "frames of all episodes")
    if len(frames) < F:
        frames = np.concatenate([frames, np.zeros((F - len(frames), *frames.shape[1:]), frames.dtype)])
    first_frame = storage.observations.starts
    return Packed(
        frames=frames,
        frame_index=(first_frame[:, None] + np.minimum(np.arange(T + 1), lengths[:, None])).astype(np.int32),
        actions=storage.actions.padded(T),
        valid=np.arange(T) < lengths[:, None],
        lengths=lengths,
    )


def _check_size(asked: int | None, needed: int, name: str, what: str) -> int:
    size = needed if asked is None else whole_number(name, asked, 1)
    if size < needed:
        raise DemonstrationError(f"{name} is {size}, shorter than the {needed} {what}; raise it to at least {needed}.")
    return size


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One episode: T+1 observations and T actions. `len` of it is T."""

    observations: Shaped[np.ndarray, "num_frames ..."]
    actions: Shaped[np.ndarray, "T ..."]
    truth: EpisodeTruth = field(default_factory=EpisodeTruth)
    labels: EpisodeLabels | None = None

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False, repr=False)
class Demonstrations:
    """One or more demonstrations of one task, or of many, in one observation space and one action space.

    Made by `from_arrays`, `from_packed`, `load` or `from_minari`, which check all they are given and raise
    `DemonstrationError`. Never changed afterwards: arrays are read-only, methods return new objects.

    | kind       | given as                         | kept as                                         |
    |------------|----------------------------------|-------------------------------------------------|
    | grid       | (H, W, C) per frame              | uint8 if integers within 0 to 255, else float32 |
    | vector     | (D,) per frame, D may be 0       | float32                                         |
    | symbol     | an integer >= 0 per frame        | int32                                           |
    | discrete   | an integer >= 0 per step         | int32, with `num_actions`                       |
    | continuous | (A,) floats per step, or a float | float32, (A,)                                   |

    Attributes:
      storage: the packed arrays behind it all; `observations` and `actions` are views of these.
    """

    storage: Storage

    # Ways in

    @classmethod
    def from_arrays(
        cls,
        observations: Sequence[Any] | None,
        actions: Sequence[Any],
        *,
        num_actions: int | None = None,
        boundaries: Sequence[Any] | None = None,
        codes: Sequence[Any] | None = None,
    ) -> Self:
        """Demonstrations from lists with one array per episode. The arrays are copied.

        Args:
          observations: T+1 observations per episode, the final one included; None if there are no states.
          actions: T actions per episode.
          num_actions: how many discrete actions there are; by default the largest one plus 1.
          boundaries: the true inner boundaries, where known: M-1 steps within 1 to T-1 per episode.
          codes: the true codes, where known: M numbers per episode.
        """
        demos = cls(check_packed(*pack_episodes(observations, actions), num_actions))
        return demos.with_truth(boundaries=boundaries, codes=codes)

    @classmethod
    def from_packed(
        cls,
        frames: ArrayLike | None,
        actions: ArrayLike,
        lengths: ArrayLike,
        *,
        num_actions: int | None = None,
        truth: Truth | None = None,
        labels: PartialLabels | None = None,
    ) -> Self:
        """Demonstrations from arrays that hold all episodes end to end.

        Arrays that have their final dtype are not copied: do not write to them afterwards.

        Args:
          frames: the observations of all episodes, T+1 rows for each; None if there are no states.
          actions: the actions of all episodes, T rows for each.
          lengths: the number of steps T of each episode.
          num_actions: how many discrete actions there are; by default the largest one plus 1.
          truth: the true boundaries and codes, where known.
          labels: what a learner is told about segments.
        """
        demos = cls(check_packed(frames, actions, lengths, num_actions))
        if truth is not None:
            demos = demos.with_truth(boundaries=truth.boundaries, codes=truth.codes)
        if labels is not None:
            demos = demos.with_labels(labels.boundaries, labels.codes, labels.segment_codes)
        return demos

    @classmethod
    def concatenate(cls, parts: Sequence["Demonstrations"]) -> Self:
        """The episodes of all parts, in order.

        Parts must lie in one space and know the same about the truth. If some have labels, the labels of the
        others are unknown.
        """
        return cls(join_storages([part.storage for part in parts]))

    # What is in it

    @property
    def observations(self) -> list[np.ndarray]:
        """For each episode, its T+1 observations."""
        return self.storage.observations.parts

    @property
    def actions(self) -> list[np.ndarray]:
        """For each episode, its T actions."""
        return self.storage.actions.parts

    @property
    def lengths(self) -> Int[np.ndarray, " B"]:
        """For each episode, its number of steps T."""
        return self.storage.actions.counts

    @cached_property
    def truth(self) -> Truth:
        """The true boundaries and codes of segments; each is None if unknown."""
        return Truth(_parts(self.storage.true_boundaries), _parts(self.storage.true_codes))

    @cached_property
    def labels(self) -> PartialLabels | None:
        """What a learner is told, step by step or segment by segment; None if nothing."""
        boundaries, codes = self.storage.label_boundaries, self.storage.label_codes
        if boundaries is None or codes is None:
            return None
        return PartialLabels(boundaries.parts, codes.parts, _parts(self.storage.label_segments))

    @property
    def observation_kind(self) -> ObservationKind:
        """Kind of observation: `"grid"`, `"vector"` or `"symbol"`."""
        return KIND_OF_RANK[len(self.observation_shape)]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation: (H, W, C), (D,) or ()."""
        return self.storage.observations.values.shape[1:]

    @property
    def action_kind(self) -> ActionKind:
        """Kind of action: `"discrete"` or `"continuous"`."""
        return "continuous" if self.num_actions is None else "discrete"

    @property
    def num_actions(self) -> int | None:
        """How many discrete actions there are; None if actions are continuous."""
        return self.storage.num_actions

    @property
    def action_dim(self) -> int | None:
        """Width A of continuous actions; None if actions are discrete."""
        return self.storage.actions.values.shape[1] if self.num_actions is None else None

    @property
    def num_frames(self) -> int:
        """Number of observations in all episodes together."""
        return len(self.storage.observations.values)

    @property
    def num_steps(self) -> int:
        """Number of actions in all episodes together."""
        return len(self.storage.actions.values)

    @property
    def max_length(self) -> int:
        """Number of steps of the longest episode."""
        return int(self.lengths.max())

    # Some of it

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Demonstration]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Demonstration: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Self: ...
    def __getitem__(self, index: Any) -> "Demonstration | Demonstrations":
        """A demonstration for an integer; a set of them for a slice, integers, or a boolean per episode."""
        if isinstance(index, int | np.integer):
            return self._one(int(index))
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise IndexError("Episodes lie along one axis; index with an integer, a slice or a flat array.")
        if chosen.size == 0:
            raise DemonstrationError(f"This selects none of the {len(self)} episodes; at least one is needed.")
        return self._take(chosen)

    def _take(self, indices: Int[np.ndarray, " n"]) -> Self:
        return type(self)(self.storage.take(indices))

    def _one(self, i: int) -> Demonstration:
        truth = EpisodeTruth(_entry(self.truth.boundaries, i), _entry(self.truth.codes, i))
        labels = None
        if self.labels is not None:
            segment_codes = _entry(self.labels.segment_codes, i)
            labels = EpisodeLabels(self.labels.boundaries[i], self.labels.codes[i], segment_codes)
        return Demonstration(self.observations[i], self.actions[i], truth, labels)

    def split(self, fraction: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Two sets, shuffled, that share no episode: `fraction` of the episodes, and the rest."""
        check_fraction(fraction)
        seed = whole_number("seed", seed, 0)
        num_first = round(fraction * len(self))
        if not 0 < num_first < len(self):
            raise DemonstrationError(
                f"A fraction of {fraction} of {len(self)} episodes is {num_first} of them; "
                "choose one that leaves at least one episode on either side."
            )
        order = np.random.default_rng(seed).permutation(len(self))
        return self._take(order[:num_first]), self._take(order[num_first:])

    # All of it, in arrays of one shape

    def padded(self, max_length: int | None = None) -> Padded:
        """All episodes as one batch: T is `max_length`, by default the longest, and padding is zero."""
        return pad(self.storage, max_length)

    def packed(self, num_frames: int | None = None, *, max_length: int | None = None) -> Packed:
        """All episodes as one batch whose frames are end to end, without padding in between.

        Args:
          num_frames: append zero frames up to this number, so that a compiled program sees one shape.
          max_length: T of the other arrays; by default the longest episode.
        """
        return pack(self.storage, num_frames, max_length)

    # What is known about segments

    def with_truth(
        self, boundaries: Sequence[Any] | Ragged | None = None, codes: Sequence[Any] | Ragged | None = None
    ) -> Self:
        """The same demonstrations with this truth in place of theirs; without arguments, with none.

        The truth is known of all demonstrations or of none. Those of which it is known can be scored by themselves:
        `demos[[1, 4]].with_truth(...)`.

        Args:
          boundaries: M-1 inner boundaries per episode, or None if unknown.
          codes: M codes per episode, or None if unknown.
        """
        starts = None if boundaries is None else check_true_boundaries(boundaries, self.lengths)
        ids = None if codes is None else check_true_codes(codes, self.lengths, starts)
        return type(self)(self.storage._replace(true_boundaries=starts, true_codes=ids))

    def with_labels(
        self,
        boundaries: Sequence[Any] | None = None,
        codes: Sequence[Any] | None = None,
        segment_codes: Sequence[Any] | None = None,
        *,
        boundary_places: Sequence[Any] | None = None,
    ) -> Self:
        """The same demonstrations with these labels in place of theirs; without arguments, with none.

        Labels may contradict the truth, as people's labels do, but not each other.

        Args:
          boundaries: for each episode None, or one number per step: 1 (a segment starts here), 0 (none does) or
            `UNKNOWN`.
          codes: for each episode None, or one number per step: a code or `UNKNOWN`.
          segment_codes: for each episode None, or one number per segment in order, wherever it may start: a code or
            `UNKNOWN`. It tells how many segments there are.
          boundary_places: in place of `boundaries`, for each episode None, or where all its inner boundaries are, as in
            the truth and in what is found: the first step of each segment but the first, such as [15, 23] for three
            segments and [] for one.
        """
        if boundaries is not None and boundary_places is not None:
            raise DemonstrationError(
                "boundaries and boundary_places are both given; pass one of them: one label per step, or places."
            )
        if boundaries is None and boundary_places is None and codes is None and segment_codes is None:
            nothing = self.storage._replace(label_boundaries=None, label_codes=None, label_segments=None)
            return type(self)(nothing)
        if boundary_places is None:
            starts = check_label_boundaries(boundaries, self.lengths)
        else:
            starts = labels_at_places(boundary_places, self.lengths)
        ids = check_label_codes(codes, self.lengths, starts)
        in_order = None if segment_codes is None else check_segment_codes(segment_codes, starts, ids)
        told = self.storage._replace(label_boundaries=starts, label_codes=ids, label_segments=in_order)
        return type(self)(told)

    def reveal(
        self,
        *,
        boundaries: bool = True,
        codes: bool = True,
        segment_codes: bool = False,
        fraction: float = 1.0,
        seed: int = 0,
    ) -> Self:
        """The same demonstrations with the truth about some of them as labels, and nothing about the others.

        With one seed, the episodes shown at a smaller fraction are among those shown at a larger one. Codes,
        being per step, also show the boundaries between segments of different codes.

        Args:
          boundaries: whether to tell where segments start.
          codes: whether to tell the code of the segment that each step belongs to.
          segment_codes: whether to tell the codes of the segments in order; by itself, this says nothing about where
            they start.
          fraction: part of the episodes to show, above 0 and up to 1; at least one is shown.
          seed: chooses the episodes.
        """
        told = {"boundaries": boundaries, "codes": codes, "segment_codes": segment_codes}
        return type(self)(reveal_truth(self.storage, **told, fraction=fraction, seed=seed))

    # Files

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes everything to an npz file, whole or not at all, and returns its path.

        Args:
          path: where; `.npz` is appended if there is no suffix.
          overwrite: whether an existing file may be replaced.
        """
        from compile_il.data.files import save

        return save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Demonstrations":
        """Reads what `save` wrote, and checks all of it again. Nothing in the file is ever executed."""
        from compile_il.data.files import load

        return load(path)

    def to_minari(self, dataset_id: str, *, overwrite: bool = False, env_id: str | None = None) -> None:
        """Writes everything to a dataset in the local Minari store. Needs `pip install 'compile-il[minari]'`.

        Rewards are zero, and every episode is written as terminated at its last step, also one that was cut there:
        demonstrations do not say which.

        Args:
          dataset_id: such as `namespace/name-v0`.
          overwrite: whether an existing dataset may be replaced.
          env_id: the Gymnasium environment that the demonstrations come from, if it is registered.
        """
        from compile_il.data.minari import to_minari

        if self.storage.label_segments is not None:
            raise DemonstrationError(
                "Minari datasets do not keep the codes of segments: drop them with "
                "with_labels(labels.boundaries, labels.codes), or use save()."
            )
        to_minari(self, dataset_id, overwrite=overwrite, env_id=env_id)

    @classmethod
    def from_minari(cls, dataset_id: str) -> "Demonstrations":
        """Reads a dataset from the local Minari store, ours or another's; nothing is downloaded.

        Observations and actions must lie in a Box or a Discrete space. Truth and labels are read where all
        episodes have them. Needs `pip install 'compile-il[minari]'`.
        """
        from compile_il.data.minari import from_minari

        return from_minari(dataset_id)

    # As a value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Demonstrations) and self.storage.equals(other.storage)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Demonstrations({describe(self.storage)})"


def _parts(ragged: Ragged | None) -> list[np.ndarray] | None:
    return None if ragged is None else ragged.parts


def _entry(parts: list[np.ndarray] | None, i: int) -> np.ndarray | None:
    return None if parts is None else parts[i]


def not_demonstrations(given: Any, otherwise: str = "") -> DemonstrationError:
    """Returns the error for what is no `Demonstrations`; `otherwise` says what would have done as well."""
    if isinstance(given, Demonstration):
        return DemonstrationError(
            "Demonstrations are needed, and this is a single one of them: take a set that holds it, demos[:1] or "
            "demos[[i]], in place of demos[i]."
        )
    return DemonstrationError(
        f"Demonstrations are needed{otherwise}, and this is a {type(given).__name__}: make them with "
        "Demonstrations.from_arrays(observations, actions), or read them with Demonstrations.load(file)."
    )
