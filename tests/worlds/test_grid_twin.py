"""The JAX grid world stepped beside its plain-Python twin: same observations, rewards, ends, expert."""

import jax
import numpy as np
import pytest

from compile_il.worlds.demonstrate import draw_episodes
from compile_il.worlds.grid import GridWorld
from tests.twins.grid_twin import TwinGrid, demonstrate
from tests.worlds.rollout import draw_levels, play, to_twin

NUM_LEVELS = 2000


def step_beside(world: GridWorld, levels: object, actions: np.ndarray) -> int:
    """Compares every step up to the end of each episode; returns how many steps were compared."""
    frames, rewards, terminated, truncated = map(np.asarray, play(world, levels, actions))
    compared = 0
    for index in range(len(actions)):
        twin = TwinGrid(to_twin(levels, index), kind=world.kind, max_steps=world.max_steps, reward=world.reward)
        np.testing.assert_array_equal(frames[index, 0], twin.observation())
        for t, action in enumerate(actions[index]):
            outcome = twin.step(int(action))
            assert outcome == (rewards[index, t], terminated[index, t], truncated[index, t])
            np.testing.assert_array_equal(frames[index, t + 1], twin.observation())
            compared += 1
            if twin.terminated or twin.truncated:
                break
    return compared


@pytest.mark.parametrize(("kind", "reward"), [("pickup", "dense"), ("visit", "sparse")])
def test_random_actions(kind: str, reward: str) -> None:
    world = GridWorld(kind=kind, reward=reward, max_steps=20)
    levels = draw_levels(world, seed=1, num_levels=NUM_LEVELS)
    actions = np.random.default_rng(0).integers(0, 8, (NUM_LEVELS, world.max_steps))
    # Moves three times out of four, so that episodes get somewhere before a wrong pick-up ends them.
    actions = np.where(np.random.default_rng(1).random(actions.shape) < 0.75, actions % 4, actions)
    assert step_beside(world, levels, actions) > 10 * NUM_LEVELS


@pytest.mark.parametrize(("kind", "reward", "num_tasks"), [("pickup", "sparse", 5), ("visit", "dense", 3)])
def test_expert_actions(kind: str, reward: str, num_tasks: int) -> None:
    world = GridWorld(kind=kind, reward=reward, num_tasks=num_tasks)
    episodes = draw_episodes(world, jax.random.key(2), 0, NUM_LEVELS)
    assert np.asarray(episodes.success).all()
    longest = int(episodes.length.max())
    compared = step_beside(world, episodes.level, np.asarray(episodes.actions)[:, :longest])
    assert compared == int(episodes.length.sum())


@pytest.mark.parametrize(
    ("kind", "num_tasks", "num_objects", "num_levels"),
    [
        ("pickup", 6, 6, NUM_LEVELS),
        ("visit", 10, 6, NUM_LEVELS),
        # A crowd: several wanted objects side by side, and the expert standing on them, in every level.
        ("pickup", 30, 30, 200),
    ],
)
def test_expert_is_the_twins_expert(kind: str, num_tasks: int, num_objects: int, num_levels: int) -> None:
    world = GridWorld(kind=kind, num_tasks=num_tasks, num_objects=num_objects)
    episodes = draw_episodes(world, jax.random.key(3), 0, num_levels)
    lengths, actions = np.asarray(episodes.length), np.asarray(episodes.actions)
    segments = np.asarray(episodes.segment_index)
    for index in range(num_levels):
        twin = demonstrate(to_twin(episodes.level, index), kind=kind, max_steps=200)
        assert list(twin.actions) == actions[index, : lengths[index]].tolist()
        boundaries = 1 + np.flatnonzero(np.diff(segments[index, : lengths[index]]))
        assert list(twin.boundaries) == boundaries.tolist()
