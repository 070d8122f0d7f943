"""Cuts demonstrations into segments of equal length, or where they change most (ruptures; Truong et al., 2020)."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from compile_il.baselines.base import Cuts, counts_of, import_baseline_library, require_demonstrations
from compile_il.baselines.features import Features, View
from compile_il.config import CompileError
from compile_il.data import Demonstrations

Method = Literal["dynp", "kernel"]


@dataclasses.dataclass(frozen=True)
class EqualCuts:
    """Cuts at b_i = ⌊i T / M⌋, so that lengths differ by one step at most."""

    def fit(self, demos: Demonstrations) -> "EqualCuts":
        """Returns the method as it is: there is nothing to learn."""
        require_demonstrations(demos)
        return self

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into a number of segments."""
        pairs = zip(counts_of(demos, num_segments), demos.lengths, strict=True)
        return Cuts([(np.arange(1, count) * length // count).astype(np.int32) for count, length in pairs], None)


@dataclasses.dataclass(frozen=True)
class ChangePoints:
    """Settings of change points: the cuts that are optimal for a cost of each segment, by dynamic programming.

    The library's defaults skip four of five steps and forbid segments of one step; here every step may be a cut.
    """

    method: Method = "dynp"
    """`dynp`: squared distances to a segment's mean (Dynp); `kernel`: Gaussian of the median width (KernelCPD)."""
    view: View = dataclasses.field(default_factory=View)

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise CompileError(f'method is {self.method!r}: use "dynp" or "kernel".')

    def fit(self, demos: Demonstrations) -> "ChangePointCuts":
        """Learns how to scale features; each demonstration is then cut by itself."""
        require_demonstrations(demos)
        import_baseline_library("ruptures")
        return ChangePointCuts(self.method, Features.of(demos, self.view))


@dataclasses.dataclass(frozen=True)
class ChangePointCuts:
    """Fitted change points, which cut demonstrations like those that they were fitted to."""

    method: Method
    features: Features

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into a number of segments."""
        counts = counts_of(demos, num_segments)
        return Cuts(list(map(self._cut, self.features(demos), counts)), None)

    def _cut(self, rows: NDArray[np.float64], num_segments: int) -> NDArray[np.int32]:
        if num_segments == 1 or num_segments == len(rows):
            return np.arange(1, num_segments, dtype=np.int32)  # the library asks for a choice to make
        ruptures = import_baseline_library("ruptures")
        dynp = self.method == "dynp"
        search = ruptures.Dynp(model="l2", min_size=1, jump=1) if dynp else ruptures.KernelCPD(kernel="rbf", min_size=1)
        return np.array(search.fit_predict(rows, n_bkps=num_segments - 1)[:-1], np.int32)
