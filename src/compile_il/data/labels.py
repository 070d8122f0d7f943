"""Labels: what a learner is told about segments, step by step or one after the other, as far as it is known.

The codes of an episode's segments in order, without their places, and whether the other labels agree.

The truth about segments, where it is known: boundaries and codes of whole demonstrations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray

from compile_il.data.ragged import Ragged, Storage
from compile_il.data.validation import (
    INT32_MAX,
    INTEGERS,
    DemonstrationError,
    as_array,
    check_fraction,
    check_list,
    refuse_where,
    whole_number,
)

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


UNKNOWN = -1
"""The label of a step, or of a segment, about which nothing is known."""


NO_SEGMENT = -2
"""The padding that follows the codes of an episode's segments: there is no such segment."""


@dataclass(frozen=True, eq=False)
class PartialLabels:
    """What a learner is told: arrays for each episode with one number per step, and one with a number per segment.

    Attributes:
      boundaries: 1 where a segment starts at step t, 0 where none does, `UNKNOWN` elsewhere. Never 1 at step
        0, where the first segment starts anyway.
      codes: the code of the segment that step t belongs to, or `UNKNOWN`.
      segment_codes: the codes of all segments in order, wherever they start, or `UNKNOWN`; empty for an episode whose
        segments are not listed, and None if those of no episode are.
    """

    boundaries: list[np.ndarray]
    codes: list[np.ndarray]
    segment_codes: list[np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class EpisodeLabels:
    """The labels of one demonstration; see `PartialLabels`."""

    boundaries: Int[np.ndarray, " T"]
    codes: Int[np.ndarray, " T"]
    segment_codes: Int[np.ndarray, " M"] | None = None


def check_label_boundaries(boundaries: Any | None, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Boundary labels end to end, each 1, 0 or `UNKNOWN`; all unknown if None."""
    by_place = "boundary_places=[[15, 23], None], which lists the first step of each segment but the first"
    packed = _pack_per_step(boundaries, "boundary labels", lengths, otherwise=by_place)
    refuse_where(
        packed,
        (packed.values < UNKNOWN) | (packed.values > 1),
        lambda i, t, v: (
            f"Episode {i}, step {t}: boundary label {v}; use 1 (a segment starts here), 0 (none does) or -1 (unknown)."
        ),
    )
    starts_again = np.zeros(len(packed.values), bool)
    starts_again[packed.starts] = packed.values[packed.starts] == 1
    refuse_where(
        packed,
        starts_again,
        lambda i, t, _: f"Episode {i}, step {t}: boundary label 1, but the first segment always starts there; use 0.",
    )
    return packed


def labels_at_places(places: Any, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Boundary labels of all steps, end to end, from the places of all inner boundaries of each episode.

    Every other step of an episode is labelled 0; where None is given in place of an episode's list, all its steps are
    `UNKNOWN`.
    """
    check_list(places, "boundary places", expected=len(lengths))
    known = np.array([inner is not None for inner in places], bool)
    filled = [[] if inner is None else inner for inner in places]
    starts = check_inner_boundaries(filled, "boundary places", lengths)
    return _tell(_starts_inner_segment(starts, lengths), lengths, known)


def check_label_codes(codes: Any | None, lengths: Int[np.ndarray, " B"], boundaries: Ragged) -> Ragged:
    """Code labels end to end, each a code or `UNKNOWN`; they change only where a segment may start."""
    by_segment = "segment_codes=[[2, 0, 1], None], which lists the code of each segment"
    packed = _pack_per_step(codes, "code labels", lengths, otherwise=by_segment)
    refuse_where(
        packed,
        packed.values < UNKNOWN,
        lambda i, t, v: f"Episode {i}, step {t}: code label {v}; use a code from 0 up, or -1 (unknown).",
    )
    refuse_where(
        packed,
        _changes_within_segment(packed, boundaries),
        lambda i, t, v: (
            f"Episode {i}, step {t}: code label {v} differs from the one before it, while the boundary "
            "labels since then are 0; label the start of the segment 1 or -1, or correct the code."
        ),
    )
    return packed


def unknown_labels(lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Labels of all steps that say nothing: `UNKNOWN` everywhere."""
    return Ragged(np.full(int(lengths.sum()), UNKNOWN, np.int32), lengths)


def reveal_truth(
    storage: Storage, *, boundaries: bool, codes: bool, segment_codes: bool, fraction: float, seed: int
) -> Storage:
    """Tells the truth about some episodes as labels; see `Demonstrations.reveal`."""
    check_fraction(fraction)
    seed = whole_number("seed", seed, 0)
    if not boundaries and not codes and not segment_codes:
        raise DemonstrationError("Nothing to reveal: boundaries, codes and segment_codes are all False.")
    if (boundaries or codes) and storage.true_boundaries is None:
        raise DemonstrationError("The true boundaries are unknown, so nothing is known about single steps.")
    if (codes or segment_codes) and storage.true_codes is None:
        raise DemonstrationError("The true codes are unknown; pass codes=False to reveal boundaries only.")
    lengths = storage.actions.counts
    num_shown = max(1, round(fraction * len(lengths)))
    shown = np.zeros(len(lengths), bool)
    shown[np.random.default_rng(seed).permutation(len(lengths))[:num_shown]] = True
    label_boundaries = label_codes = unknown_labels(lengths)
    label_segments = None
    if storage.true_boundaries is not None:
        starts_segment = _starts_inner_segment(storage.true_boundaries, lengths)
        if boundaries:
            label_boundaries = _tell(starts_segment, lengths, shown)
        if codes and storage.true_codes is not None:
            label_codes = _tell(_codes_of_steps(storage.true_codes, starts_segment, lengths), lengths, shown)
    if segment_codes and storage.true_codes is not None:
        true = storage.true_codes
        label_segments = Ragged(true.values[shown[true.part_index]], np.where(shown, true.counts, 0))
    return storage._replace(label_boundaries=label_boundaries, label_codes=label_codes, label_segments=label_segments)


def _codes_of_steps(
    codes: Ragged, starts_inner_segment: Bool[np.ndarray, " S"], lengths: Int[np.ndarray, " B"]
) -> Int[np.ndarray, " S"]:
    starts_segment = starts_inner_segment.copy()
    starts_segment[np.cumsum(lengths) - lengths] = True
    segment_index = np.cumsum(starts_segment) - 1  # counted through all episodes, as `codes.values` is
    return codes.values[segment_index]


def _starts_inner_segment(boundaries: Ragged, lengths: Int[np.ndarray, " B"]) -> Bool[np.ndarray, " S"]:
    starts = np.zeros(int(lengths.sum()), bool)
    starts[(np.cumsum(lengths) - lengths)[boundaries.part_index] + boundaries.values] = True
    return starts


def _tell(values: Shaped[np.ndarray, " S"], lengths: Int[np.ndarray, " B"], shown: Bool[np.ndarray, " B"]) -> Ragged:
    return Ragged(np.where(np.repeat(shown, lengths), values, UNKNOWN).astype(np.int32), lengths)


def _changes_within_segment(codes: Ragged, boundaries: Ragged) -> Bool[np.ndarray, " S"]:
    """The steps where a known code differs from the known one before it, although no segment can start in between."""
    may_start = boundaries.values != 0
    may_start[codes.starts] = True
    stretch = np.cumsum(may_start)  # all steps of a stretch are certain to lie in one segment
    known = np.flatnonzero(codes.values != UNKNOWN)
    changes = (np.diff(codes.values[known]) != 0) & (np.diff(stretch[known]) == 0)
    out = np.zeros(len(codes.values), bool)
    out[known[1:][changes]] = True
    return out


def _pack_per_step(parts: Any | None, name: str, lengths: Int[np.ndarray, " B"], *, otherwise: str) -> Ragged:
    """Labels with one integer per step, end to end; None, for one episode or for all, stands for unknown.

    `otherwise` says what to pass for labels that are not by step.
    """
    if parts is None:
        return unknown_labels(lengths)
    check_list(parts, name, expected=len(lengths))
    filled = [np.full(T, UNKNOWN) if part is None else part for part, T in zip(parts, lengths.tolist(), strict=True)]
    packed = pack_integers(filled, name, len(lengths))
    if (wrong := packed.counts != lengths).any():
        i = np.argmax(wrong)
        raise DemonstrationError(
            f"Episode {i} has {packed.counts[i]} {name} for {lengths[i]} steps; give one per step, or {otherwise}."
        )
    return packed


def check_segment_codes(segment_codes: Any, boundaries: Ragged, codes: Ragged) -> Ragged:
    """Codes of segments end to end, none where None is given; refuses those that contradict the labels of steps.

    Args:
      segment_codes: for each episode None, or for each segment a code, `UNKNOWN` or None.
      boundaries: boundary labels of all steps.
      codes: code labels of all steps.
    """
    check_list(segment_codes, "segment codes", expected=len(boundaries.counts))
    packed = pack_integers(
        [_without_none(episode) for episode in segment_codes], "segment codes", len(boundaries.counts)
    )
    refuse_where(
        packed,
        packed.values < UNKNOWN,
        lambda i, m, v: f"Episode {i}, segment {m}: code {v}; use a code from 0 up, or -1 (unknown).",
    )
    _refuse_wrong_number(packed, boundaries)
    _refuse_wrong_codes(packed, boundaries, codes)
    return packed


def no_segment_codes(num_episodes: int) -> Ragged:
    """Segment codes of episodes where none are listed: empty for each."""
    return Ragged(np.zeros(0, np.int32), np.zeros(num_episodes, np.int64))


def _without_none(codes: Any) -> Any:
    if codes is None:
        return []
    if isinstance(codes, Sequence) and not isinstance(codes, str | bytes):
        return [UNKNOWN if code is None else code for code in codes]
    return codes


def _refuse_wrong_number(segment_codes: Ragged, boundaries: Ragged) -> None:
    """Refuses codes of fewer segments than the boundary labels make, or of more than they leave room for."""
    inner = np.ones(len(boundaries.values), bool)
    inner[boundaries.starts] = False

    def per_episode(steps: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " B"]:
        return np.bincount(boundaries.part_index, steps & inner, minlength=len(boundaries.counts)).astype(int)

    least, most = 1 + per_episode(boundaries.values == 1), 1 + per_episode(boundaries.values != 0)
    told = segment_codes.counts > 0
    if (wrong := told & ((segment_codes.counts < least) | (segment_codes.counts > most))).any():
        i = int(np.argmax(wrong))
        few = segment_codes.counts[i] < least[i]
        room = f"cut it into {least[i]} segments at least" if few else f"leave room for {most[i]} segments at most"
        raise DemonstrationError(
            f"Episode {i} has codes for {segment_codes.counts[i]} segments, but its {boundaries.counts[i]} steps and "
            f"their boundary labels {room}; give one code per segment, or correct the boundary labels."
        )


def _refuse_wrong_codes(segment_codes: Ragged, boundaries: Ragged, codes: Ragged) -> None:
    """Refuses codes of segments where no segmentation agrees both with them and with the labels of steps."""
    has_codes = np.bincount(codes.part_index, codes.values != UNKNOWN, minlength=len(codes.counts)) > 0
    both = np.flatnonzero((segment_codes.counts > 0) & has_codes)
    if not len(both):
        return
    possible = _possible(*(part.take(both) for part in (segment_codes, boundaries, codes)))
    if not possible.all():
        i = int(both[np.argmin(possible)])
        raise DemonstrationError(
            f"Episode {i}: its segments cannot have the codes {segment_codes.parts[i].tolist()} in this order and "
            "agree with the code and boundary labels of its steps; correct one of them, or make some unknown."
        )


def _possible(segment_codes: Ragged, boundaries: Ragged, codes: Ragged) -> Bool[np.ndarray, " B"]:
    """Whether some segmentation of each episode agrees with all its labels: forward through the steps, all at once."""
    counts, lengths = segment_codes.counts, codes.counts
    num_segments, num_steps = int(counts.max()), int(lengths.max())
    padded = np.full((len(counts), num_segments), NO_SEGMENT)
    padded[np.arange(num_segments) < counts[:, None]] = segment_codes.values
    boundary, code = boundaries.padded(num_steps)[..., None], codes.padded(num_steps)[..., None]
    # Whether the step at hand can lie in each segment, before and after the first step in it whose code is known.
    fresh, coded = np.zeros(padded.shape, bool), np.zeros(padded.shape, bool)
    fresh[:, 0] = True
    last_code = np.full((len(counts), 1), UNKNOWN)
    possible = np.zeros(len(counts), bool)
    for t in range(num_steps):
        known = code[:, t] != UNKNOWN
        if t > 0:
            started = np.pad(fresh | coded, ((0, 0), (1, 0)))[:, :-1] & (boundary[:, t] != 0)
            stays = boundary[:, t] != 1
            fresh, coded = (fresh & stays) | started, coded & stays & (~known | (code[:, t] == last_code))
        agrees = (padded != NO_SEGMENT) & (~known | (padded == UNKNOWN) | (padded == code[:, t]))
        fresh, coded = fresh & agrees & ~known, (coded | (fresh & known)) & agrees
        last_code = np.where(known, code[:, t], last_code)
        ends = lengths == t + 1
        possible[ends] = (fresh | coded)[np.arange(len(counts)), counts - 1][ends]
    return possible
