"""What a step of training hands to the losses: another sample each time, the number of the iteration, labels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from compile_il.config import Config
from compile_il.data.batch import Batch
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.inference.engines import ENGINES
from compile_il.inference.records import Loss
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.symbols import SymbolsWorld
from compile_il.worlds.world import World

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


def given_to_losses(
    value_of: Callable[[Batch, Any], jax.Array], batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """What the losses are given, as one number for each demonstration: iterations x seeds x demonstrations."""

    def losses(skills: Any, batch: Batch, keys: Any, iteration: Any) -> Loss:
        values, which = value_of(batch, keys), jnp.arange(batch_size)
        terms = {str(i): jnp.where(which == i, values, 0.0) for i in range(batch_size)}
        return Loss(sum(terms.values()), terms)

    monkeypatch.setattr(ENGINES["exact"], "make_losses", lambda *_: losses)
    demos = Demonstrations.from_arrays([np.full((4, 1), i) for i in range(64)], [np.zeros(3, int)] * 64, num_actions=2)
    config = Config(num_seeds=3, num_segments=1, num_skills=1, hidden_dim=2, batch_size=batch_size)
    trainer = Trainer(config, make_source(demos, config))
    state, found = trainer.start(), []
    for iteration in range(NUM_ITERATIONS):
        state, loss = trainer.step(state, iteration)
        found.append([batch_size * np.asarray(loss.terms[str(i)]) for i in range(batch_size)])
    return np.moveaxis(np.array(found), 1, 2)


def test_every_demonstration_of_every_seed_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = given_to_losses(lambda batch, keys: jax.vmap(jax.random.uniform)(keys), 2, monkeypatch)
    assert len(set(found.ravel())) == found.size == NUM_ITERATIONS * 3 * 2


def test_every_seed_has_batches_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = given_to_losses(lambda batch, keys: batch.frames[batch.first, 0], 2, monkeypatch)
    assert all(len(set(batch)) == 2 for batch in found.reshape(-1, 2)), "none is drawn twice for a batch"
    assert all(len({tuple(batch) for batch in seeds}) == 3 for seeds in found)
    assert all(len({tuple(batch) for batch in seed}) == NUM_ITERATIONS for seed in found.swapaxes(0, 1))


def test_the_loss_is_a_mean_over_demonstrations_that_are_possible() -> None:
    """And so is its gradient. Data that are too short are refused; worlds may seldom make some."""
    config = Config(num_segments=3, num_skills=2, hidden_dim=4, duration_rate=2.0)
    steps = np.array([0, 0, 1, 1, 0, 1])
    source = make_source(Demonstrations.from_arrays(None, [steps], num_actions=2), config)

    def first_step(*actions: np.ndarray) -> tuple[float, np.ndarray]:
        """A tenth of the gradient is Adam's mean after one step."""
        demos = Demonstrations.from_arrays(None, actions, num_actions=2)
        trainer = Trainer(config, source._replace(demos=demos))
        state, loss = trainer.step(trainer.start(), 0)
        leaves = jax.tree.leaves(optax.tree.get(state.optimiser, "mu"))
        return float(loss.total[0]), np.concatenate([np.ravel(leaf) for leaf in leaves])

    loss, gradient = first_step(steps)
    among_others, gradient_among_others = first_step(steps[:2], steps, steps[:1], steps)
    assert among_others == pytest.approx(loss)
    np.testing.assert_allclose(gradient_among_others, gradient, atol=1e-6)
    assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize(
    ("data", "settings", "expected"),
    [
        ("symbols", {"inference": "relaxed"}, 3.0),
        ("symbols", {"inference": "relaxed", "duration_rate": 2.5}, 2.5),
        ("data", {"inference": "relaxed"}, 4.0),
        ("data", {"inference": "exact"}, 4.0),
        ("data", {"inference": "exact", "num_segments": 4}, 3.0),
        ("data", {"inference": "exact", "num_segments": None, "max_segments": 6}, 2.0),
        ("data", {"inference": "exact", "num_segments": None, "max_segments": 24}, 1.0),
        ("labelled", {"inference": "exact", "num_segments": None}, 6.0),
        ("data", {"inference": "exact", "num_segments": None, "duration_rate": 5.0}, 5.0),
        ("labelled", {"inference": "relaxed", "num_segments": None}, 6.0),
        ("data", {"inference": "relaxed", "duration_rate": 5.0}, 5.0),
    ],
)
def test_segments_are_expected_to_be_as_long_as_in_the_data(
    data: str, settings: dict[str, Any], expected: float
) -> None:
    """The paper's 3 is for its own worlds; where it will be learned, as short as they may be."""
    demos = Demonstrations.from_arrays(None, [np.zeros(12, int)] * 4, num_actions=2)
    if data == "labelled":
        demos = demos.with_labels(segment_codes=[[UNKNOWN, UNKNOWN]] * 4)
    config = Config(**({"num_segments": 3, "num_skills": 2, "hidden_dim": 4} | settings))
    trainer = Trainer(config, make_source("symbols" if data == "symbols" else demos, config))
    assert trainer.rate == pytest.approx(expected)


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


def test_a_world_labels_what_is_asked_of_it() -> None:
    given = {kind: losses(SymbolsWorld(), supervision=kind) for kind in ("none", "b", "z")}
    for one, other in (("none", "b"), ("none", "z"), ("b", "z")):
        assert (np.abs(given[one] - given[other]) > 1e-3).all(), (one, other)
