"""The JAX grid world stepped beside its plain-Python twin: same observations, rewards, ends, expert."""

import jax
import numpy as np
import pytest

from compile_il.worlds.demonstrate import draw_episodes
from compile_il.worlds.grid import GridWorld
from tests.twins.grid_twin import TwinGrid
from tests.worlds.rollout import draw_levels, play, to_twin

NUM_LEVELS = 500


def step_beside(world: GridWorld, levels: object, actions: np.ndarray, segment_index: np.ndarray | None = None) -> int:
    """Compares every step up to the end of each episode, and with segments the expert; returns the number of steps."""
    frames, rewards, terminated, truncated = map(np.asarray, play(world, levels, actions))
    compared = 0
    for index in range(len(actions)):
        twin = TwinGrid(to_twin(levels, index), kind=world.kind, max_steps=world.max_steps, reward=world.reward)
        expected = [twin.observation()]
        for t, action in enumerate(actions[index].tolist()):
            if segment_index is not None:
                assert (twin.expert_action(), twin.task_index) == (action, segment_index[index, t])
            outcome = twin.step(action)
            assert outcome == (rewards[index, t], terminated[index, t], truncated[index, t])
            expected.append(twin.observation())
            if twin.terminated or twin.truncated:
                break
        np.testing.assert_array_equal(frames[index, : len(expected)], np.stack(expected))
        compared += len(expected) - 1
    return compared


@pytest.mark.parametrize(("kind", "reward"), [("pickup", "dense"), ("visit", "sparse")])
def test_random_actions(kind: str, reward: str) -> None:
    world = GridWorld(kind=kind, reward=reward, max_steps=20)
    levels = draw_levels(world, seed=1, num_levels=NUM_LEVELS)
    actions = np.random.default_rng(0).integers(0, 8, (NUM_LEVELS, world.max_steps))
    # Moves three times out of four, so that episodes get somewhere before a wrong pick-up ends them.
    actions = np.where(np.random.default_rng(1).random(actions.shape) < 0.75, actions % 4, actions)
    assert step_beside(world, levels, actions) > 10 * NUM_LEVELS


@pytest.mark.parametrize(
    ("kind", "reward", "num_tasks", "num_objects", "num_levels"),
    [
        ("pickup", "sparse", 6, 6, NUM_LEVELS),
        ("visit", "dense", 10, 6, 300),
        # A crowd: several wanted objects side by side, and the expert standing on them, in every level.
        ("pickup", "dense", 30, 30, 60),
    ],
)
def test_expert_is_the_twins_expert(kind: str, reward: str, num_tasks: int, num_objects: int, num_levels: int) -> None:
    world = GridWorld(kind=kind, reward=reward, num_tasks=num_tasks, num_objects=num_objects)
    episodes = draw_episodes(world, jax.random.key(3), 0, num_levels)
    assert np.asarray(episodes.success).all()
    actions = np.asarray(episodes.actions)[:, : int(episodes.length.max())]
    compared = step_beside(world, episodes.level, actions, np.asarray(episodes.segment_index))
    assert compared == int(episodes.length.sum())
