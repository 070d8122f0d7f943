"""Every way to cut a demonstration into segments and to name their skills, one by one, in plain Python."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Path(NamedTuple):
    ends: tuple[int, ...]
    skills: tuple[int, ...]
    log_prob: float


def paths(
    log_policy: np.ndarray,
    log_stop: np.ndarray,
    log_go: np.ndarray,
    log_skill: np.ndarray,
    log_duration: np.ndarray,
    *,
    length: int,
    num_segments: int,
    boundary_labels: np.ndarray | None = None,
    code_labels: np.ndarray | None = None,
    segment_codes: Sequence[int] = (),
) -> Iterator[Path]:
    """All segmentations into `num_segments` non-empty segments that agree with the labels.

    Codes of segments are one, or -1, for each of them; without any, nothing is said.
    """
    if len(segment_codes) not in (0, num_segments):
        return
    num_skills = log_policy.shape[1]
    for inner in itertools.combinations(range(1, length), num_segments - 1):
        if boundary_labels is not None and any(
            label != -1 and bool(label) != (t in inner) for t, label in enumerate(boundary_labels[:length]) if t > 0
        ):
            continue
        ends = (*inner, length)
        starts = (0, *inner)
        if any(end - start >= len(log_duration) for start, end in zip(starts, ends, strict=True)):
            continue
        for skills in itertools.product(range(num_skills), repeat=num_segments):
            total, agrees = 0.0, all(label in (-1, k) for label, k in zip(segment_codes, skills, strict=False))
            for start, end, k in zip(starts, ends, skills, strict=True):
                total += log_skill[k] + log_duration[end - start]
                for t in range(start, end):
                    total += log_policy[t, k] + (log_stop[t, k] if t == end - 1 else log_go[t, k])
                    if code_labels is not None and code_labels[t] not in (-1, k):
                        agrees = False
            if agrees:
                yield Path(ends, skills, float(total))


def log_sum(values: list[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))
