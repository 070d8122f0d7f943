"""The truth about segments, where it is known: boundaries and codes of whole demonstrations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import NDArray

from compile_il.demos.checks import (
    INT32_MAX,
    INTEGERS,
    DemonstrationError,
    as_array,
    check_list,
    refuse_where,
)
from compile_il.demos.storage import Ragged

NUM_NAMED = 5
"""How many episodes an error names at most: there may be thousands."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Where segments start and which codes they have: one array per episode, or None where that is unknown.

    Attributes:
      boundaries: the M-1 inner boundaries of M segments; each is the first step of the next segment.
      codes: M numbers from 0 up, one per segment.
    """

    boundaries: list[np.ndarray] | None = None
    codes: list[np.ndarray] | None = None

    @property
    def num_segments(self) -> NDArray[np.int64] | None:
        """M of each episode, or None where neither boundaries nor codes tell it."""
        if self.boundaries is not None:
            return np.array([len(inner) + 1 for inner in self.boundaries], np.int64)
        return None if self.codes is None else np.array([len(codes) for codes in self.codes], np.int64)


@dataclass(frozen=True, eq=False)
class EpisodeTruth:
    """The truth about one demonstration; see `Truth`."""

    boundaries: Int[np.ndarray, " num_boundaries"] | None = None
    codes: Int[np.ndarray, " M"] | None = None


def check_true_boundaries(boundaries: Any, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """True boundaries end to end, of all episodes; see `check_inner_boundaries`."""
    _refuse_unknown(boundaries, "boundaries", len(lengths), label="boundary_places")
    return check_inner_boundaries(boundaries, "boundaries", lengths)


def check_inner_boundaries(boundaries: Any, name: str, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Places of inner boundaries end to end: within 1 to T-1, strictly increasing in each episode."""
    packed = pack_integers(boundaries, name, len(lengths))
    values, episode = packed.values, packed.part_index
    refuse_where(
        packed,
        (values < 1) | (values >= lengths[episode]),
        lambda i, _, v: (
            f"Episode {i} has a boundary at step {v}, but inner boundaries of {lengths[i]} steps lie within "
            f"1 to {lengths[i] - 1}; leave out 0 and {lengths[i]}, which are implied."
        ),
    )
    falls = np.zeros(len(values), bool)
    falls[1:] = (np.diff(values) <= 0) & (np.diff(episode) == 0)
    refuse_where(
        packed,
        falls,
        lambda i, m, v: f"Episode {i} has boundary {v} after {packed.parts[i][m - 1]}; sort them, and give each once.",
    )
    return packed


def check_true_codes(codes: Any, lengths: Int[np.ndarray, " B"], boundaries: Ragged | None) -> Ragged:
    """True codes end to end: one per segment, none negative."""
    _refuse_unknown(codes, "codes", len(lengths), label="segment_codes")
    packed = pack_integers(codes, "codes", len(lengths))
    refuse_where(packed, packed.values < 0, lambda i, m, v: f"Episode {i}: code {m} is {v}; number codes from 0.")
    if boundaries is not None and (wrong := packed.counts != boundaries.counts + 1).any():
        i = np.argmax(wrong)
        raise DemonstrationError(
            f"Episode {i} has {packed.counts[i]} codes and {boundaries.counts[i]} inner boundaries, so "
            f"{boundaries.counts[i] + 1} segments; give one code per segment."
        )
    if (wrong := (packed.counts < 1) | (packed.counts > lengths)).any():
        i = np.argmax(wrong)
        raise DemonstrationError(
            f"Episode {i} has {packed.counts[i]} codes in {lengths[i]} steps; give one code per segment, "
            "where a segment is at least one step."
        )
    return packed


def pack_integers(parts: Any, name: str, num_episodes: int) -> Ragged:
    """Flat lists of integers, one per episode, end to end as int32; lists that are packed already are only checked."""
    if isinstance(parts, Ragged):
        check_list(range(len(parts.counts)), name, expected=num_episodes)
        packed = Ragged(_as_integers(parts.values, name.capitalize()), parts.counts)
    else:
        check_list(parts, name, expected=num_episodes)
        arrays = [_as_integers(part, f"{name.capitalize()} of episode {i}") for i, part in enumerate(parts)]
        packed = Ragged.pack(arrays)
    refuse_where(
        packed,
        (packed.values < -INT32_MAX) | (packed.values > INT32_MAX),
        lambda i, k, v: f"Episode {i}: entry {k} of its {name} is {v}; use numbers that fit into int32.",
    )
    return Ragged(packed.values.astype(np.int32, copy=False), packed.counts)


def _refuse_unknown(parts: Any, name: str, num_episodes: int, *, label: str) -> None:
    """Refuses the truth about some episodes alone; the argument `label` of `with_labels` takes it."""
    if isinstance(parts, Ragged):
        return
    check_list(parts, name, expected=num_episodes)
    known = [i for i, part in enumerate(parts) if part is not None]
    if not known:
        raise DemonstrationError(
            f"{name.capitalize()} of all episodes are None; leave {name} out, as the truth is not known."
        )
    if len(known) < num_episodes:
        unknown = next(i for i, part in enumerate(parts) if part is None)
        listed = ", ".join([*map(str, known[:NUM_NAMED]), *(["..."] if len(known) > NUM_NAMED else [])])
        raise DemonstrationError(
            f"{name.capitalize()} of episode {unknown} are None: the truth is known of all episodes or of none. To "
            f"score those whose truth is known, take them alone, demos[[{listed}]].with_truth({name}=...); to learn "
            f"from what is known, give it as labels, demos.with_labels({label}=...)."
        )


def _as_integers(values: Any, what: str) -> Shaped[np.ndarray, " n"]:
    array = as_array(values, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in INTEGERS):
        raise DemonstrationError(f"{what} are {array.dtype} of shape {array.shape}; expected a flat list of integers.")
    return array if array.size else array.astype(np.int32)  # NumPy takes [] for an array of floats
