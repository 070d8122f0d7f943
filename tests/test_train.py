"""What a step of training hands to the losses: another sample each time, the number of the iteration, what is told."""

from typing import Any

import jax
import numpy as np
import optax
import pytest

from compile_il.config import Config
from compile_il.demos import UNKNOWN, Demonstrations
from compile_il.generate import demonstrate
from compile_il.sources import make_source
from compile_il.train import Trainer
from compile_il.worlds import SymbolsWorld, World

NUM_ITERATIONS = 4


def losses(data: Demonstrations | World, **settings: Any) -> np.ndarray:
    """Of each iteration of a model that all but stays as it is, with one demonstration at a time."""
    sizes: dict[str, Any] = {"num_skills": 5, "hidden_dim": 4, "batch_size": 1, "num_iterations": NUM_ITERATIONS}
    config = Config(inference="relaxed", learning_rate=1e-12, **sizes, **settings)
    trainer = Trainer(config, make_source(data, config))
    state, found = trainer.start(), []
    for iteration in range(NUM_ITERATIONS):
        state, loss = trainer.step(state, iteration)
        found.append(float(loss.total[0]))
    return np.array(found)


def test_every_iteration_has_a_sample_and_a_temperature_of_its_own() -> None:
    demos = demonstrate("symbols", num_demos=1, num_tasks=3, seed=0)
    fixed = losses(demos)
    assert len(set(fixed.round(4))) == NUM_ITERATIONS
    falling = losses(demos, final_temperature=0.1)
    np.testing.assert_allclose(falling[0], fixed[0], rtol=1e-6)
    assert (np.abs(falling[1:] - fixed[1:]) > 1e-3).all()


def test_a_seed_means_the_same_whatever_the_default_generator_is() -> None:
    usual = losses(SymbolsWorld())
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(losses(SymbolsWorld()), usual)


@pytest.mark.parametrize(
    ("data", "settings", "expected"),
    [
        ("symbols", {"inference": "relaxed"}, 3.0),
        ("symbols", {"inference": "relaxed", "duration_rate": 2.5}, 2.5),
        ("data", {"inference": "relaxed"}, 4.0),
        ("data", {"inference": "exact"}, 4.0),
        ("data", {"inference": "exact", "num_segments": 4}, 3.0),
        ("told", {"inference": "relaxed", "num_segments": 3, "counts_told": True}, 6.0),
        ("data", {"inference": "relaxed", "duration_rate": 5.0}, 5.0),
    ],
)
def test_segments_are_expected_to_be_as_long_as_in_the_data(
    data: str, settings: dict[str, Any], expected: float
) -> None:
    """The paper's 3 is for its own worlds."""
    demos = Demonstrations.from_arrays(None, [np.zeros(12, int)] * 4, num_actions=2)
    if data == "told":
        demos = demos.with_labels(segment_codes=[[UNKNOWN, UNKNOWN]] * 4)
    config = Config(**({"num_segments": 3, "num_skills": 2, "hidden_dim": 4} | settings))
    trainer = Trainer(config, make_source("symbols" if data == "symbols" else demos, config))
    assert trainer.rate == pytest.approx(expected)
    assert trainer.models(trainer.start())[0].duration_rate == trainer.rate


def test_long_gradients_are_cut_and_short_ones_are_not() -> None:
    demos = demonstrate("symbols", num_demos=8, num_tasks=3, seed=0)

    def first_gradients(max_gradient: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Directions and lengths of two models' gradients: a tenth of them is Adam's mean after one step."""
        config = Config(num_segments=3, num_skills=2, hidden_dim=4, num_seeds=2, max_gradient=max_gradient)
        trainer = Trainer(config, make_source(demos, config))
        state, _ = trainer.step(trainer.start(), 0)
        leaves = jax.tree.leaves(optax.tree.get(state.optimiser, "mu"))
        gradients = 10 * np.concatenate([np.asarray(leaf).reshape(2, -1) for leaf in leaves], axis=1)
        lengths = np.linalg.norm(gradients, axis=1)
        return gradients / lengths[:, None], lengths

    directions, free = first_gradients(None)
    limit = float(free.mean())  # of two models with weights of their own one is above it, the other below
    cut_directions, cut = first_gradients(limit)
    assert free.min() < 0.99 * limit < 1.01 * limit < free.max()
    np.testing.assert_allclose(cut, np.minimum(free, limit), rtol=1e-5)
    np.testing.assert_allclose(cut_directions, directions, atol=1e-6)


def test_a_world_tells_what_is_asked_of_it() -> None:
    told = {kind: losses(SymbolsWorld(), supervision=kind) for kind in ("none", "b", "z", "bz")}
    for one, other in (("none", "b"), ("none", "z"), ("b", "bz"), ("z", "bz")):
        assert (np.abs(told[one] - told[other]) > 1e-3).all(), (one, other)
