"""Exact inference: boundaries and skills summed out by dynamic programming.

These functions hold all starts and ends of segments of one demonstration at once. For thousands of steps, `streaming`
(likelihood, posterior) and `streaming_decode` (the others) have the same ones, row by row.
"""

from compile_il.inference.exact.constraints import Constraints, constraints_from_labels, no_constraints
from compile_il.inference.exact.decode import Segmentation, best_boundaries, best_segmentation, sample_segmentation
from compile_il.inference.exact.priors import poisson_log_duration
from compile_il.inference.exact.recursion import Posterior, log_likelihood, point_mass, posterior
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.records import StepScores

__all__ = [
    "Constraints",
    "Posterior",
    "Priors",
    "Segmentation",
    "StepScores",
    "best_boundaries",
    "best_segmentation",
    "constraints_from_labels",
    "log_likelihood",
    "no_constraints",
    "point_mass",
    "poisson_log_duration",
    "posterior",
    "sample_segmentation",
]
