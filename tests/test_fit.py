"""Training: what is held out, what is refused, which seed is kept, and that it learns."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from compile_il.config import Config
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.evaluate import evaluate
from compile_il.fit import fit
from compile_il.model import Model
from compile_il.sources import hold_out, make_source
from compile_il.train import Trainer
from compile_il.worlds import GridWorld, SymbolsWorld
from tests.exact.small import SMALL, vector_demos


def weights(model: Model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model.skills, eqx.is_array))]


def held_out_likelihood(model: Model, demos: Demonstrations) -> float:
    return float(model.segment(demos).log_likelihood.mean())


@pytest.mark.parametrize(("num_demos", "num_held_out"), [(2, 1), (4, 1), (25, 2), (3000, 256)])
def test_some_demonstrations_are_held_out(num_demos: int, num_held_out: int) -> None:
    demos = Demonstrations.from_arrays(None, [np.full(3, i) for i in range(num_demos)])
    kept, held_out = hold_out(demos, seed=1)
    assert len(held_out) == num_held_out
    together = [int(actions[0]) for part in (kept, held_out) for actions in part.actions]
    assert sorted(together) == list(range(num_demos))
    again = hold_out(demos, seed=1)[1]
    assert [a[0] for a in again.actions] == [a[0] for a in held_out.actions]


def test_a_single_demonstration_is_trained_on_and_compared_on() -> None:
    source = make_source(vector_demos(1), SMALL)
    assert len(source.demos) == len(source.held_out) == 1


@pytest.mark.parametrize(
    ("settings", "labels", "message"),
    [
        ({"num_segments": 5}, {}, r"Demonstration 3 has 4 steps, too few for 5 segments: lower num_segments"),
        ({"longest_segment": 2}, {}, r"Demonstration 1 has 9 steps, more than 3 segments of up to 2: raise"),
        (
            {"num_segments": None, "max_segments": 2, "longest_segment": 4},
            {},
            r"Demonstration 1 has 9 steps, more than 2 segments of up to 4: raise",
        ),
        (
            {"num_segments": 2},
            {"boundaries": [[-1, 1, 1, -1, -1], None, None, None]},
            r"The labels of demonstration 0 cut it into 3 segments, and the settings allow 2: raise",
        ),
        (
            {"num_skills": 2},
            {"codes": [None, None, [-1] * 6 + [2], None]},
            r"The labels of demonstration 2 name skill 2, and there are 2: raise num_skills to at least 3",
        ),
    ],
)
def test_demonstrations_that_the_settings_do_not_allow(
    settings: dict[str, Any], labels: dict[str, Any], message: str
) -> None:
    with pytest.raises(DemonstrationError, match=message):
        make_source(vector_demos().with_labels(**labels), dataclasses.replace(SMALL, **settings))


def test_the_best_seed_on_data_is_kept() -> None:
    demos, config = vector_demos(20), dataclasses.replace(SMALL, num_seeds=2, num_iterations=4)
    trainer = Trainer(config, make_source(demos, config))
    state, losses = trainer.start(), np.zeros(2)
    for iteration in range(config.num_iterations):
        state, losses = trainer.step(state, iteration)
    assert np.isfinite(losses).all()
    models = trainer.models(state)
    likelihoods = [held_out_likelihood(model, trainer.source.held_out) for model in models]
    assert likelihoods[0] != likelihoods[1]
    best = models[int(np.argmax(likelihoods))]
    for kept in (trainer.best(state), fit(demos, config=config)):
        for a, b in zip(weights(kept), weights(best), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_best_seed_on_a_world_is_kept() -> None:
    config = dataclasses.replace(SMALL, num_seeds=2, num_iterations=2)
    trainer = Trainer(config, make_source(SymbolsWorld(num_tasks=3), config))
    assert len(trainer.source.held_out) == 256
    state = trainer.start()
    for iteration in range(config.num_iterations):
        state, _ = trainer.step(state, iteration)
    likelihoods = [held_out_likelihood(model, trainer.source.held_out) for model in trainer.models(state)]
    assert held_out_likelihood(trainer.best(state), trainer.source.held_out) == max(likelihoods)
    assert likelihoods[0] != likelihoods[1]


def test_training_can_start_again() -> None:
    trainer = Trainer(SMALL, make_source(vector_demos(), SMALL))
    runs = []
    for _ in range(2):
        state, losses = trainer.start(), []
        for iteration in range(20):
            state, loss = trainer.step(state, iteration)
            losses.append(float(loss[0]))
        runs.append(losses)
    assert runs[0] == runs[1]
    assert np.mean(runs[0][-5:]) < np.mean(runs[0][:5])


def losses_of(config: Config, num_steps: int, ahead: int) -> np.ndarray:
    trainer = Trainer(config, make_source(GridWorld(num_tasks=2, num_objects=2, size=5, max_steps=12), config))
    trainer._ahead = ahead
    state, losses = trainer.start(), []
    for iteration in range(num_steps):
        state, loss = trainer.step(state, iteration)
        losses.append(np.asarray(loss))
    return np.stack(losses)


def test_drawing_batches_ahead_changes_no_batch() -> None:
    config = dataclasses.replace(SMALL, num_segments=2, num_seeds=2)
    np.testing.assert_allclose(losses_of(config, 5, ahead=1), losses_of(config, 5, ahead=3), rtol=1e-5)


def test_half_precision_starts_where_full_precision_does() -> None:
    config = dataclasses.replace(SMALL, num_segments=2)
    full = losses_of(config, 3, ahead=1)
    half = losses_of(dataclasses.replace(config, half_precision=True), 3, ahead=1)
    np.testing.assert_allclose(half, full, rtol=0.02)
    assert (half != full).any(), "nothing was computed in half precision"


def test_grid_pickup_is_learned_without_labels() -> None:
    model = fit("grid-pickup", num_iterations=450)
    scores = evaluate(model, "grid-pickup", num_tasks=3, num_demos=512)
    assert scores.boundary_accuracy >= 0.98
    assert scores.f1_tolerance_1 >= 0.98
    assert scores.count_accuracy == 1
    assert scores.reconstruction is not None
    assert scores.reconstruction >= 0.6  # of five actions; this short a training stops far from the best policies
