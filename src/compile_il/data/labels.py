"""Checks the truth about segments, and labels: boundaries and codes by step, or codes by segment in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray

from compile_il.config import Config
from compile_il.data.ragged import Ragged
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

UNKNOWN = -1
"""The label of a step, or of a segment, about which nothing is known."""
NO_SEGMENT = -2
"""The padding that follows the codes of an episode's segments: there is no such segment."""
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
        """M of each episode, or None if neither boundaries nor codes are known."""
        if self.boundaries is not None:
            return np.array([len(inner) + 1 for inner in self.boundaries], np.int64)
        return None if self.codes is None else np.array([len(codes) for codes in self.codes], np.int64)


@dataclass(frozen=True, eq=False)
class EpisodeTruth:
    """The truth about one demonstration; see `Truth`."""

    boundaries: Int[np.ndarray, " num_boundaries"] | None = None
    codes: Int[np.ndarray, " M"] | None = None


@dataclass(frozen=True, eq=False)
class PartialLabels:
    """Labels: arrays for each episode with one number per step, and one with a number per segment.

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


def check_true_boundaries(boundaries: Any, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs true boundaries of all episodes; see `_inner_boundaries`."""
    _refuse_unknown(boundaries, "boundaries", len(lengths), label="boundary_places")
    return _inner_boundaries(boundaries, "boundaries", lengths)


