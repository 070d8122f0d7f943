"""Choice of a baseline's settings, as of a model's: by their scores on levels that are then not reported."""

from collections.abc import Sequence
from typing import NamedTuple

from compile_il.baselines.baseline import Baseline, Segmenter
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.metrics import boundary_f1


class Choice(NamedTuple):
    """The best of several settings of baselines, with what was fitted by it."""

    baseline: Baseline
    fitted: Segmenter
    f1: float
    """F1 of boundaries on the validation levels, between 0 and 1."""

    def __repr__(self) -> str:
        return f"Choice({self.baseline}, F1 {100 * self.f1:.1f} %)"


def best_on(candidates: Sequence[Baseline], train: Demonstrations, validation: Demonstrations) -> Choice:
    """Fits each candidate, and keeps the one with the best F1 of boundaries where their true number is told.

    Args:
      candidates: settings to choose from; the first one is kept where several are equally good.
      train: demonstrations that the candidates are fitted to.
      validation: other demonstrations, with known boundaries.
    """
    true = validation.truth.boundaries
    if true is None:
        raise DemonstrationError(
            "The true boundaries of the validation set are not known: there is nothing to choose by."
        )
    if not candidates:
        raise ValueError("There is nothing to choose from: give at least one candidate.")
    counts = [len(inner) + 1 for inner in true]
    choices = []
    for baseline in candidates:
        fitted = baseline.fit(train)
        found = fitted.segment(validation.with_labels(), counts)
        choices.append(Choice(baseline, fitted, boundary_f1(found.boundaries, true)))
    return max(choices, key=lambda choice: choice.f1)
