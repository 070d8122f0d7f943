"""Groups of codes that are vectors: the page draws skills by number, each in a colour of its own."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.cluster.vq import kmeans, vq

from compile_il.report.summary import Shown

NUM_STARTS = 20
"""Number of starts of k-means, of which the best is kept."""


def in_groups(sets: Sequence[Shown], most: int) -> list[Shown]:
    """Returns the sets with each code replaced by the number of its group; the first group has the most segments.

    Args:
      sets: demonstrations in which codes that are vectors were found.
      most: the most groups; they are found by k-means over all sets together.
    """
    codes = np.concatenate([row for shown in sets for row in shown.found.skills]).astype(np.float64)
    num_groups = min(most, len(np.unique(codes, axis=0)))
    means, _ = kmeans(codes, num_groups, iter=NUM_STARTS, seed=0)
    counts = np.bincount(vq(codes, means)[0], minlength=len(means))
    means = means[np.argsort(-counts, kind="stable")]
    return [
        dataclasses.replace(shown, found=dataclasses.replace(shown.found, skills=_numbers(shown.found.skills, means)))
        for shown in sets
    ]


def _numbers(codes: Sequence[np.ndarray], means: np.ndarray) -> list[np.ndarray]:
    return [vq(row.astype(np.float64), means)[0].astype(np.int32) for row in codes]
