"""Segments of equal length: what can be had without looking."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from compile_il.baselines.baseline import Cuts, require_demonstrations
from compile_il.counts import told_counts
from compile_il.demos import Demonstrations


@dataclasses.dataclass(frozen=True)
class EqualCuts:
    """Cuts at b_i = ⌊i T / M⌋, so that lengths differ by one step at most."""

    def fit(self, demos: Demonstrations) -> "EqualCuts":
        """Returns the method as it is: there is nothing to learn."""
        require_demonstrations(demos)
        return self

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into as many segments as told."""
        require_demonstrations(demos)
        counts = told_counts(num_segments, demos)
        lists = zip(demos.lengths, counts, strict=True)
        return Cuts([(np.arange(1, count) * length // count).astype(np.int32) for length, count in lists], None)
