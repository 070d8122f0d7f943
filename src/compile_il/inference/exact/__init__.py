"""Exact inference: boundaries and skills summed out by dynamic programming.

These functions hold all starts and ends of segments of one demonstration at once. For thousands of steps, `streaming`
(likelihood, posterior) and `streaming_decode` (the others) have the same ones, row by row.
"""

from compile_il.inference.exact.constraints import Known, known_from_labels, nothing_known
from compile_il.inference.exact.decode import Segmentation, best_boundaries, best_segmentation, sample_segmentation
from compile_il.inference.exact.priors import poisson_log_duration
from compile_il.inference.exact.recursion import Posterior, exactly, log_likelihood, posterior
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.records import StepScores

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
