"""Policies that remember: the same step by step as in one pass, blind to padding, of use where states hide things."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.config import Config, ConfigError
from compile_il.data.batch import batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.evaluation.execute import reconstruct
from tests.inference.exact.small import new_skills, vector_demos

SMALL = Config(recurrent=True, hidden_dim=8, num_skills=3, shared_termination=False)


def skills_for(demos: Demonstrations, **changes: Any) -> Any:
    config = dataclasses.replace(SMALL, **changes)
    return new_skills(demos, config)


def test_what_is_remembered_step_by_step_is_what_one_pass_remembers() -> None:
    demos = vector_demos()
    skills = skills_for(demos)
    init, observe = eqx.filter_jit(skills.init), eqx.filter_jit(skills.observe)
    steps = eqx.filter_jit(skills.score_steps)(batch_of(demos.storage, 40, demos.max_length))
    for i, episode in enumerate(demos):
        now = init(jnp.asarray(episode.observations[0]))
        for t, action in enumerate(episode.actions):
            found = skills.policies.evidence(now.encoder.encoding, jnp.asarray(action))
            np.testing.assert_allclose(found, steps.log_policy[i, t], atol=1e-5)
            now = observe(now, jnp.asarray(action), jnp.asarray(episode.observations[t + 1]))
            np.testing.assert_allclose(jax.nn.log_sigmoid(now.stop_logits), steps.log_stop[i, t], atol=1e-5)
            now = skills.switch_skill(now, jnp.asarray(episode.observations[t + 1]))  # which changes nothing


def test_what_is_forgotten_step_by_step_is_what_masks_hide() -> None:
    """Skills that run one after the other, and passes behind hard masks, on demonstrations of any length."""
    demos, begins = vector_demos(), np.array([0, 2, 5])
    skills = skills_for(demos, inference="relaxed", forgetful=True, shared_termination=None)
    init, observe = eqx.filter_jit(skills.init), eqx.filter_jit(skills.observe)
    batch = batch_of(demos.storage, 40, demos.max_length)
    behind = jnp.broadcast_to(
        jnp.arange(demos.max_length + 1) >= begins[:, None], (len(demos), 3, demos.max_length + 1)
    )
    found = skills.in_segments(skills.read(batch), behind.astype(jnp.float32), jnp.asarray(batch.lengths))
    for i, episode in enumerate(demos):
        now, segment = init(jnp.asarray(episode.observations[0])), 0
        for t, action in enumerate(episode.actions):
            if t in begins[1:]:
                now, segment = skills.switch_skill(now, jnp.asarray(episode.observations[t])), segment + 1
            expected = skills.policies.evidence(now.encoder.encoding, jnp.asarray(action))
            np.testing.assert_allclose(found[i, segment, t], expected, atol=1e-5)
            now = observe(now, jnp.asarray(action), jnp.asarray(episode.observations[t + 1]))


def test_what_came_before_a_segment_makes_no_difference() -> None:
    """To a policy that forgets; one that remembers all of it does see a difference."""
    demos, begin = vector_demos(), 3
    rng = np.random.default_rng(5)
    others = Demonstrations.from_arrays(
        [
            np.concatenate([rng.normal(size=(begin, *o.shape[1:])).astype(o.dtype), o[begin:]])
            for o in demos.observations
        ],
        [np.concatenate([(a[:begin] + 1) % demos.num_actions, a[begin:]]) for a in demos.actions],
        num_actions=demos.num_actions,
    )
    for forgetful in (True, False):
        skills = skills_for(demos, inference="relaxed", forgetful=forgetful, shared_termination=None)
        behind = jnp.broadcast_to(jnp.arange(demos.max_length + 1) >= begin, (len(demos), 1, demos.max_length + 1))
        views = []
        for some in (demos, others):
            batch = batch_of(some.storage, 40, demos.max_length)
            lengths = jnp.asarray(batch.lengths)
            views.append(skills.in_segments(skills.read(batch), behind.astype(jnp.float32), lengths)[:, 0])
        for i, length in enumerate(demos.lengths):
            same = np.allclose(views[0][i, begin:length], views[1][i, begin:length], atol=1e-6)
            assert same == forgetful


def test_padding_and_neighbours_are_not_seen() -> None:
    demos = vector_demos()
    score = eqx.filter_jit(skills_for(demos).score_steps)
    together = score(batch_of(demos.storage, 64, demos.max_length + 3))
    for i, n in enumerate(demos.lengths):
        alone = score(batch_of(demos[[i]].storage, 16, demos.max_length))
        np.testing.assert_allclose(together.log_policy[i, :n], alone.log_policy[0, :n], atol=1e-5)


def cued(num: int, seed: int) -> Demonstrations:
    """The first state shows which of two actions to take ever after; later states show nothing."""
    rng = np.random.default_rng(seed)
    cues, lengths = rng.integers(0, 2, num), rng.integers(4, 8, num)
    frames = [np.zeros((n + 1, 1), np.float32) for n in lengths]
    for frame, cue in zip(frames, cues, strict=True):
        frame[0] = 2.0 * cue - 1
    return Demonstrations.from_arrays(
        frames, [np.full(n, cue) for n, cue in zip(lengths, cues, strict=True)], num_actions=2
    )


@pytest.mark.parametrize("inference", ["exact", pytest.param("relaxed", marks=pytest.mark.slow)])
def test_memory_is_of_use_where_states_hide_something(inference: Any) -> None:
    """One skill for one segment: nothing but memory can decide which action to take."""
    settings: dict[str, Any] = {"num_segments": 1, "num_skills": 1, "hidden_dim": 16, "learning_rate": 1e-2}
    fresh = cued(50, seed=1)
    accuracies = []
    for recurrent in (False, True):
        model = cil.fit(cued(100, seed=0), inference=inference, recurrent=recurrent, num_iterations=60, **settings)
        accuracies.append(reconstruct(model.skills, fresh, model.segment(fresh)).accuracy)
    assert accuracies[0] < 0.75
    assert accuracies[1] > 0.98


def test_a_model_that_remembers_is_saved_and_follows() -> None:
    demos = vector_demos()
    model = cil.fit(demos, config=dataclasses.replace(SMALL, num_iterations=1))
    running = model.begin(demos.observations[0][0], 0)
    running.arrive(demos.actions[0][0], demos.observations[0][1])
    after, anew = running.follow(1), model.begin(demos.observations[0][1], 1)
    assert not np.allclose(after._state.encoder.encoding, anew._state.encoder.encoding)
    with pytest.raises(ValueError, match="There is no skill 3"):
        running.follow(3)


def test_a_model_that_forgets_is_saved_segments_and_starts_anew(tmp_path: Path) -> None:
    demos = vector_demos()
    settings = {"inference": "relaxed", "forgetful": True, "shared_termination": None, "num_iterations": 1}
    fitted = cil.fit(demos, config=dataclasses.replace(SMALL, **settings))
    model = cil.load(fitted.save(tmp_path / "model"))
    found = model.segment(demos)
    np.testing.assert_array_equal(found.log_likelihood, fitted.segment(demos).log_likelihood)
    running = model.begin(demos.observations[0][0], 0)
    running.arrive(demos.actions[0][0], demos.observations[0][1])
    after, anew = running.follow(1), model.begin(demos.observations[0][1], 1)
    np.testing.assert_allclose(after._state.encoder.encoding, anew._state.encoder.encoding, atol=1e-6)
    for ask in (functools.partial(model.segment, decoder="exact"), model.sample):
        with pytest.raises(ValueError, match="Segmentations cannot be summed over where policies forget"):
            ask(demos)


def test_only_what_remembers_forgets() -> None:
    with pytest.raises(ConfigError, match="only policies that remember can forget; pass recurrent=True too"):
        Config(inference="relaxed", forgetful=True)
    with pytest.raises(ConfigError, match="forgetful has no meaning for exact inference"):
        Config(recurrent=True, forgetful=True)


@pytest.mark.parametrize("forgetful", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_skill_that_forgets_repeats_actions_as_it_acts(forgetful: bool) -> None:
    """Each of two segments begins with a cue, and later states show nothing: what a skill does depends on its own."""
    cues = np.array([[0, 1], [1, 0], [0, 0], [1, 1]] * 30)
    frames = [np.array([2 * a - 1, 0, 0, 2 * b - 1, 0, 0, 0], np.float32)[:, None] for a, b in cues]
    demos = Demonstrations.from_arrays(frames, [np.repeat(pair, 3) for pair in cues], num_actions=2)
    labelled = demos.with_labels(boundaries=[np.array([0, 0, 0, 1, 0, 0])] * len(demos))
    settings: dict[str, Any] = {"num_segments": 2, "num_skills": 1, "hidden_dim": 16, "learning_rate": 1e-2}
    model = cil.fit(labelled, inference="relaxed", recurrent=True, forgetful=forgetful, num_iterations=80, **settings)
    assert reconstruct(model.skills, labelled, model.segment(labelled)).accuracy > 0.98
    running = model.begin(frames[0][0], 0)
    for t in range(3):
        assert running.act() == cues[0][0]
        running.arrive(demos.actions[0][t], frames[0][t + 1])
    assert running.follow(0).act() == cues[0][1]
