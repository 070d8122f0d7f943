"""Holds demonstrations: episodes of different lengths, with the truth about their segments and labels."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy.typing import ArrayLike

from compile_il.data.labels import PartialLabels, Parts, Truth, check_labels, check_truth, labels_from_truth
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


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One episode: T+1 observations, the last one where it ended, and T actions. `len` of it is T."""

    observations: Shaped[np.ndarray, "num_frames ..."]
    actions: Shaped[np.ndarray, "T ..."]
    truth: Truth[np.ndarray]
    labels: PartialLabels[np.ndarray] | None

    def __len__(self) -> int:
        return len(self.actions)


class Padded(NamedTuple):
    """A batch in which every episode has T steps. What lies beyond an episode's length is zero."""

    observations: Shaped[np.ndarray, "B T+1 ..."]
    actions: Shaped[np.ndarray, "B T ..."]
    valid: Bool[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]


@dataclass(frozen=True, repr=False)
class Demonstrations:
    """One or more demonstrations of one task, or of many, in one observation space and one action space.

    Made by `from_arrays`, `from_packed`, `load` or `from_minari`, which check all arrays and raise
    `DemonstrationError`. Never changed afterwards: arrays are read-only, methods return new objects.

    | kind       | given as                         | kept as                                         |
    |------------|----------------------------------|-------------------------------------------------|
    | grid       | (H, W, C) per frame              | uint8 if integers within 0 to 255, else float32 |
    | vector     | (D,) per frame, D may be 0       | float32                                         |
    | symbol     | an integer >= 0 per frame        | int32                                           |
    | discrete   | an integer >= 0 per step         | int32, with `num_actions`                       |
    | continuous | (A,) floats per step, or a float | float32, (A,)                                   |
    """

    storage: Storage
    """The packed arrays behind it all; `observations` and `actions` are views of these."""

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
        """Makes demonstrations from lists with one array per episode, which are copied.

        Args:
          observations: T+1 observations per episode, the final one included; None if there are no states.
          actions: T actions per episode.
          num_actions: how many discrete actions there are; by default the largest one plus 1.
          boundaries: the true inner boundaries, if known: M-1 steps within 1 to T-1 per episode.
          codes: the true codes, if known: M numbers per episode.
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
        """Makes demonstrations from arrays that hold all episodes end to end, T+1 frames and T actions for each.

        Arrays that have their final dtype are not copied: do not write to them afterwards. `lengths` are the T;
        `frames`, `num_actions` and `truth` are as in `from_arrays`, `labels` as in `with_labels`.
        """
        demos = cls(check_packed(frames, actions, lengths, num_actions))
        if truth is not None:
            demos = demos.with_truth(boundaries=truth.boundaries, codes=truth.codes)
        if labels is not None:
            demos = demos.with_labels(labels.boundaries, labels.codes, labels.segment_codes)
        return demos

    @classmethod
    def concatenate(cls, parts: Sequence["Demonstrations"]) -> Self:
        """Joins the episodes of all parts, in order; where only some have labels, those of the others are unknown."""
        if len(parts) == 0:
            raise DemonstrationError("There is nothing to concatenate; give at least one set of demonstrations.")
        spaces = [part.storage.describe_space() for part in parts]
        for i, space in enumerate(spaces):
            if space != spaces[0]:
                raise DemonstrationError(
                    f"Part {i} has {space}; part 0 has {spaces[0]}. Build all parts in one space, with the same "
                    "num_actions, and drop truth that not all parts have, using with_truth()."
                )
        return cls(Storage.join([part.storage for part in parts]))

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
    def truth(self) -> Truth[list[np.ndarray]]:
        """The true boundaries and codes of segments; each is None if unknown."""
        return _truth_in({name: field.parts for name, field in self.storage.raggeds.items()})

    @cached_property
    def labels(self) -> PartialLabels[list[np.ndarray]] | None:
        """The labels, step by step or segment by segment; None if there are none."""
        return _labels_in({name: field.parts for name, field in self.storage.raggeds.items()})

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

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[Demonstration]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Demonstration: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Self: ...
    def __getitem__(self, index: Any) -> "Demonstration | Demonstrations":
        """Returns a demonstration for an integer; a set of them for a slice, integers, or a boolean per episode."""
        if isinstance(index, int | np.integer):
            arrays = {name: field.parts[index] for name, field in self.storage.raggeds.items()}
            return Demonstration(arrays["observations"], arrays["actions"], _truth_in(arrays), _labels_in(arrays))
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise IndexError("Episodes lie along one axis; index with an integer, a slice or a flat array.")
        if chosen.size == 0:
            raise DemonstrationError(f"This selects none of the {len(self)} episodes; at least one is needed.")
        return type(self)(self.storage.take(chosen))

    def split(self, fraction: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Splits into two shuffled sets that share no episode: `fraction` of the episodes, and the rest."""
        check_fraction(fraction, below_one=True)
        if len(self) == 1:
            raise DemonstrationError("There is only one episode, and a split needs two or more.")
        num_first = round(fraction * len(self))
        if not 0 < num_first < len(self):
            raise DemonstrationError(
                f"A fraction of {fraction} of {len(self)} episodes is {num_first} of them; "
                "choose one that leaves at least one episode on either side."
            )
        order = np.random.default_rng(whole_number("seed", seed, 0)).permutation(len(self))
        return self[order[:num_first]], self[order[num_first:]]

    def padded(self, max_length: int | None = None) -> Padded:
        """Pads all with zeros to `max_length` or the longest, to run skills and score; training uses `data.batch`."""
        T = self.max_length if max_length is None else whole_number("max_length", max_length, self.max_length)
        observations, actions = self.storage.observations.padded(T + 1), self.storage.actions.padded(T)
        return Padded(observations, actions, np.arange(T) < self.lengths[:, None], self.lengths)

    def with_truth(
        self, boundaries: Sequence[Any] | Ragged | None = None, codes: Sequence[Any] | Ragged | None = None
    ) -> Self:
        """Replaces the truth about segments, as in `from_arrays`; without arguments, drops it.

        It is given for all demonstrations or for none. A part of them can be scored alone:
        `demos[[1, 4]].with_truth(...)`.
        """
        return type(self)(self.storage._replace(**check_truth(self.lengths, boundaries, codes)))

    def with_labels(
        self,
        boundaries: Sequence[Any] | None = None,
        codes: Sequence[Any] | None = None,
        segment_codes: Sequence[Any] | None = None,
        *,
        boundary_places: Sequence[Any] | None = None,
    ) -> Self:
        """Replaces the labels; without arguments, drops them.

        Labels may contradict the truth, as people's labels do, but not each other.

        Args:
          boundaries: for each episode None, or one number per step: 1 (a segment starts here), 0 (none does) or
            `UNKNOWN`; at step 0, 1 and 0 mean the same.
          codes: for each episode None, or one number per step: a code or `UNKNOWN`.
          segment_codes: for each episode None, or a code or `UNKNOWN` for each segment in order, wherever it may start.
          boundary_places: in place of `boundaries`, for each episode None, or all its inner boundaries: the first step
            of each segment but the first, such as [15, 23] for three segments and [] for one.
        """
        labels = check_labels(self.lengths, boundaries, codes, segment_codes, boundary_places)
        return type(self)(self.storage._replace(**labels))

    def reveal(
        self,
        *,
        boundaries: bool = True,
        codes: bool = True,
        segment_codes: bool = False,
        fraction: float = 1.0,
        seed: int = 0,
    ) -> Self:
        """Turns the truth about a fraction of the demonstrations, at least one, into labels; the others have none.

        With one seed, the episodes shown at a smaller fraction are among those shown at a larger one.

        Args:
          boundaries: whether to label where segments start.
          codes: whether to label each step with the code of its segment, which shows boundaries too.
          segment_codes: whether to list the codes of the segments in order, which does not show where they start.
          fraction: above 0 and up to 1.
          seed: chooses the episodes.
        """
        shown = {"boundaries": boundaries, "codes": codes, "segment_codes": segment_codes}
        return self.with_labels(**labels_from_truth(self.truth, self.lengths, **shown, fraction=fraction, seed=seed))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes an npz file, whole or not at all, and returns its path; `.npz` is appended if there is no suffix."""
        from compile_il.data.files import save

        return save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Demonstrations":
        """Reads what `save` wrote, and checks all of it again. Nothing in the file is ever executed."""
        from compile_il.data.files import load

        return load(path)

    def to_minari(self, dataset_id: str, *, overwrite: bool = False, env_id: str | None = None) -> None:
        """Writes a dataset, such as `namespace/name-v0`, in the local Minari store. Needs the extra `minari`.

        Rewards are zero, and every episode is written as terminated at its last step, also one that was cut there:
        demonstrations do not say which. `env_id` is the registered Gymnasium environment that they come from.
        """
        from compile_il.data.minari import to_minari

        to_minari(self, dataset_id, overwrite=overwrite, env_id=env_id)

    @classmethod
    def from_minari(cls, dataset_id: str) -> "Demonstrations":
        """Reads a dataset from the local Minari store, ours or another's; nothing is downloaded.

        Observations and actions must lie in a Box or a Discrete space. Truth and labels are read where all episodes
        have them. Needs the extra `minari`.
        """
        from compile_il.data.minari import from_minari

        return from_minari(dataset_id)

    def __repr__(self) -> str:
        return f"Demonstrations({self.storage.describe()})"


def _truth_in(arrays: dict[str, Parts]) -> Truth[Parts]:
    return Truth(arrays.get("true_boundaries"), arrays.get("true_codes"))


def _labels_in(arrays: dict[str, Parts]) -> PartialLabels[Parts] | None:
    if "label_codes" not in arrays:
        return None
    return PartialLabels(arrays["label_boundaries"], arrays["label_codes"], arrays.get("label_segments"))


def not_demonstrations(given: Any, otherwise: str = "") -> DemonstrationError:
    """Makes the error for what is no `Demonstrations`; `otherwise` says what else would do."""
    return DemonstrationError(
        f"Demonstrations are needed{otherwise}, and this is a {type(given).__name__}: make them with "
        "Demonstrations.from_arrays(observations, actions) or Demonstrations.load(file); for a single one of a set, "
        "pass demos[[i]] in place of demos[i]."
    )
