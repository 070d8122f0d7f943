"""What all baselines have in common: they are fitted to demonstrations, and then cut others into told numbers.

Choice of a baseline's settings, as of a model's: by their scores on levels that are then not reported.

Import of libraries that only baselines need.

Scores of what a baseline found, in the same form as those of models.

Libraries that are installed only where they are asked for, such as by `pip install "compile-il[baselines]"`.
"""

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from compile_il.config import MissingExtraError
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.evaluation.evaluate import Evaluation, label_fields
from compile_il.evaluation.metrics import boundary_f1, score_boundaries


class Cuts(NamedTuple):
    """What a baseline found in some demonstrations; lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """The inner boundaries: the first step of each segment but the first."""
    labels: list[NDArray[np.int32]] | None
    """For each step the label of its segment, a whole number; None from methods that only cut."""


@runtime_checkable
class Segmenter(Protocol):
    """A fitted baseline, which segments demonstrations."""

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into as many segments as told, one number for all or one for each."""


@runtime_checkable
class Baseline(Protocol):
    """The settings of a method, before it has seen anything."""

    def fit(self, demos: Demonstrations) -> Segmenter:
        """Learns from demonstrations, and returns the fitted method; boundaries, where known, are not looked at."""


def require_demonstrations(given: object) -> None:
    """Raises an error for what is no set of demonstrations, such as a world's name, which only trained methods take."""
    if not isinstance(given, Demonstrations):
        raise DemonstrationError(
            f"This baseline takes demonstrations, and was given a {type(given).__name__}: make them of a world "
            "with cil.demonstrate(world, num_demos=1000), or read them with cil.Demonstrations.load(file)."
        )


def strongest(scores: NDArray[np.floating], num_boundaries: int) -> NDArray[np.int32]:
    """Returns the steps with the highest scores, in order of time; never step 0, and the earlier of two equal ones."""
    order = np.argsort(-scores[1:], kind="stable")[:num_boundaries]
    return np.sort(order + 1).astype(np.int32)


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


def import_baseline_library(name: str) -> Any:
    """Returns a module of the extra `baselines`, or raises an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        words = f"This baseline needs {name}, an extra: pip install 'compile-il[baselines]'"
        raise MissingExtraError(words) from error


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
