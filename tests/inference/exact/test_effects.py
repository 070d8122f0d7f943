"""Skills that are known by what they change: the factor itself, where it begins, and what is learned with it."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import compile_il as cil
from compile_il.data.batch import batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.evaluate import score_model
from compile_il.evaluation.metrics import score_labels, step_labels
from compile_il.inference.exact.effects import STRIDE, Effects, kmeans_plus_plus
from compile_il.inference.exact.skills import ExactSkills

NUM_LAMPS = 4
QUICK = {"num_segments": 3, "num_skills": NUM_LAMPS, "num_iterations": 60, "hidden_dim": 16, "learning_rate": 3e-3}


def lamps(num_demos: int, seed: int) -> Demonstrations:
    """Three of four lamps go on, each after a few steps; actions say nothing, and a clock runs."""
    rng = np.random.default_rng(seed)
    observations, boundaries, codes = [], [], []
    for _ in range(num_demos):
        order, ends = rng.permutation(NUM_LAMPS)[:3], np.cumsum(rng.integers(2, 6, 3))
        lit = (np.arange(ends[-1] + 1)[:, None] >= ends) @ np.eye(NUM_LAMPS)[order]
        clock = np.linspace(0, 1, len(lit))[:, None]
        observations.append(np.concatenate([lit, clock], axis=1).astype(np.float32))
        boundaries.append(ends[:-1])
        codes.append(order)
    actions = [rng.integers(0, 2, len(seen) - 1) for seen in observations]
    return Demonstrations.from_arrays(observations, actions, num_actions=2, boundaries=boundaries, codes=codes)


@pytest.fixture(scope="module")
def learned() -> cil.Model:
    return cil.fit(lamps(200, 0), effects=True, **QUICK)


def agreement(model: cil.Model, demos: Demonstrations) -> float:
    truth = demos.truth
    assert truth.boundaries is not None
    assert truth.codes is not None
    true = step_labels(truth.boundaries, truth.codes, demos.lengths)
    return score_labels(model.segment(demos).labels, true).agreement


def test_the_factor_is_a_ratio_of_normal_densities() -> None:
    rng = np.random.default_rng(0)
    means, change, spread = rng.normal(size=(3, 5)), rng.normal(size=5), 0.7
    ours = Effects(jnp.asarray(means / STRIDE), jnp.ones(5), spread).log_ratio(jnp.asarray(change))
    none = multivariate_normal(np.zeros(5), spread**2).logpdf(change)
    theirs = [multivariate_normal(mean, spread**2).logpdf(change) - none for mean in means]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_things_of_a_grid_are_counted_and_vectors_scaled() -> None:
    grid = np.zeros((5, 6, 2), np.uint8)
    grid[1, 2, 0] = grid[4, 5, 0] = grid[0, 0, 1] = 1
    one_each = Effects(jnp.zeros((1, 2)), jnp.ones(2), 0.2)
    assert one_each.measure(jnp.asarray(grid)).tolist() == [2, 1]
    scaled = Effects(jnp.zeros((1, 2)), jnp.array([0.5, 2.0]), 0.2)
    assert scaled.measure(jnp.array([1.0, 4.0])).tolist() == [2, 2]


def test_they_begin_with_every_change_there_is() -> None:
    """Mostly nothing changes, and each of four changes is rare: all four are found, and nothing is not one of them."""
    points = jnp.concatenate([jnp.zeros((500, 4)), jnp.repeat(-jnp.eye(4), jnp.array([1, 2, 30, 5]), axis=0)])
    for seed in range(5):
        chosen = kmeans_plus_plus(points, 4, jax.random.key(seed))
        assert sorted(np.argmin(chosen, axis=1).tolist()) == [0, 1, 2, 3]
        assert (chosen.min(axis=1) == -1).all()


def test_where_nothing_changes_they_change_nothing() -> None:
    still = [np.ones((8, 3), np.float32)] * 4
    demos = Demonstrations.from_arrays(still, [np.arange(7) % 2] * 4, num_actions=2)
    tiny = {"num_segments": 2, "num_skills": 3, "hidden_dim": 4, "num_iterations": 1, "learning_rate": 1e-9}
    plain, marked = (cil.fit(demos, effects=effects, **tiny) for effects in (False, True))
    assert isinstance(plain.skills, ExactSkills)
    assert isinstance(marked.skills, ExactSkills)
    batch = batch_of(demos.storage, 32, 8)
    for ours, theirs in zip(marked.skills.score_steps(batch), plain.skills.score_steps(batch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_skills_get_a_meaning_without_labels(learned: cil.Model) -> None:
    demos = lamps(100, 1)
    assert agreement(learned, demos) > 0.99
    assert score_model(learned, demos).boundary_accuracy > 0.99


def test_a_skill_ends_where_its_effect_is_seen(learned: cil.Model) -> None:
    dark, zero = np.zeros(NUM_LAMPS + 1, np.float32), np.int32(0)
    for lamp in np.eye(NUM_LAMPS, NUM_LAMPS + 1, dtype=np.float32):
        done = [learned.is_done(dark, zero, lamp, skill) for skill in range(NUM_LAMPS)]
        assert sum(done) == 1
        assert not learned.is_done(dark, zero, dark, int(np.argmax(done)))


def test_skills_stop_by_the_odds_of_training() -> None:
    """The rule has its weight in them, 3 where the number of segments is not known."""
    demos = lamps(1, 3)
    settings: dict[str, Any] = {**QUICK, "num_segments": None, "num_iterations": 1, "effects": True}
    skills = cil.fit(lamps(20, 0), **settings).skills
    assert isinstance(skills, ExactSkills)
    assert skills.termination_weight == 3
    steps = jax.tree.map(
        lambda leaf: leaf[0], skills.score_steps(batch_of(demos.storage, demos.num_frames, demos.max_length))
    )
    seen, actions = jnp.asarray(demos.observations[0]), jnp.asarray(demos.actions[0])
    now = skills.init(seen[0])
    for t in range(len(actions)):
        now = skills.observe(now, actions[t], seen[t + 1])
        np.testing.assert_allclose(now.stop_logits, steps.log_stop[t] - steps.log_go[t], rtol=1e-4, atol=1e-4)


def test_they_are_saved(learned: cil.Model, tmp_path: Path) -> None:
    demos = lamps(20, 2)
    again = cil.load(learned.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.segment(demos).log_likelihood, learned.segment(demos).log_likelihood)


def test_there_must_be_something_to_change() -> None:
    with pytest.raises(DemonstrationError, match="leave effects out"):
        cil.fit("symbols", effects=True)
