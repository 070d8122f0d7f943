"""The reacher beside its plain-Python twin, and its rules one by one."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from compile_il.worlds.demonstrate import draw_episodes
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS, ReacherLevel, ReacherWorld, fingertip
from compile_il.worlds.world import Episode
from tests.twins.reacher_twin import TwinReacher, TwinReacherLevel
from tests.worlds.rollout import draw_levels, play

NUM_LEVELS = 2000
SURE = 1e-4


def to_twin(level: ReacherLevel, index: int) -> TwinReacherLevel:
    targets = np.asarray(level.targets, np.float64)[index]
    scene = np.flatnonzero(np.asarray(level.in_scene)[index])
    angles = tuple(np.asarray(level.angles, np.float64)[index].tolist())
    tasks = np.asarray(level.tasks)[index].tolist()
    return TwinReacherLevel(angles, {int(kind): tuple(targets[kind].tolist()) for kind in scene}, tasks)


def step_beside(world: ReacherWorld, levels: ReacherLevel, actions: np.ndarray) -> int:
    frames, rewards, terminated, truncated = map(np.asarray, play(world, levels, actions))
    compared = 0
    for index in range(len(actions)):
        twin = TwinReacher(to_twin(levels, index), max_steps=world.max_steps, reward=world.reward)
        expected = [twin.observation()]
        for t, action in enumerate(actions[index].tolist()):
            outcome = twin.step(tuple(action))
            assert outcome == (rewards[index, t], terminated[index, t], truncated[index, t])
            expected.append(twin.observation())
            if twin.terminated or twin.truncated:
                break
        np.testing.assert_allclose(frames[index, 0], expected[0], atol=1e-6)
        # A hundred float32 additions against the twin's doubles.
        np.testing.assert_allclose(frames[index, : len(expected)], np.stack(expected), atol=2e-5)
        compared += len(expected) - 1
    return compared


def test_random_actions() -> None:
    world = ReacherWorld(num_tasks=2, reward="sparse", max_steps=30)
    levels = draw_levels(world, seed=1, num_levels=NUM_LEVELS)
    # Slow drift plus noise, beyond the speed limit at times, so that some random arms do reach their targets.
    rng = np.random.default_rng(0)
    drift, noise = rng.normal(0, 2, (NUM_LEVELS, 1, 2)), rng.normal(0, 1, (NUM_LEVELS, 30, 2))
    actions = (drift + noise).astype(np.float32)
    assert step_beside(world, levels, actions) > 20 * NUM_LEVELS
    assert np.asarray(play(world, levels, actions)[2]).any(), "no random arm finished: the comparison saw no success"


@pytest.fixture(scope="module")
def episodes() -> Episode:
    return draw_episodes(ReacherWorld(num_tasks=5), jax.random.key(0), 0, NUM_LEVELS)


def test_expert_actions(episodes: Episode) -> None:
    assert np.asarray(episodes.success).all()
    longest = int(episodes.length.max())
    actions = np.asarray(episodes.actions)[:, :longest]
    assert step_beside(ReacherWorld(num_tasks=5), episodes.level, actions) == int(episodes.length.sum())


def test_experts_are_the_twins_and_one_that_pulls_hard_does_not_slow_down_before_a_touch(episodes: Episode) -> None:
    hard = draw_episodes(ReacherWorld(num_tasks=5, expert_gain=4.0), jax.random.key(0), 0, NUM_LEVELS)
    follow_the_twin(episodes, gain=1.0)
    follow_the_twin(hard, gain=4.0)
    assert speed_at_touches(episodes) < 1.6
    assert speed_at_touches(hard) > 2.9


def speed_at_touches(episodes: Episode) -> float:
    """Of the faster joint in the step that reaches a target, mean."""
    speeds, lengths = np.abs(np.asarray(episodes.actions)).max(axis=-1), np.asarray(episodes.length)
    return float(np.mean([speed[length - 1] for speed, length in zip(speeds, lengths, strict=True)]))


def follow_the_twin(episodes: Episode, gain: float) -> None:
    actions, lengths = np.asarray(episodes.actions), np.asarray(episodes.length)
    for index in range(NUM_LEVELS):
        twin, ours, expected = TwinReacher(to_twin(episodes.level, index)), [], []
        for action in map(tuple, actions[index, : lengths[index]].tolist()):
            (x, y), (shoulder, elbow) = twin.target, twin.angles
            turn = math.remainder(math.atan2(y, x) - shoulder - elbow / 2, 2 * math.pi)
            # Half a turn may be taken either way round; float32 and float64 need not agree on which.
            if abs(turn) < math.pi - 1e-5:
                ours.append(action)
                expected.append(twin.expert_action(gain))
            twin.step(action)
        np.testing.assert_allclose(ours, expected, atol=2e-3 * gain)
        assert twin.success


@pytest.mark.parametrize("num_tasks", [1, 6])
def test_twenty_thousand_demonstrations_succeed(num_tasks: int) -> None:
    episodes = draw_episodes(ReacherWorld(num_tasks=num_tasks), jax.random.key(4), 0, 20_000)
    assert np.asarray(episodes.success).all()


def test_levels_are_distributed_as_designed() -> None:
    world = ReacherWorld(num_tasks=3)
    level = jax.tree.map(np.asarray, draw_levels(world, seed=0, num_levels=20_000))
    num_targets = level.in_scene.sum(axis=1)
    assert stats.chisquare(np.bincount(num_targets)[3:]).pvalue > SURE
    assert num_targets.min() == 3
    assert num_targets.max() == 6
    radius = np.linalg.norm(level.targets, axis=2)[level.in_scene]
    direction = np.arctan2(level.targets[..., 1], level.targets[..., 0])[level.in_scene]
    assert stats.kstest(radius, stats.uniform(0.05, 0.15).cdf).pvalue > SURE
    assert stats.kstest(direction, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > SURE
    assert (level.targets[~level.in_scene] == 0).all()
    for slot in range(3):
        assert stats.chisquare(np.bincount(level.tasks[:, slot], minlength=10)).pvalue > SURE
    assert np.take_along_axis(level.in_scene, level.tasks, axis=1).all()
    assert all(len(set(tasks)) == 3 for tasks in level.tasks.tolist())


@functools.cache
def hand_made() -> tuple[ReacherWorld, ReacherLevel]:
    """A stretched arm on the x axis; target 4 a quarter turn away at full stretch less a little, target 7 beyond."""
    world = ReacherWorld(num_tasks=2)
    targets = jnp.zeros((10, 2)).at[4].set(jnp.array([0.0, 0.2])).at[7].set(jnp.array([0.2, 0.0]))
    in_scene = jnp.zeros((10,), bool).at[jnp.array([4, 7])].set(True)
    return world, ReacherLevel(targets, in_scene, jnp.zeros((2,)), jnp.array([4, 7]))


def test_fingertip() -> None:
    np.testing.assert_allclose(fingertip(jnp.array([0.0, 0.0])), [2 * LINK_LENGTH, 0.0], atol=1e-7)
    np.testing.assert_allclose(fingertip(jnp.array([np.pi / 2, np.pi / 2])), [-LINK_LENGTH, LINK_LENGTH], atol=1e-7)
    np.testing.assert_allclose(fingertip(jnp.array([0.3, np.pi])), [0.0, 0.0], atol=1e-7)


def test_arrival_hides_the_target_and_keeps_its_place() -> None:
    world, level = hand_made()
    state = world.start(level)._replace(angles=jnp.array([np.pi / 2 - 0.05, 0.0]))
    assert fingertip(state.angles)[1] > 0.2 + TARGET_RADIUS / 2
    step = world.step(level, state._replace(angles=jnp.array([np.pi / 2 - 1.17 / 2, 1.17])), jnp.zeros(2))
    assert step.reward == 1
    assert not step.terminated
    seen = world.observe(level, step.state)
    np.testing.assert_allclose(seen[12:15], [0.0, 0.0, 0.2], atol=1e-7)
    np.testing.assert_allclose(seen[21:24], [1.0, 0.2, 0.0], atol=1e-7)
    assert step.state.task_index == 1


def test_passing_another_target_changes_nothing() -> None:
    world, level = hand_made()
    state = world.start(level)._replace(angles=jnp.array([-1.17 / 2, 1.17]))
    assert jnp.linalg.norm(fingertip(state.angles) - level.targets[7]) < TARGET_RADIUS
    step = world.step(level, state, jnp.zeros(2))
    assert step.reward == 0
    assert step.state.visible[7]


def test_speed_is_limited_and_time_runs_out() -> None:
    world, level = hand_made()
    state = world.start(level)
    step = world.step(level, state, jnp.array([100.0, -100.0]))
    np.testing.assert_allclose(step.state.angles, [0.18, -0.18], atol=1e-6)
    late = world.step(level, state._replace(num_steps=jnp.array(99)), jnp.zeros(2))
    assert late.truncated
    assert not late.terminated
