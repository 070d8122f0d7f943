"""The codes of an episode's segments in order, without their places, and whether the other labels agree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from compile_il.demos.checks import DemonstrationError, check_list, refuse_where
from compile_il.demos.labels import NO_SEGMENT, UNKNOWN
from compile_il.demos.storage import Ragged
from compile_il.demos.truth import pack_integers


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
