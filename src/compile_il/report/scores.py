"""Headings of scores in tables, and how the scores of several seeds are written."""

import math
from collections.abc import Sequence

from compile_il.metrics import summarise

SCORE_HEADINGS = {
    "boundaries": "boundary_accuracy",
    "F1": "f1",
    "F1, 1 step off": "f1_tolerance_1",
    "number right": "count_accuracy",
    "reconstruction": "reconstruction",
    "exact match": "exact_match",
    "online": "online",
}
"""Headings of tables, in order, with the fields of `Evaluation` that stand below them."""
LABEL_HEADINGS = {
    "skills agree": "agreement",
    "agree by chance": "agreement_by_chance",
    "mutual information": "nmi",
    "information by chance": "nmi_by_chance",
    "mean IoU": "mean_iou",
    "segmental F1, overlap 50 %": "segmental_f1_50",
}
"""Headings, with fields of `Evaluation`, for how well skills agree with the things that tasks are about."""


def spread(values: Sequence[float | None]) -> str:
    """Writes mean and standard deviation over seeds, in per cent; a dash where there is no such score.

    Seeds that diverged have no score; where there are some, it is said how many are left.
    """
    given = [100 * value for value in values if value is not None]
    if not given:
        return "-"
    summary = summarise(given)
    deviation = "" if math.isnan(summary.std) else f" ± {summary.std:.1f}"
    left = "" if len(given) == len(values) else f" ({len(given)} of {len(values)} seeds)"
    return f"{summary.mean:.1f}{deviation}{left}"


def interval(values: Sequence[float | None]) -> str:
    """Writes the 95 % interval of the mean over seeds, in per cent; a dash for fewer than two scores."""
    given = [100 * value for value in values if value is not None]
    if len(given) < 2:
        return "-"
    summary = summarise(given)
    return f"{summary.low:.1f} to {summary.high:.1f}"
