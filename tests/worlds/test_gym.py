"""The Gymnasium edge: the environments pass its checker, and are the worlds and nothing else."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import compile_il  # noqa: F401 (registers the environments)
from compile_il.worlds import GridWorld, WorldError
from tests.worlds.rollout import from_ascii

IDS = ("CompILE/GridPickup-v0", "CompILE/GridVisit-v0", "CompILE/Reacher-v0")


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("render_mode", ["rgb_array", "ansi"])
def test_check_env(name: str, render_mode: str) -> None:
    env = gymnasium.make(name, render_mode=render_mode)
    with warnings.catch_warnings():
        # Advice to scale actions to [-1, 1]; ours are angular velocities in rad/s, as in the paper.
        warnings.filterwarnings("ignore", message=".*we recommend using a symmetric and normalized space.*")
        check_env(env.unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_same_seed_same_episode(name: str) -> None:
    episodes = []
    for _ in range(2):
        env = gymnasium.make(name)
        observation, _ = env.reset(seed=5)
        env.action_space.seed(5)
        frames = [observation]
        for _ in range(10):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            frames.append(observation)
            if terminated or truncated:
                break
        episodes.append(np.stack(frames))
    np.testing.assert_array_equal(*episodes)


def test_info_follows_the_task_list() -> None:
    world = GridWorld(kind="pickup", num_tasks=2, num_objects=2, size=5)
    env = gymnasium.make("CompILE/GridPickup-v0", num_tasks=2, num_objects=2, size=5, reward="sparse")
    level = from_ascii("#####\n#A@B#\n#...#\n#...#\n#####", "BA")
    observation, info = env.reset(options={"level": level})
    np.testing.assert_array_equal(observation, world.observe(level, world.start(level)))
    assert info["tasks"].tolist() == [1, 0]
    assert (info["task"], info["task_index"], info["task_name"], info["success"]) == (1, 0, "tree", False)
    _, reward, terminated, _, info = env.step(5)
    assert (reward, terminated, info["task"], info["task_index"]) == (0.0, False, 0, 1)
    _, reward, terminated, truncated, info = env.step(7)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["task"], info["task_name"], info["success"]) == (-1, "done", True)


def test_options_reach_the_world() -> None:
    env = gymnasium.make("CompILE/GridVisit-v0", num_tasks=7, max_steps=3)
    _, info = env.reset(seed=0)
    assert len(info["tasks"]) == 7
    ends = [env.step(0)[3] for _ in range(3)]
    assert ends == [False, False, True]


def test_pictures() -> None:
    env = gymnasium.make("CompILE/GridPickup-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for action in (0, 1, 2, 3):
        env.step(action)
    after = env.render()
    assert before.shape == after.shape == (480, 480, 3)
    assert before.dtype == np.uint8
    assert (before != after).any(), "the path is not drawn"
    text = gymnasium.make("CompILE/Reacher-v0", render_mode="ansi")
    text.reset(seed=0)
    assert "@" in text.render()
    assert "+" in text.render()


def test_mistakes_are_told() -> None:
    with pytest.raises(WorldError, match="9 pick-ups need as many objects"):
        gymnasium.make("CompILE/GridPickup-v0", num_tasks=9)
    with pytest.raises(WorldError, match="use 'dense' or 'sparse'"):
        gymnasium.make("CompILE/Reacher-v0", reward="rich")
    env = gymnasium.make("CompILE/GridPickup-v0").unwrapped
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="is not in Discrete"):
        env.step(8)
    with pytest.raises(ValueError, match="only one is 'level'"):
        env.reset(options={"levle": None})
