"""Labels: what a learner is told about segments, step by step or one after the other, as far as it is known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from compile_il.demos.checks import DemonstrationError, check_fraction, check_list, refuse_where, whole_number
from compile_il.demos.storage import Ragged, Storage
from compile_il.demos.truth import check_inner_boundaries, pack_integers

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
