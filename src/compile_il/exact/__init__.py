"""Exact inference: boundaries and skills summed out by dynamic programming.

These functions hold all starts and ends of segments of one demonstration at once. For thousands of steps, `streaming`
(likelihood, posterior) and `streaming_decode` (the others) have the same ones, row by row.
"""

from compile_il.exact.decode import best_boundaries, best_segmentation, sample_segmentation
from compile_il.exact.durations import poisson_log_duration
from compile_il.exact.known import Known, known_from_labels, nothing_known
from compile_il.exact.recursion import Posterior, exactly, log_likelihood, posterior
from compile_il.exact.scores import Priors, StepScores
from compile_il.exact.walks import Segmentation

__all__ = [
    "Known",
    "Posterior",
    "Priors",
    "Segmentation",
    "StepScores",
    "best_boundaries",
    "best_segmentation",
    "exactly",
    "known_from_labels",
    "log_likelihood",
    "nothing_known",
    "poisson_log_duration",
    "posterior",
    "sample_segmentation",
]
