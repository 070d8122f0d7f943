"""What the models of a study are scored on, and how."""

import dataclasses
import inspect
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from compile_il.baselines.base import evaluate_cuts
from compile_il.baselines.learned import SurprisalCuts, surprisal_settings, without_end
from compile_il.config import TEST_SEED, VALIDATION_SEED, Config
from compile_il.evaluation.evaluate import Evaluation, evaluate
from compile_il.model.model import Model
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper import parts
from experiments.paper.agents import AGENT_TEST_SEED
from experiments.paper.parts import score, score_models
from tests.experiments.paper.tiny import PART
from tests.inference.exact.small import model_for, small_model

NOTHING = Evaluation(0.0, 0.0, 0.0, 0.0, None, None, None)


def asked_by_score(model: Model, monkeypatch: pytest.MonkeyPatch, tasks: int, **settings: Any) -> SimpleNamespace:
    """All that `evaluate` is given, or has by default."""
    asked: dict[str, Any] = {}

    def note(*given: Any, **named: Any) -> Evaluation:
        bound = inspect.signature(evaluate).bind(*given, **named)
        bound.apply_defaults()
        asked.update(bound.arguments)
        return NOTHING

    monkeypatch.setattr(parts, "evaluate", note)
    assert score(model, dataclasses.replace(PART, num_test=7, **settings), tasks) == NOTHING._asdict()
    return SimpleNamespace(**asked)


@pytest.mark.parametrize("tasks", [3, 5])
@pytest.mark.parametrize(
    ("num_segments", "as_trained", "count"),
    [(3, False, "true"), (None, False, "unknown"), (3, True, None), (None, True, None)],
)
def test_models_are_scored_on_unseen_levels(
    num_segments: int | None, as_trained: bool, count: str | None, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told how many segments there are, unless they are trained to find that out or stay as they are."""
    model = dataclasses.replace(small_model(), config=Config(num_segments=num_segments))
    asked = asked_by_score(model, monkeypatch, tasks, as_trained=as_trained)
    assert (asked.world, asked.num_tasks, asked.num_demos) == (PART.world, tasks, 7)
    assert (asked.seed, asked.count) == (TEST_SEED, count)
    assert (asked.decoder, asked.best) == (None, None)


def test_skills_of_some_parts_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(Config(inference="relaxed", num_skills=2, hidden_dim=4))
    unending = asked_by_score(model, monkeypatch, 3, unending=True).model
    assert eqx.tree_equal(unending.skills, without_end(model).skills)
    assert asked_by_score(model, monkeypatch, 3).model is model


def test_surprisal_is_scored_on_the_same_levels() -> None:
    part = dataclasses.replace(PART, num_test=32, surprisal=True)
    demos = demonstrate(PART.world, num_demos=32, num_tasks=4, seed=TEST_SEED)
    model = model_for(demos, surprisal_settings(PART.config))
    expected = evaluate_cuts(SurprisalCuts(model).segment(demos, 4), demos)
    assert 0 < expected.f1 < 1
    assert score(model, part, 4) == expected._asdict()


def test_no_levels_serve_two_purposes() -> None:
    """Training, by whatever seed of a study, choices, scores, and scores of agents, whose choices saw the others."""
    seeds = [*range(PART.num_seeds), VALIDATION_SEED, TEST_SEED, AGENT_TEST_SEED]
    levels = [demonstrate("symbols", num_demos=8, seed=seed) for seed in seeds]
    assert len({b"".join(actions.tobytes() for actions in demos.actions) for demos in levels}) == len(seeds)


def test_seeds_that_diverged_have_no_scores() -> None:
    words: list[str] = []
    model = model_for(demonstrate(PART.world, num_demos=2, num_tasks=3))
    weights, rest = eqx.partition(model.skills, eqx.is_inexact_array)
    lost = eqx.combine(jax.tree.map(lambda leaf: leaf * jnp.nan, weights), rest)
    models = [model, dataclasses.replace(model, skills=lost)]
    fine, none = score_models(PART, models, words.append)["scores"]["3"]
    assert None not in (fine["boundary_accuracy"], fine["reconstruction"])
    assert none == dict.fromkeys(fine)
    assert words == ["tiny: seed 1 diverged, and has no scores", "tiny: scored on 3 tasks"]
