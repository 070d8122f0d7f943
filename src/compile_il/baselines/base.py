"""Defines what all baselines share: their interface, their scores, and how their settings are chosen."""

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from compile_il.config import CompileError, MissingExtraError
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.segment_counts import broadcast_counts
from compile_il.evaluation.evaluate import Evaluation, label_scores, true_counts
from compile_il.evaluation.metrics import score_boundaries, true_boundaries


class Cuts(NamedTuple):
    """Segmentation by a baseline, in lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """First step of each segment but the first."""
    labels: list[NDArray[np.int32]] | None
    """Label of each step; None from methods that only cut."""


@runtime_checkable
class Segmenter(Protocol):
    """Interface of a fitted baseline."""

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into a number of segments, one number for all or one for each."""


@runtime_checkable
class Baseline(Protocol):
    """Interface of a baseline before it is fitted: its settings."""

    def fit(self, demos: Demonstrations) -> Segmenter:
        """Learns from demonstrations, whose true boundaries are not looked at, and returns the fitted method."""


def require_demonstrations(given: object) -> None:
    """Refuses anything else, such as a world's name, which only trained methods take."""
    if not isinstance(given, Demonstrations):
        raise DemonstrationError(
            f"This baseline takes demonstrations, and was given a {type(given).__name__}: make them of a world "
            "with cil.demonstrate(world, num_demos=1000), or read them with cil.Demonstrations.load(file)."
        )


def counts_of(demos: Demonstrations, num_segments: int | Sequence[int]) -> list[int]:
    """Returns the number of segments of each demonstration."""
    require_demonstrations(demos)
    return broadcast_counts(num_segments, demos).tolist()


def strongest(scores: NDArray[np.floating], num_boundaries: int) -> NDArray[np.int32]:
    """Returns the steps with the highest scores, in order of time; never step 0, and the earlier of two equal ones."""
    order = np.argsort(-scores[1:], kind="stable")[:num_boundaries]
    return np.sort(order + 1).astype(np.int32)


def import_baseline_library(name: str) -> Any:
    """Returns a module of the extra `baselines`, or raises an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"This baseline needs {name}, an extra: pip install 'compile-il[baselines]'") from error


def evaluate_cuts(cuts: Cuts, demos: Demonstrations) -> Evaluation:
    """Scores a baseline's segmentation as those of models, but for acting."""
    scores = score_boundaries(cuts.boundaries, true_boundaries(demos))
    labels = {} if cuts.labels is None else label_scores(cuts.labels, demos)
    return Evaluation(*scores, reconstruction=None, exact_match=None, online=None, **labels)


class Choice(NamedTuple):
    """Best of several settings of baselines, and the method fitted with them."""

    baseline: Baseline
    fitted: Segmenter
    f1: float
    """F1 of boundaries on the validation levels, between 0 and 1."""


def best_on(candidates: Sequence[Baseline], train: Demonstrations, validation: Demonstrations) -> Choice:
    """Fits each candidate, and keeps the first with the best F1 of boundaries where their true number is given.

    Validation demonstrations have true boundaries; scores on them are not to be reported.
    """
    if not candidates:
        raise CompileError("There is nothing to choose from: give at least one candidate.")
    counts, choices = true_counts(validation), []
    for baseline in candidates:
        fitted = baseline.fit(train)
        cuts = fitted.segment(validation.with_labels(), counts)
        choices.append(Choice(baseline, fitted, evaluate_cuts(cuts, validation).f1))
    return max(choices, key=lambda choice: choice.f1)
