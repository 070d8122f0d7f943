"""Numbers of segments: what labels give of them, what people pass for them, and what is suspicious in results."""

import reprlib
import warnings
from collections.abc import Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from compile_il.config import NO_COUNTS, CompileWarning, Config, SegmentCounts
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.data.validation import DemonstrationError

Counts = Sequence[int | None] | NDArray[np.integer]
"""A number of segments for each demonstration, or None where that is unknown."""
Source = TypeVar("Source")

SHARE_AT_LIMIT, SHARE_UNDIVIDED = 0.1, 0.9
"""Shares of demonstrations with as many segments as were considered, or with one, that are taken for no chance."""


class CountWarning(CompileWarning):
    """Warns that demonstrations seem to have other numbers of segments than a segmentation."""


def counts_from_labels(demos: Demonstrations) -> NDArray[np.int64]:
    """Returns the number of segments of each demonstration that its labels list, or `UNKNOWN`."""
    listed = demos.storage.label_segments
    counts = np.zeros(len(demos), np.int64) if listed is None else listed.counts.astype(np.int64)
    return np.where(counts == 0, UNKNOWN, counts)


def summarise_counts(demos: Demonstrations, config: Config) -> SegmentCounts:
    """Summarises the numbers of segments that labels list; blank where the settings give a number."""
    counts = counts_from_labels(demos)
    if config.num_segments is not None or (counts == UNKNOWN).all():
        return NO_COUNTS
    return SegmentCounts(largest=int(counts.max()), of_all=UNKNOWN not in counts)


def attach_counts(
    demos: Source, config: Config | None, settings: dict[str, Any]
) -> tuple[Source | Demonstrations, Config]:
    """Applies single settings to a config; `num_segments` as a list becomes labels of the demonstrations instead."""
    counts: Any = settings.get("num_segments")
    if not _is_list(counts):
        return demos, Config.given(config, settings)
    config = Config.given(config, settings | {"num_segments": None})
    if not isinstance(demos, Demonstrations):
        raise DemonstrationError("num_segments is a list, and a world makes new demonstrations: use one number.")
    return with_counts(demos, counts, some_empty=config.inference == "relaxed"), config


def with_counts(demos: Demonstrations, num_segments: Counts, *, some_empty: bool = False) -> Demonstrations:
    """Adds labels for the number of segments of each demonstration, without those that must be empty.

    Where a number is None, labels stay as they were.
    """
    counts = broadcast_counts(num_segments, demos, some_unknown=True, some_empty=some_empty)
    counts = np.minimum(counts, demos.lengths)
    listed = demos.labels and demos.labels.segment_codes
    segment_codes = [codes.tolist() for codes in listed] if listed else [[] for _ in counts]
    for i, (codes, count) in enumerate(zip(segment_codes, counts, strict=True)):
        if count != UNKNOWN and len(codes) not in (0, count):
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(codes)} segments, and num_segments says {count}."
            )
        segment_codes[i] = codes or [UNKNOWN] * max(count, 0)
    if demos.labels is None:
        return demos.with_labels(segment_codes=segment_codes)
    return demos.with_labels(demos.labels.boundaries, demos.labels.codes, segment_codes)


def broadcast_counts(
    num_segments: int | Counts, demos: Demonstrations, *, some_unknown: bool = False, some_empty: bool = False
) -> NDArray[np.integer]:
    """Returns the number of segments of each demonstration, from one for all or a list, and refuses impossible ones.

    Where there may be `some_unknown`, a list may hold None, which becomes `UNKNOWN`; where there may be `some_empty`,
    there may be more segments than steps.
    """
    is_unknown: Any = False
    if some_unknown and _is_list(num_segments):
        is_unknown = [n is None for n in num_segments]
        num_segments = [1 if n is None else n for n in num_segments]
    counts = whole_counts(num_segments, len(demos))
    if not some_empty and (counts > demos.lengths).any():
        short = int(np.argmax(counts > demos.lengths))
        raise DemonstrationError(
            f"Demonstration {short} has {demos.lengths[short]} steps, too few for {counts[short]} segments: "
            "lower num_segments, give a list with one for each demonstration, or leave out what is too short: "
            f"demos[demos.lengths >= {counts[short]}]."
        )
    return np.where(is_unknown, UNKNOWN, counts)


def whole_counts(counts: int | Counts, num_demos: int, name: str = "num_segments") -> NDArray[np.integer]:
    """Returns one number for each demonstration, and refuses any below 1; errors call them `name`."""
    try:
        array = np.asarray(counts)
    except ValueError:
        array = np.asarray(None)
    if not np.issubdtype(array.dtype, np.integer) or array.shape not in ((), (num_demos,)):
        words = f"{reprlib.repr(list(counts))}, with {len(counts)} entries" if _is_list(counts) else repr(counts)
        raise DemonstrationError(
            f"{name} is {words}: give a whole number, or one for each of the {num_demos} demonstrations."
        )
    if (array < 1).any():
        raise DemonstrationError(f"{name} is {array.min()}: use at least 1.")
    return np.broadcast_to(array, (num_demos,))


def has_unknown(num_segments: Any) -> bool:
    """Returns whether numbers of segments are a list with a None in it."""
    return _is_list(num_segments) and any(count is None for count in num_segments)


def _is_list(counts: Any) -> TypeGuard[Sequence[Any]]:
    is_sequence = isinstance(counts, Sequence) and not isinstance(counts, str)
    return is_sequence or (isinstance(counts, np.ndarray) and counts.ndim > 0)


def warn_of_counts(counts: NDArray[np.integer], demos: Demonstrations, most: int) -> None:
    """Warns where labels give no number and nearly all segmentations have 1 segment, or many the `most` considered."""
    is_inferred = counts_from_labels(demos) == UNKNOWN
    at_limit = is_inferred & (counts == most) & (demos.lengths > most)
    undivided = is_inferred & (counts == 1) & (demos.lengths > 1)
    remedy = "train for longer (num_iterations), or give their number (num_segments) or mean length (duration_rate)."
    if at_limit.mean() >= SHARE_AT_LIMIT:
        words = (
            f"{at_limit.sum()} of {len(demos)} demonstrations have as many segments as were considered, {most}: raise "
            f"max_segments, such as to {2 * most}, here and in training. If so many make no sense, {remedy}"
        )
    elif undivided.mean() > SHARE_UNDIVIDED:
        words = f"{undivided.sum()} of {len(demos)} demonstrations have one segment each. If they have more, {remedy}"
    else:
        return
    warnings.warn(words, CountWarning, stacklevel=3)  # where somebody asked for segments
