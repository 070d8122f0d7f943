"""Scores in a world: what is refused before any of its levels is made."""

import importlib
from typing import Any

import numpy as np
import pytest

import compile_il as cil
from compile_il.config import Config
from compile_il.data import DemonstrationError
from compile_il.evaluation.metrics import score
from tests.inference.exact.small import model_for

EVALUATE = importlib.import_module("compile_il.evaluation.evaluate")
"""The module, whose name the function of the package takes."""


@pytest.fixture
def model() -> cil.Model:
    return model_for(cil.demonstrate("symbols", num_demos=4, seed=0))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many demonstrations are asked for, each time."""
    asked = []

    def demonstrate(*given: Any, num_demos: int, **options: Any) -> cil.Demonstrations:
        asked.append(num_demos)
        return cil.demonstrate(*given, num_demos=num_demos, **options)

    monkeypatch.setattr(EVALUATE, "demonstrate", demonstrate)
    return asked


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("foo", r"count is 'foo': give a whole number"),
        (2.5, r"count is 2\.5: give a whole number, or one for each of the 16 demonstrations"),
        (True, r"count is True: give a whole number"),
        ([3, 3], r"count is \[3, 3\], with 2 entries: give a whole number, or one for each of the 16 demonstrations"),
        ([[3], [3, 3]], r"count is .*: give a whole number"),
        (0, r"count is 0: use at least 1"),
        (np.zeros(16, int), r"count is 0: use at least 1"),
    ],
)
def test_what_is_no_count_is_refused_first(count: Any, message: str, model: cil.Model, made: list[int]) -> None:
    with pytest.raises(DemonstrationError, match=message):
        cil.evaluate(model, "symbols", num_demos=16, count=count)
    assert made == []


def test_another_world_is_refused_after_one_demonstration(model: cil.Model, made: list[int]) -> None:
    with pytest.raises(DemonstrationError, match=r"\(vector of 32, .* not as in training \(no states"):
        cil.evaluate(model, "reacher", num_demos=16)
    assert made == [1]


def test_what_is_no_model_and_what_cannot_be_scored_are_refused(model: cil.Model, made: list[int]) -> None:
    with pytest.raises(DemonstrationError, match=r"this is a str: read one with cil\.load"):
        cil.evaluate("runs/x", "symbols")  # type: ignore[arg-type]
    demos = cil.demonstrate("symbols", num_demos=2)
    with pytest.raises(DemonstrationError, match=r"num_tasks is for worlds, and these are demonstrations"):
        cil.evaluate(model, demos, num_tasks=3)
    with pytest.raises(DemonstrationError, match=r"true boundaries of these demonstrations are not known"):
        cil.evaluate(model, demos.with_truth())
    with pytest.raises(DemonstrationError, match=r"one for each of the 2 demonstrations"):
        cil.evaluate(model, demos, count=[3, 3, 3])
    assert made == []


@pytest.mark.parametrize("count", ["true", "unknown", 2])
def test_demonstrations_are_scored_as_the_levels_that_they_are_of(count: Any, model: cil.Model) -> None:
    """Whatever their labels say; what has no meaning without a world, or without codes, is None."""
    by_world = cil.evaluate(model, "symbols", num_demos=16, seed=5, count=count)
    demos = cil.demonstrate("symbols", num_demos=16, seed=5)
    assert cil.evaluate(model, demos.reveal(), count=count) == by_world
    assert by_world.agreement is not None
    without = cil.evaluate(model, demos.with_truth(boundaries=demos.truth.boundaries), count=count)
    labels = ("agreement", "nmi", "mean_iou", "segmental_f1_50", "agreement_by_chance", "nmi_by_chance")
    assert without == by_world._replace(**dict.fromkeys(labels))


@pytest.mark.parametrize(
    ("inference", "how"), [("exact", {"best": "path"}), ("relaxed", {"decoder": "exact", "best": "path"})]
)
def test_scores_are_of_the_segmentation_that_is_asked_for(inference: Any, how: dict[str, Any]) -> None:
    demos = cil.demonstrate("symbols", num_demos=32, seed=0)
    model = model_for(demos, Config(inference=inference, num_skills=3, hidden_dim=4))
    wanted, other = (
        score(model.segment(demos, 3, **options), demos) for options in (how, how | {"best": "boundaries"})
    )
    assert cil.evaluate(model, demos, **how)[:4] == wanted != other


def test_actions_of_a_grid_have_no_online_score_without_its_world() -> None:
    demos = cil.demonstrate("grid-pickup", num_demos=4, seed=0)
    scores, by_world = (
        cil.evaluate(model_for(demos), demos),
        cil.evaluate(model_for(demos), "grid-pickup", num_demos=4, seed=0),
    )
    assert by_world.online is not None
    assert scores == by_world._replace(online=None)


def test_long_lists_of_pick_ups_come_with_as_many_objects(made: list[int]) -> None:
    model = model_for(cil.demonstrate("grid-pickup", num_demos=4, seed=0))
    scores = cil.evaluate(model, "grid-pickup", num_tasks=7, num_demos=2)
    assert scores.online is not None
    assert made == [1, 2]


def test_every_kind_of_count_is_taken(model: cil.Model, made: list[int]) -> None:
    three, listed = (cil.evaluate(model, "symbols", num_demos=4, count=count) for count in (3, np.array([3, 3, 3, 3])))
    assert three == listed == cil.evaluate(model, "symbols", num_demos=4)
    assert cil.evaluate(model, "symbols", num_demos=4, count=None) == three
    assert 0 <= cil.evaluate(model, "symbols", num_demos=4, count="unknown").count_accuracy <= 1
    assert made == [1, 4] * 5