def _inner_boundaries(boundaries: Any, name: str, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs places of inner boundaries: within 1 to T-1, strictly increasing in each episode."""
    packed = _pack_integers(boundaries, name, len(lengths))
    values, episode = packed.values, packed.part_index
    refuse_where(
        packed,
        (values < 1) | (values >= lengths[episode]),
        lambda i, _, v: (
            f"Episode {i} has a boundary at step {v}, but inner boundaries of {lengths[i]} steps lie within "
            f"1 to {lengths[i] - 1}; leave out 0 and {lengths[i]}, which are implied."
        ),
    )
    falls = np.append(False, (np.diff(values) <= 0) & (np.diff(episode) == 0))[: len(values)]
    refuse_where(
        packed,
        falls,
        lambda i, m, v: f"Episode {i} has boundary {v} after {packed.parts[i][m - 1]}; sort them, and give each once.",
    )
    return packed


def check_true_codes(codes: Any, lengths: Int[np.ndarray, " B"], boundaries: Ragged | None) -> Ragged:
    """Packs true codes: one per segment, none negative."""
    _refuse_unknown(codes, "codes", len(lengths), label="segment_codes")
    packed = _pack_integers(codes, "codes", len(lengths))
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


def _pack_integers(parts: Any, name: str, num_episodes: int) -> Ragged:
    """Packs flat lists of integers, one per episode, as int32; lists that are packed already are only checked."""
    if isinstance(parts, Ragged):
        check_list(range(len(parts.counts)), name, expected=num_episodes)
        packed = Ragged(_as_integers(parts.values, name.capitalize()), parts.counts)
    else:
        check_list(parts, name, expected=num_episodes)
        packed = Ragged.pack(
            [_as_integers(part, f"{name.capitalize()} of episode {i}") for i, part in enumerate(parts)]
        )
    refuse_where(
        packed,
        (packed.values < -INT32_MAX) | (packed.values > INT32_MAX),
        lambda i, k, v: f"Episode {i}: entry {k} of its {name} is {v}; use numbers that fit into int32.",
    )
    return Ragged(packed.values.astype(np.int32, copy=False), packed.counts)


def _as_integers(values: Any, what: str) -> Shaped[np.ndarray, " n"]:
    array = as_array(values, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in INTEGERS):
        raise DemonstrationError(f"{what} are {array.dtype} of shape {array.shape}; expected a flat list of integers.")
    return array if array.size else array.astype(np.int32)  # NumPy takes [] for an array of floats


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


def check_label_boundaries(boundaries: Any | None, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs boundary labels, each 1, 0 or `UNKNOWN`; all are unknown if None."""
    by_place = "boundary_places=[[15, 23], None], which lists the first step of each segment but the first"
    packed = _pack_per_step(boundaries, "boundary labels", lengths, otherwise=by_place)
    refuse_where(
        packed,
        (packed.values < UNKNOWN) | (packed.values > 1),
        lambda i, t, v: (
            f"Episode {i}, step {t}: boundary label {v}; use 1 (a segment starts here), 0 (none does) or -1 (unknown)."
        ),
    )
    refuse_where(
        packed,
        (packed.values == 1) & ~_is_inner(packed),
        lambda i, t, _: f"Episode {i}, step {t}: boundary label 1, but the first segment always starts there; use 0.",
    )
    return packed


def labels_at_places(places: Any, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs boundary labels of all steps, from places of all inner boundaries, or None if they are unknown."""
    check_list(places, "boundary places", expected=len(lengths))
    is_known = np.array([inner is not None for inner in places], bool)
    starts = _inner_boundaries([[] if inner is None else inner for inner in places], "boundary places", lengths)
    labels = np.where(np.repeat(is_known, lengths), 0, UNKNOWN).astype(np.int32)
    labels[(np.cumsum(lengths) - lengths)[starts.part_index] + starts.values] = 1
    return Ragged(labels, lengths)


def check_label_codes(codes: Any | None, lengths: Int[np.ndarray, " B"], boundaries: Ragged) -> Ragged:
    """Packs code labels, each a code or `UNKNOWN`; they change only where a segment may start."""
    by_segment = "segment_codes=[[2, 0, 1], None], which lists the code of each segment"
    packed = _pack_per_step(codes, "code labels", lengths, otherwise=by_segment)
    refuse_where(
        packed,
        packed.values < UNKNOWN,
        lambda i, t, v: f"Episode {i}, step {t}: code label {v}; use a code from 0 up, or -1 (unknown).",
    )
    # All steps of a stretch are certain to lie in one segment: those of them with codes must agree.
    stretch = np.cumsum((boundaries.values != 0) | ~_is_inner(boundaries))
    known = np.flatnonzero(packed.values != UNKNOWN)
    changes = np.zeros(len(packed.values), bool)
    changes[known[1:]] = (np.diff(packed.values[known]) != 0) & (np.diff(stretch[known]) == 0)
    refuse_where(
        packed,
        changes,
        lambda i, t, v: (
            f"Episode {i}, step {t}: code label {v} differs from the one before it, while the boundary "
            "labels since then are 0; label the start of the segment 1 or -1, or correct the code."
        ),
    )
    return packed


def unknown_labels(lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs the label `UNKNOWN` for all steps."""
    return Ragged(np.full(int(lengths.sum()), UNKNOWN, np.int32), lengths)


def _pack_per_step(parts: Any | None, name: str, lengths: Int[np.ndarray, " B"], *, otherwise: str) -> Ragged:
    """Packs labels with one integer per step; None, for one episode or for all, stands for unknown.

    `otherwise` says what to pass for labels that are not by step.
    """
    if parts is None:
        return unknown_labels(lengths)
    check_list(parts, name, expected=len(lengths))
    filled = [np.full(T, UNKNOWN) if part is None else part for part, T in zip(parts, lengths.tolist(), strict=True)]
    packed = _pack_integers(filled, name, len(lengths))
    if (wrong := packed.counts != lengths).any():
        i = np.argmax(wrong)
        raise DemonstrationError(
            f"Episode {i} has {packed.counts[i]} {name} for {lengths[i]} steps; give one per step, or {otherwise}."
        )
    return packed


def _is_inner(steps: Ragged) -> Bool[np.ndarray, " S"]:
    """Returns whether each step is not the first one of its episode."""
    is_inner = np.ones(len(steps.values), bool)
    is_inner[steps.starts] = False
    return is_inner


def check_segment_codes(segment_codes: Any, boundaries: Ragged, codes: Ragged) -> Ragged:
    """Packs codes of segments, none for an episode with None; refuses those that contradict the labels of steps.

    Args:
      segment_codes: for each episode None, or for each segment a code, `UNKNOWN` or None.
      boundaries: boundary labels of all steps.
      codes: code labels of all steps.
    """
    check_list(segment_codes, "segment codes", expected=len(boundaries.counts))
    packed = _pack_integers([_without_none(part) for part in segment_codes], "segment codes", len(boundaries.counts))
    refuse_where(
        packed,
        packed.values < UNKNOWN,
        lambda i, m, v: f"Episode {i}, segment {m}: code {v}; use a code from 0 up, or -1 (unknown).",
    )

    def per_episode(steps: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " B"]:
        return np.bincount(boundaries.part_index, steps, minlength=len(boundaries.counts)).astype(int)

    least = 1 + per_episode(_is_inner(boundaries) & (boundaries.values == 1))
    most = 1 + per_episode(_is_inner(boundaries) & (boundaries.values != 0))
    if (wrong := (packed.counts > 0) & ((packed.counts < least) | (packed.counts > most))).any():
        i = int(np.argmax(wrong))
        few = packed.counts[i] < least[i]
        limit = f"cut it into {least[i]} segments at least" if few else f"leave room for {most[i]} segments at most"
        raise DemonstrationError(
            f"Episode {i} has codes for {packed.counts[i]} segments, but its {boundaries.counts[i]} steps and "
            f"their boundary labels {limit}; give one code per segment, or correct the boundary labels."
        )
    for i in np.flatnonzero((packed.counts > 0) & (per_episode(codes.values != UNKNOWN) > 0)).tolist():
        if not _agree(*(labels.parts[i].tolist() for labels in (packed, boundaries, codes))):
            raise DemonstrationError(
                f"Episode {i}: its segments cannot have the codes {packed.parts[i].tolist()} in this order and "
                "agree with the code and boundary labels of its steps; correct one of them, or make some unknown."
            )
    return packed


def _without_none(codes: Any) -> Any:
    if codes is None:
        return []
    if isinstance(codes, Sequence) and not isinstance(codes, str | bytes):
        return [UNKNOWN if code is None else code for code in codes]
    return codes


def _agree(segment_codes: list[int], boundaries: list[int], codes: list[int]) -> bool:
    """Returns whether some segmentation of an episode agrees with all its labels.

    Keeps the segments that a step can lie in as the bits of two numbers: those in which no step had a code before, and
    those in which the last code of a step is that of the segment.
    """
    fits = {code: sum(1 << m for m, c in enumerate(segment_codes) if c in (code, UNKNOWN)) for code in codes}
    fresh, coded, last_code = 1, 0, UNKNOWN
    for t, (boundary, code) in enumerate(zip(boundaries, codes, strict=True)):
        if t > 0:
            started = 0 if boundary == 0 else (fresh | coded) << 1
            fresh, coded = (started, 0) if boundary == 1 else (fresh | started, coded)
        if code != UNKNOWN:
            fresh, coded = 0, (fresh | (coded if code == last_code else 0)) & fits[code]
            last_code = code
    return bool((fresh | coded) >> (len(segment_codes) - 1) & 1)


def labels_from_truth(
    truth: Truth,
    lengths: Int[np.ndarray, " B"],
    *,
    boundaries: bool,
    codes: bool,
    segment_codes: bool,
    fraction: float,
    seed: int,
) -> dict[str, Any]:
    """Turns the truth about some episodes into arguments of `with_labels`; see `Demonstrations.reveal`."""
    check_fraction(fraction)
    seed = whole_number("seed", seed, 0)
    if not boundaries and not codes and not segment_codes:
        raise DemonstrationError("Nothing to reveal: boundaries, codes and segment_codes are all False.")
    if (boundaries or codes) and truth.boundaries is None:
        raise DemonstrationError("The true boundaries are unknown, so nothing is known about single steps.")
    if (codes or segment_codes) and truth.codes is None:
        raise DemonstrationError("The true codes are unknown; pass codes=False to reveal boundaries only.")
    num_shown = max(1, round(fraction * len(lengths)))
    shown = set(np.random.default_rng(seed).permutation(len(lengths))[:num_shown].tolist())
    labels: dict[str, Any] = {}
    if boundaries:
        labels["boundary_places"] = truth.boundaries
    if codes:
        episodes = zip(truth.codes or [], truth.boundaries or [], lengths, strict=True)
        labels["codes"] = [np.repeat(ids, np.diff([0, *inner, T])) for ids, inner, T in episodes]
    if segment_codes:
        labels["segment_codes"] = truth.codes
    return {name: [part if i in shown else None for i, part in enumerate(parts)] for name, parts in labels.items()}


def check_codes(labels: PartialLabels | None, config: Config) -> None:
    """Refuses labels that name skills beyond the last one."""
    if labels is None:
        return
    for i, codes in enumerate(labels.codes):
        listed = () if labels.segment_codes is None else labels.segment_codes[i]
        if (largest := max(codes.max(), *listed, UNKNOWN)) >= config.num_codes:
            raise DemonstrationError(
                f"The labels of demonstration {i} name skill {largest}, and there are "
                f"{describe_codes(config, largest)}."
            )


def describe_codes(config: Config, largest: int) -> str:
    """Describes how many codes there are, and how to have one named `largest`."""
    if config.codes == "categorical":
        return f"{config.num_skills} skills: raise num_skills to at least {largest + 1}"
    return f"{config.code_dim} entries of a code: raise code_dim to at least {largest + 1}"
