"""All scores of what a baseline found, as models have them."""

from compile_il.baselines.baseline import Cuts
from compile_il.demos import Demonstrations
from compile_il.evaluate import Evaluation, label_fields
from compile_il.metrics import score_boundaries


def evaluate_cuts(cuts: Cuts, demos: Demonstrations) -> Evaluation:
    """Scores what a baseline found in demonstrations of a world; it cannot act."""
    assert demos.truth.boundaries is not None, "worlds know their boundaries"
    labels = {} if cuts.labels is None else label_fields(cuts.labels, demos)
    found = score_boundaries(cuts.boundaries, demos.truth.boundaries)
    return Evaluation(*found, reconstruction=None, exact_match=None, online=None, **labels)
