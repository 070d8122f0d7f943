"""Demonstrations as runs of steps: what was found, what is true, and which demonstrations are worth a look."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import Demonstration, Demonstrations
from compile_il.segments import Segments

NUM_SHOWN = 8
_MOST_WRONG, _MOST_UNSURE = 3, 2
MAX_COLUMNS = 160
"""Most columns of a drawing along time; longer demonstrations are drawn with several steps per column."""


class Run(NamedTuple):
    """Steps from `start` up to, not including, `end` that share a code: a skill, or a true task."""

    start: int
    end: int
    code: int
    """Number of the skill or the true task; -1 where it is not known."""


class Pick(NamedTuple):
    """A demonstration to show, and why it was chosen; `why` is empty for the usual ones."""

    number: int
    """Index of the demonstration in its set."""
    why: str


class ChosenDemos(NamedTuple):
    """Demonstrations to show, and how many of the whole set are wrong."""

    picks: list[Pick]
    num_wrong: int
    """Number of demonstrations of the set whose boundaries are not the true ones; 0 where the truth is not known."""


def found_runs(found: Segments, index: int) -> list[Run]:
    """Returns the segments that were found in one demonstration."""
    return _runs(found.boundaries[index], len(found.boundary_probs[index]), found.skills[index])


def true_runs(demo: Demonstration) -> list[Run] | None:
    """Returns the true segments of one demonstration; None where they are not known."""
    if demo.truth.boundaries is None:
        return None
    unknown = np.full(len(demo.truth.boundaries) + 1, -1)
    return _runs(demo.truth.boundaries, len(demo), unknown if demo.truth.codes is None else demo.truth.codes)


def _runs(inner: NDArray[np.integer], length: int, codes: NDArray[np.integer]) -> list[Run]:
    edges = [0, *inner.tolist(), length]
    return [Run(*run) for run in zip(edges[:-1], edges[1:], codes.tolist(), strict=True)]


def certainty(found: Segments, index: int) -> float:
    """Returns 1 - max_t |p_t - c_t|, the weakest step's, for boundaries with probability p and c = 1 where chosen."""
    chosen = np.zeros(len(found.boundary_probs[index]))
    chosen[found.boundaries[index]] = 1
    return float(np.clip(1 - np.abs(found.boundary_probs[index] - chosen).max(initial=0), 0, 1))


def num_misplaced(found: Segments, demos: Demonstrations, index: int) -> int:
    """Counts boundaries that are found and not true, or true and not found; 0 where the truth is not known."""
    if demos.truth.boundaries is None:
        return 0
    return len(np.setxor1d(found.boundaries[index], demos.truth.boundaries[index]))


def choose(found: Segments, demos: Demonstrations, num_shown: int = NUM_SHOWN) -> ChosenDemos:
    """Chooses some that went wrong, some that the model is least sure about, the others spread evenly over the rest."""
    wrong = np.array([num_misplaced(found, demos, i) for i in range(len(demos))])
    sure = np.array([certainty(found, i) for i in range(len(demos))])
    by_surprise = np.lexsort((sure, -wrong))
    bad = [int(i) for i in by_surprise if wrong[i]][: min(_MOST_WRONG, num_shown)]
    others = [int(i) for i in np.argsort(sure, kind="stable") if not wrong[i]]
    num_unsure = min(_MOST_UNSURE, num_shown - len(bad), max(len(others) - 1, 0))
    unsure, rest = others[:num_unsure], sorted(others[num_unsure:])
    num_rest = min(num_shown - len(bad) - len(unsure), len(rest))
    usual = [rest[i * len(rest) // num_rest] for i in range(num_rest)]
    # Where hardly any is right, the remaining places go to more of the wrong ones.
    left = num_shown - len(bad) - len(unsure) - len(usual)
    bad += [int(i) for i in by_surprise if wrong[i]][len(bad) : len(bad) + left]
    groups = ((usual, ""), (unsure, "least certain"), (bad, "wrong"))
    return ChosenDemos([Pick(i, why) for indices, why in groups for i in indices], int((wrong > 0).sum()))


def task_of_step(demo: Demonstration) -> NDArray[np.int64] | None:
    """Returns the true task of each step; None where boundaries or codes are not known."""
    runs = true_runs(demo)
    if runs is None or demo.truth.codes is None:
        return None
    return np.repeat([run.code for run in runs], [run.end - run.start for run in runs])


def column_edges(length: int) -> NDArray[np.int64]:
    """Returns the steps at which columns of a drawing along time begin and end: one per step, or `MAX_COLUMNS`."""
    return np.unique(np.linspace(0, length, min(length, MAX_COLUMNS) + 1).round().astype(np.int64))


def few_runs(runs: Sequence[Run], length: int) -> list[Run]:
    """Returns the same runs or, where they are finer than can be seen, one per column, with the code of most steps."""
    if len(runs) <= MAX_COLUMNS:
        return list(runs)
    codes = np.repeat([run.code for run in runs], [run.end - run.start for run in runs])
    edges = column_edges(length).tolist()
    return [Run(a, b, int(_most_common(codes[a:b]))) for a, b in itertools.pairwise(edges)]


def _most_common(codes: NDArray[np.integer]) -> np.integer:
    values, counts = np.unique(codes, return_counts=True)
    return values[counts.argmax()]
