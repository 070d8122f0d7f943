"""What is known beforehand about the number of segments: told, or a row of log p(M), M = 0, 1, 2, ..."""

import warnings
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from compile_il.config import CompileWarning
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.data.validation import DemonstrationError

Counts = Sequence[int | None] | NDArray[np.integer]
"""A number of segments for each demonstration, or None where that is not known."""


_CROWDED = 0.1
"""Share of demonstrations with as many segments as were considered, from which on that is taken for no chance."""


_NEARLY_ALL = 0.9
"""Share of demonstrations that are found to be a single segment, above which that may be no boundary learned."""


_FEW = 8
"""Most entries of a list that an error shows."""


class CountWarning(CompileWarning):
    """Warns that demonstrations seem to have other numbers of segments than were found."""


def warn_of_counts(counts: NDArray[np.integer], demos: Demonstrations, most: int) -> None:
    """Warns where numbers of segments that were found look wrong: as many as were considered, or nearly all 1.

    Args:
      counts: the number of segments found in each demonstration.
      demos: the demonstrations; those whose number is told by labels are left out.
      most: the largest number that was considered.
    """
    is_found = counts_by_labels(demos, 0) == 0
    crowded = is_found & (counts == most) & (demos.lengths > most)
    whole = is_found & (counts == 1) & (demos.lengths > 1)
    if crowded.mean() >= _CROWDED:
        words = (
            f"{crowded.sum()} of {len(demos)} demonstrations have as many segments as were considered, {most}, and "
            f"there may be more: raise max_segments, to {2 * most} say, here and in training. If so many make no "
            "sense, train for longer (num_iterations), say how long they are (duration_rate), or train several seeds "
            "(num_seeds=5): which number is found depends on the start, and the likeliest model is kept."
        )
    elif whole.mean() > _NEARLY_ALL:
        words = (
            f"{whole.sum()} of {len(demos)} demonstrations are found to be one segment each. If they have more, train "
            "for longer (num_iterations), or say how many there are (num_segments) or how long they are "
            "(duration_rate)."
        )
    else:
        return
    warnings.warn(words, CountWarning, stacklevel=3)  # where somebody asked for segments


def labelled_counts(demos: Demonstrations) -> NDArray[np.int64] | None:
    """The number of segments of each demonstration, where the labels of all of them tell it; else None."""
    if demos.labels is None or demos.labels.segment_codes is None:
        return None
    counts = np.array([len(sketch) for sketch in demos.labels.segment_codes])
    return counts if counts.all() else None


def with_counts(demos: Demonstrations, num_segments: Counts, *, some_empty: bool = False) -> Demonstrations:
    """Adds labels that tell how many segments each demonstration has, not counting those that must be empty.

    Where the number is not known, labels tell what they told before.
    """
    told = broadcast_known_counts(num_segments, demos, some_empty=some_empty)
    counts = np.minimum(told, demos.lengths)
    labels = demos.labels
    nothing = [np.zeros(0, np.int64)] * len(demos)
    before = nothing if labels is None or labels.segment_codes is None else labels.segment_codes
    for i, (sketch, count) in enumerate(zip(before, counts, strict=True)):
        if count != UNKNOWN and len(sketch) not in (0, count):
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(sketch)} segments, and num_segments says {count}."
            )
    sketches = [list(sketch) or [UNKNOWN] * max(int(n), 0) for sketch, n in zip(before, counts, strict=True)]
    if labels is None:
        return demos.with_labels(segment_codes=sketches)
    return demos.with_labels(labels.boundaries, labels.codes, sketches)


def counts_by_labels(demos: Demonstrations, otherwise: int) -> int | NDArray[np.int64]:
    """Each demonstration's number of segments from its labels, or `otherwise`."""
    if demos.labels is None or demos.labels.segment_codes is None:
        return otherwise
    return np.array([len(sketch) or otherwise for sketch in demos.labels.segment_codes])


def broadcast_counts(
    num_segments: int | Counts, demos: Demonstrations, *, some_empty: bool = False
) -> NDArray[np.integer]:
    """The number of segments of each demonstration, from one number or one for each; impossible ones are refused.

    There is at least one segment, and each has a step, unless some may be empty.
    """
    given = whole_counts(num_segments, len(demos))
    if not some_empty and (given > demos.lengths).any():
        short = int(np.argmax(given > demos.lengths))
        raise DemonstrationError(
            f"Demonstration {short} has {demos.lengths[short]} steps, too few for {given[short]} segments: "
            + ("lower its number." if _is_list(num_segments) else _instead(given[short]))
        )
    return given


def broadcast_known_counts(
    num_segments: int | Counts, demos: Demonstrations, *, some_empty: bool = False
) -> NDArray[np.integer]:
    """As `broadcast_counts`, with `UNKNOWN` where a list says None."""
    if isinstance(num_segments, int) or not has_unknown(num_segments):
        return broadcast_counts(num_segments, demos, some_empty=some_empty)
    is_known = np.array([count is not None for count in num_segments])
    filled: Any = [1 if count is None else count for count in num_segments]
    return np.where(is_known, broadcast_counts(filled, demos, some_empty=some_empty), UNKNOWN)


def has_unknown(num_segments: int | Counts) -> bool:
    """Whether numbers of segments are a list with a None in it."""
    return _is_list(num_segments) and any(count is None for count in num_segments)


def _is_list(told: object) -> TypeGuard[Sequence[Any]]:
    """Whether this is a list of numbers and not a single one, as arrays without axes are."""
    return (isinstance(told, Sequence) and not isinstance(told, str)) or (
        isinstance(told, np.ndarray) and told.ndim > 0
    )


def _instead(num_segments: int | np.integer) -> str:
    return f"lower num_segments, give a list with one for each demonstration, or {without_short(num_segments)}."


def without_short(num_segments: int | np.integer) -> str:
    """Words that say what to do about demonstrations that have fewer steps than segments."""
    return f"leave out what is too short: demos[demos.lengths >= {num_segments}]"


def whole_counts(told: int | Counts, num_demos: int, name: str = "num_segments") -> NDArray[np.integer]:
    """Returns one number for each demonstration, and refuses any below 1; `name` is what people call them."""
    try:
        given = np.asarray(told)
    except ValueError:
        given = np.asarray(None)
    if not np.issubdtype(given.dtype, np.integer) or given.shape not in ((), (num_demos,)):
        raise DemonstrationError(
            f"{name} is {_in_words(told)}: give a whole number, or one for each of the {num_demos} demonstrations."
        )
    if (given < 1).any():
        raise DemonstrationError(f"{name} is {given.min()}: use at least 1.")
    return np.broadcast_to(given, (num_demos,))


def _in_words(told: object) -> str:
    """Describes what was given in place of numbers, without all of a long list."""
    if not _is_list(told) or len(told) <= _FEW:
        return str(told)
    strange = [f"{value!r} at place {i}" for i, value in enumerate(told) if not isinstance(value, int | np.integer)]
    return f"a list of {len(told)}" + (f", with {strange[0]}" if strange else "")
