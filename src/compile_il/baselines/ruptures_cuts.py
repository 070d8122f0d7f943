"""Change points by the ruptures library (Truong et al., 2020), with their number given."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from compile_il.baselines.baseline import Cuts, require_demonstrations
from compile_il.baselines.features import Features, View
from compile_il.baselines.optional import import_baseline_library
from compile_il.counts import told_counts
from compile_il.demos import Demonstrations

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
        counts = told_counts(num_segments, demos)
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
