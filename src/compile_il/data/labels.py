"""Checks the truth about segments, and labels: boundaries and codes by step, or codes by segment in order."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from compile_il.config import Config
from compile_il.data.ragged import UNKNOWN, Ragged
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

NO_SEGMENT = -2
"""The padding that follows the codes of an episode's segments: there is no such segment."""

PER_SEGMENT = "give one per segment, or correct the boundaries"

Parts = TypeVar("Parts", bound=list[np.ndarray] | np.ndarray)
"""One array per episode, or the array of a single one."""


@dataclass(frozen=True, eq=False)
class Truth(Generic[Parts]):
    """Where segments start and which codes they have; None where that is unknown."""

    boundaries: Parts | None = None
    """The M-1 inner boundaries of M segments; each is the first step of the next segment."""
    codes: Parts | None = None
    """M numbers from 0 up, one per segment."""

    @property
    def num_segments(self) -> NDArray[np.int64] | None:
        """M of each episode, or None if neither boundaries nor codes are known."""
        if self.boundaries is not None:
            return np.array([len(inner) + 1 for inner in self.boundaries], np.int64)
        return None if self.codes is None else np.array([len(codes) for codes in self.codes], np.int64)


@dataclass(frozen=True, eq=False)
class PartialLabels(Generic[Parts]):
    """Labels with one number per step, and with one per segment."""

    boundaries: Parts
    """1 at each inner boundary, 0 where no segment starts, `UNKNOWN` elsewhere; never 1 at step 0."""
    codes: Parts
    """The code of the segment that step t belongs to, or `UNKNOWN`."""
    segment_codes: Parts | None = None
    """The codes of all segments in order, wherever they start, or `UNKNOWN`; empty for an episode whose segments are
    not listed, and None if those of no episode are."""


def check_truth(lengths: Int[np.ndarray, " B"], boundaries: Any | None, codes: Any | None) -> dict[str, Any]:
    """Packs true boundaries and codes as fields of `Storage`; see `Demonstrations.with_truth`."""
    starts = None if boundaries is None else _inner_boundaries(boundaries, "boundaries", lengths)
    ids = None if codes is None else _pack_integers(codes, "codes", len(lengths), least=0)
    if ids is not None:
        least, most = (np.ones_like(lengths), lengths) if starts is None else (starts.counts + 1, starts.counts + 1)
        _check_counts(ids, "codes", lengths, least, most, PER_SEGMENT)
    return {"true_boundaries": starts, "true_codes": ids}


def check_labels(
    lengths: Int[np.ndarray, " B"], boundaries: Any, codes: Any, segment_codes: Any, boundary_places: Any
) -> dict[str, Any]:
    """Packs labels as fields of `Storage`; see `Demonstrations.with_labels`."""
    if boundaries is codes is segment_codes is boundary_places is None:
        return {"label_boundaries": None, "label_codes": None, "label_segments": None}
    if boundaries is not None and boundary_places is not None:
        raise DemonstrationError("Both boundaries and boundary_places are given; pass one of them.")
    if boundary_places is None:
        by_place = "boundary_places=[[15, 23], None], which lists the first step of each segment but the first"
        starts = _pack_per_step(boundaries, "boundaries", lengths, most=1, otherwise=by_place)
        # A segment always starts at step 0, which is no inner boundary.
        starts = Ragged(np.where(_is_inner(starts), starts.values, np.minimum(starts.values, 0)), lengths)
    else:
        starts = _labels_at_places(boundary_places, lengths)
    ids = _label_codes(codes, lengths, starts)
    in_order = None if segment_codes is None else _segment_codes(segment_codes, starts, ids)
    return {"label_boundaries": starts, "label_codes": ids, "label_segments": in_order}


