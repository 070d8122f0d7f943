"""Change points by the ruptures library (Truong et al., 2020), with their number given.

Segments of equal length: what can be had without looking.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from compile_il.baselines.base import Cuts, import_baseline_library, require_demonstrations
from compile_il.baselines.features import Features, View
from compile_il.data import Demonstrations
from compile_il.data.segment_counts import broadcast_counts

Method = Literal["dynp", "kernel"]


@dataclasses.dataclass(frozen=True)
class ChangePoints:
    """The cuts at which features change most: optimal for a cost of each segment, by dynamic programming.

    The library's defaults skip four of five steps and forbid segments of one step; here every step may be a cut.
    """

    method: Method = "dynp"
    """`dynp`: squared distances to a segment's mean (Dynp); `kernel`: Gaussian of the median width (KernelCPD)."""
    view: View = dataclasses.field(default_factory=View)
    """What the method looks at; see `compile_il.baselines.features`."""

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f'method is {self.method!r}: use "dynp" or "kernel".')

    def fit(self, demos: Demonstrations) -> "ChangePointCuts":
        """Learns how to scale what is seen; each demonstration is then cut by itself."""
        require_demonstrations(demos)
        import_baseline_library("ruptures")
        return ChangePointCuts(self.method, Features.of(demos, self.view))


@dataclasses.dataclass(frozen=True)
class ChangePointCuts:
    """Fitted change points, which cut demonstrations like those that they were fitted to."""

    method: Method
    features: Features

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into as many segments as told."""
        require_demonstrations(demos)
        counts = broadcast_counts(num_segments, demos)
        rows = zip(self.features(demos), counts, strict=True)
        return Cuts([self._cut(signal, int(count)) for signal, count in rows], None)

    def _cut(self, signal: NDArray[np.float64], num_segments: int) -> NDArray[np.int32]:
        if num_segments == 1 or num_segments == len(signal):
            return np.arange(1, num_segments, dtype=np.int32)  # the library asks for a choice to make
        ends = self._search().fit_predict(signal, n_bkps=num_segments - 1)
        return np.array(ends[:-1], np.int32)

    def _search(self) -> Any:
        ruptures = import_baseline_library("ruptures")
        if self.method == "dynp":
            return ruptures.Dynp(model="l2", min_size=1, jump=1)
        return ruptures.KernelCPD(kernel="rbf", min_size=1)


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
        counts = broadcast_counts(num_segments, demos)
        lists = zip(demos.lengths, counts, strict=True)
        return Cuts([(np.arange(1, count) * length // count).astype(np.int32) for length, count in lists], None)
