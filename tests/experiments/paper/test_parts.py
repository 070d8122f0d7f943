"""Parts are scored on unseen levels, are not done twice, and say which versions of the program trained them."""

import dataclasses
import inspect
import json
import os
import signal
from pathlib import Path
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
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper import parts
from experiments.paper.agents import AGENT_TEST_SEED, NUM_POINTS, curve_of
from experiments.paper.parts import COMMITS_FILE, RESULT_FILE, read_done, run_part
from tests.experiments.paper.tiny import CONFIG, PART
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
    assert dataclasses.replace(PART, num_test=7, **settings).score(model, tasks) == NOTHING._asdict()
    return SimpleNamespace(**asked)


@pytest.mark.parametrize(
    ("num_segments", "as_trained", "count"),
    [(3, False, "true"), (None, False, "unknown"), (3, True, None), (None, True, None)],
)
def test_models_are_scored_on_unseen_levels(
    num_segments: int | None, as_trained: bool, count: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the number of segments, unless they are trained to find that out or stay as they are."""
    config = Config(num_segments=num_segments)
    model = dataclasses.replace(small_model(), config=config, resolved=config.resolved())
    asked = asked_by_score(model, monkeypatch, 5, as_trained=as_trained)
    assert (asked.world, asked.num_tasks, asked.num_demos) == (PART.world, 5, 7)
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
    assert part.score(model, 4) == expected._asdict()


def test_no_levels_serve_two_purposes() -> None:
    """Training, by whatever seed of a study, choices, scores, and scores of agents, whose choices saw the others."""
    seeds = [*range(PART.num_seeds), VALIDATION_SEED, TEST_SEED, AGENT_TEST_SEED]
    levels = [demonstrate("symbols", num_demos=8, seed=seed) for seed in seeds]
    assert len({b"".join(actions.tobytes() for actions in demos.actions) for demos in levels}) == len(seeds)


def test_seeds_that_diverged_have_no_scores(tmp_path: Path) -> None:
    words: list[str] = []
    model = model_for(demonstrate(PART.world, num_demos=2, num_tasks=3))
    weights, rest = eqx.partition(model.skills, eqx.is_inexact_array)
    lost = eqx.combine(jax.tree.map(lambda leaf: leaf * jnp.nan, weights), rest)
    models = [model, dataclasses.replace(model, skills=lost)]
    fine, none = PART.measure(models, tmp_path, words.append)["scores"]["3"]
    assert None not in (fine["boundary_accuracy"], fine["reconstruction"])
    assert none == dict.fromkeys(fine)
    assert words == ["tiny: seed 1 diverged, and has no scores", "tiny: scored on 3 tasks"]


def test_training_has_three_tasks_whatever_the_number_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers: list[Trainer] = []
    monkeypatch.setattr(Trainer, "start", lambda self: trainers.append(self) or 1 / 0)
    few = dataclasses.replace(CONFIG, num_segments=2)
    with pytest.raises(ZeroDivisionError):
        run_part(dataclasses.replace(PART, config=few, as_trained=True), tmp_path, print)
    assert {len(inner) for inner in trainers[0].source.demos.truth.boundaries or []} == {2}


def test_results_name_the_versions_that_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One begins a training, another finishes it, a third scores the models otherwise; nothing is done twice."""
    step, steps = Trainer.step, []

    def interrupted(self: Trainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    def run(version: str, num_test: int = PART.num_test) -> dict[str, Any]:
        monkeypatch.setattr(parts, "commit", lambda: version)
        part = dataclasses.replace(PART, num_test=num_test)
        return run_part(part, tmp_path / str(num_test), print, trained=tmp_path)

    monkeypatch.setattr(parts.Part, "score", lambda *_: {})
    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="after iteration 2 of 4"):
        run("a")
    by_two, by_another = run("b"), run("c", num_test=4)
    assert (by_two["commit"], by_another["commit"]) == ("a, b", "a, b, c")
    assert by_another["training_seconds"] == by_two["training_seconds"], "another look at the models is no training"
    assert run("c") == by_two, "done before"
    assert steps == [0, 1, 2, 3]
    (tmp_path / PART.training_hash / COMMITS_FILE).unlink()
    assert run("c", num_test=5)["commit"] == "unknown, c"


@pytest.mark.parametrize("damage", ["", '{"part": ', "[]", "null", "part alone"])
def test_a_part_whose_file_is_damaged_is_not_done(damage: str, tmp_path: Path) -> None:
    (tmp_path / RESULT_FILE).write_text(json.dumps({"part": PART.to_json()}) if "alone" in damage else damage)
    assert read_done(tmp_path, PART) is None


def log_row(steps: int, *success: float | None) -> dict[str, Any]:
    return {"steps": float(steps), "by_seed": [{"success": value, "reward": value} for value in success]}


def test_curves_average_long_logs() -> None:
    short = curve_of([log_row(10, 0.1, None), log_row(20, 0.3, 0.5)])
    assert short == {"steps": [10, 20], "success": [[0.1, 0.3], [None, 0.5]], "reward": [[0.1, 0.3], [None, 0.5]]}
    long = curve_of([log_row(n + 1, float(n % 5), None if n % 2 else 1.0) for n in range(5 * NUM_POINTS)])
    assert long["steps"] == [5 * n for n in range(1, NUM_POINTS + 1)]
    assert long["success"] == [[2.0] * NUM_POINTS, [1.0] * NUM_POINTS]