def _inner_boundaries(boundaries: Any, name: str, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs places of inner boundaries: within 1 to T-1, strictly increasing in each episode."""
    packed = _pack_integers(boundaries, name, len(lengths))
    values, episode = packed.values, packed.part_index
    falls = np.append(False, (np.diff(values) <= 0) & (np.diff(episode) == 0))[: len(values)]
    refuse_where(
        packed,
        falls | (values < 1) | (values >= lengths[episode]),
        lambda i, m, v: (
            f"Episode {i}: entry {m} of {name} is {v}, but inner boundaries increase, and lie within 1 to "
            f"{lengths[i] - 1} in {lengths[i]} steps; sort them, give each once, and leave out 0 and {lengths[i]}."
        ),
    )
    return packed


def _pack_integers(
    parts: Any, name: str, num_episodes: int, *, least: int = -INT32_MAX, most: int = INT32_MAX
) -> Ragged:
    """Packs flat lists of integers, one per episode, as int32; lists that are packed already are only checked."""
    if not isinstance(parts, Ragged):
        check_list(parts, name, expected=num_episodes)
        parts = Ragged.pack([_as_integers(part, name, i) for i, part in enumerate(parts)])
    unknown = " (-1: unknown)" if least == UNKNOWN else ""
    refuse_where(
        parts,
        (parts.values < least) | (parts.values > most),
        lambda i, k, v: f"Episode {i}: entry {k} of {name} is {v}; use numbers from {least} to {most}{unknown}.",
    )
    return Ragged(parts.values.astype(np.int32, copy=False), parts.counts)


def _as_integers(part: Any, name: str, episode: int) -> np.ndarray:
    what = f"{name} of episode {episode}"
    if part is None:  # in labels, None has been replaced
        raise DemonstrationError(
            f"{what} are None: the truth must be given for all episodes or for none. Give it for a part of them, "
            f"demos[indices].with_truth({name}=...), or give labels, "
            "demos.with_labels(boundary_places=..., segment_codes=...)."
        )
    array = as_array(part, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in INTEGERS):
        raise DemonstrationError(f"{what} are {array.dtype} of shape {array.shape}; expected a flat list of integers.")
    return array if array.size else array.astype(np.int32)  # NumPy takes [] for an array of floats


def _check_counts(packed: Ragged, name: str, lengths: Any, least: Any, most: Any, remedy: str) -> None:
    """Refuses fewer than `least` or more than `most` entries for an episode."""
    wrong = (packed.counts < least) | (packed.counts > most)
    if wrong.any():
        i = int(np.argmax(wrong))
        allowed = f"{most[i]}" if least[i] == most[i] else f"{least[i]} to {most[i]}"
        raise DemonstrationError(
            f"Episode {i} of length {lengths[i]}: the number of its {name} is {packed.counts[i]}, and should be "
            f"{allowed}; {remedy}."
        )


def _labels_at_places(places: Any, lengths: Int[np.ndarray, " B"]) -> Ragged:
    """Packs boundary labels of all steps, from places of all inner boundaries, or None if they are unknown."""
    check_list(places, "boundary_places", expected=len(lengths))
    is_known = np.array([inner is not None for inner in places], bool)
    starts = _inner_boundaries([[] if inner is None else inner for inner in places], "boundary_places", lengths)
    labels = np.where(np.repeat(is_known, lengths), 0, UNKNOWN).astype(np.int32)
    labels[(np.cumsum(lengths) - lengths)[starts.part_index] + starts.values] = 1
    return Ragged(labels, lengths)


def _label_codes(codes: Any | None, lengths: Int[np.ndarray, " B"], boundaries: Ragged) -> Ragged:
    """Packs code labels, each a code or `UNKNOWN`; they change only where a segment may start."""
    by_segment = "segment_codes=[[2, 0, 1], None], which lists the code of each segment"
    packed = _pack_per_step(codes, "codes", lengths, most=INT32_MAX, otherwise=by_segment)
    # All steps of a stretch are certain to lie in one segment: those of them with codes must agree.
    stretch = np.cumsum((boundaries.values != 0) | ~_is_inner(boundaries))
    known = np.flatnonzero(packed.values != UNKNOWN)
    changes = np.zeros(len(packed.values), bool)
    changes[known[1:]] = (np.diff(packed.values[known]) != 0) & (np.diff(stretch[known]) == 0)
    refuse_where(
        packed,
        changes,
        lambda i, t, v: (
            f"Episode {i}, step {t}: code {v} differs from the one before it, while the boundary labels since then "
            "are 0; label the start of the segment 1 or -1, or correct the code."
        ),
    )
    return packed


def _pack_per_step(
    parts: Any | None, name: str, lengths: Int[np.ndarray, " B"], *, most: int, otherwise: str
) -> Ragged:
    """Packs labels with one integer per step, from `UNKNOWN` to `most`; None, for one episode or all, is unknown.

    `otherwise` says what to pass for labels that are not by step.
    """
    parts = [None] * len(lengths) if parts is None else parts
    check_list(parts, name, expected=len(lengths))
    filled = [np.full(T, UNKNOWN) if part is None else part for part, T in zip(parts, lengths.tolist(), strict=True)]
    packed = _pack_integers(filled, name, len(lengths), least=UNKNOWN, most=most)
    _check_counts(packed, name, lengths, lengths, lengths, f"give one per step, or {otherwise}")
    return packed


def _is_inner(steps: Ragged) -> Bool[np.ndarray, " S"]:
    """Returns whether each step is not the first one of its episode."""
    is_inner = np.ones(len(steps.values), bool)
    is_inner[steps.starts] = False
    return is_inner


def _segment_codes(segment_codes: Any, boundaries: Ragged, codes: Ragged) -> Ragged:
    """Packs codes of segments, none for an episode with None; refuses those that contradict labels of steps.

    Where boundary labels leave a segment's steps open, training checks whether any segmentation agrees.
    """
    check_list(segment_codes, "segment_codes", expected=len(boundaries.counts))
    lists = [[] if part is None else part for part in segment_codes]
    lists = [[UNKNOWN if c is None else c for c in part] if isinstance(part, list | tuple) else part for part in lists]
    packed = _pack_integers(lists, "segment_codes", len(lists), least=UNKNOWN)
    least, most = (
        1 + np.bincount(boundaries.part_index, _is_inner(boundaries) & allowed, len(lists)).astype(int)
        for allowed in (boundaries.values == 1, boundaries.values != 0)
    )
    least = np.where(packed.counts > 0, least, 0)
    _check_counts(packed, "segment_codes", boundaries.counts, least, most, PER_SEGMENT)
    for i, (listed, starts, by_step) in enumerate(zip(packed.parts, boundaries.parts, codes.parts, strict=True)):
        # The segment of a step is certain up to the first step where one may start.
        num_certain = int(np.argmax(np.append(starts[1:] == UNKNOWN, True))) + 1
        for m, code in zip(np.cumsum(starts[:num_certain] == 1), by_step, strict=False) if len(listed) else ():
            if code != listed[m] and UNKNOWN not in (code, listed[m]):
                raise DemonstrationError(
                    f"Episode {i}, segment {m}: segment_codes gives code {listed[m]}, and codes gives {code} at one of "
                    "its steps; correct one of them, or the boundaries."
                )
    return packed


def labels_from_truth(
    truth: Truth[list[np.ndarray]],
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
        raise DemonstrationError("The true boundaries are unknown, which labels of steps need.")
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


def check_codes(labels: PartialLabels[list[np.ndarray]] | None, config: Config) -> None:
    """Refuses labels that name skills beyond the last one."""
    if labels is None:
        return
    lists = labels.segment_codes or labels.codes
    largest = [
        max(by_step.max(), in_order.max(initial=UNKNOWN)) for by_step, in_order in zip(labels.codes, lists, strict=True)
    ]
    i = int(np.argmax(largest))
    if largest[i] >= config.num_codes:
        kind, setting = ("skills", "num_skills") if config.codes == "categorical" else ("entries of a code", "code_dim")
        raise DemonstrationError(
            f"The labels of demonstration {i} name skill {largest[i]}, and there are {config.num_codes} {kind}: raise "
            f"{setting} to at least {largest[i] + 1}."
        )
