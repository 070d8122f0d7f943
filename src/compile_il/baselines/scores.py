"""Scores of what a baseline found, in the same form as those of models."""

from compile_il.baselines.baseline import Cuts
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.evaluate import Evaluation, label_fields
from compile_il.metrics import score_boundaries


def evaluate_cuts(cuts: Cuts, demos: Demonstrations) -> Evaluation:
    """Scores what a baseline found in demonstrations whose boundaries are known; it cannot act."""
    if demos.truth.boundaries is None:
        raise DemonstrationError(
            "The true boundaries of these demonstrations are not known, and there is nothing to score: give them with "
            "demos.with_truth(boundaries=...)."
        )
    labels = {} if cuts.labels is None else label_fields(cuts.labels, demos)
    found = score_boundaries(cuts.boundaries, demos.truth.boundaries)
    return Evaluation(*found, reconstruction=None, exact_match=None, online=None, **labels)
