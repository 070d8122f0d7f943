"""The Gymnasium edge: the environments pass its checker, and are the worlds and nothing else."""

import copy
import warnings

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from jaxtyping import Array, Int

import compile_il  # noqa: F401 (registers the environments)
from compile_il.worlds.grid import GridLevel, GridState, GridWindowWorld, GridWorld
from compile_il.worlds.gym import ShowTask, env_of
from compile_il.worlds.reacher import ReacherWorld
from compile_il.worlds.world import Step, WorldError
from tests.worlds.rollout import from_ascii

IDS = ("CompILE/GridPickup-v0", "CompILE/GridVisit-v0", "CompILE/GridPickupWindow-v0", "CompILE/Reacher-v0")


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


class CallMeDone(GridWorld):
    """A grid world of one's own."""

    def step(self, level: GridLevel, state: GridState, action: Int[Array, ""]) -> Step:
        """Any action ends it."""
        return super().step(level, state, action)._replace(terminated=jnp.array(True))


def test_a_world_of_ones_own() -> None:
    env = env_of(CallMeDone(kind="visit", size=6, num_tasks=2))
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert env.observation_space.shape == (6, 6, 12)
    assert env.step(0)[2], "the rules of the world that was given"
    assert env_of(GridWindowWorld(kind="visit", window=7)).observation_space.shape == (7, 7, 12)
    with pytest.raises(WorldError, match="is not a grid world"):
        env_of(ReacherWorld())


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


def test_windows() -> None:
    env = gymnasium.make("CompILE/GridVisitWindow-v0", window=7)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (7, 7, 12)
    assert env.unwrapped.world.kind == "visit"


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


def test_mistakes_are_refused() -> None:
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
    with pytest.raises(WorldError, match="is a GridLevel, not a str"):
        env.reset(options={"level": "maze"})
    small = from_ascii("#####\n#A@B#\n#...#\n#...#\n#####", "BA")
    with pytest.raises(WorldError, match=r"walls has shape \(5, 5\), and this world's levels have \(10, 10\)"):
        env.reset(options={"level": small})
    reacher = gymnasium.make("CompILE/Reacher-v0").unwrapped
    reacher.reset(seed=0)
    with pytest.raises(ValueError, match="not a pair of angular velocities"):
        reacher.step(np.array([np.nan, 0.0]))
    with pytest.raises(RuntimeError, match="call reset"):
        gymnasium.make("CompILE/GridPickup-v0", render_mode="ansi").unwrapped.render()


def test_actions_as_people_pass_them() -> None:
    grid = gymnasium.make("CompILE/GridPickup-v0").unwrapped
    for action in (1, np.int64(1), np.array([1]), jnp.array(1)):
        grid.reset(seed=0)
        grid.step(action)
    reacher = gymnasium.make("CompILE/Reacher-v0").unwrapped
    _, _ = reacher.reset(seed=0)
    fast, *_ = reacher.step([30.0, -30.0])
    reacher.reset(seed=0)
    fastest, *_ = reacher.step(np.array([3.0, -3.0]))
    np.testing.assert_array_equal(fast, fastest)


@pytest.mark.parametrize("name", IDS)
def test_expert_action_solves_the_level(name: str) -> None:
    env = gymnasium.make(name, max_steps=200).unwrapped
    env.reset(seed=3)
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(env.expert_action())
        if terminated or truncated:
            break
    assert info["success"]


def test_the_observation_bound_holds_at_full_speed() -> None:
    env = gymnasium.make("CompILE/Reacher-v0").unwrapped
    env.reset(seed=0)
    level = env.level._replace(angles=np.array([np.pi, np.pi], np.float32))
    env.reset(options={"level": level})
    for _ in range(100):
        observation, _, terminated, truncated, _ = env.step([3.0, 3.0])
        assert env.observation_space.contains(observation)
        if terminated or truncated:
            break


def test_environments_are_copied_and_run_in_other_processes() -> None:
    env = gymnasium.make("CompILE/GridVisit-v0").unwrapped
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    for action in (0, 1, 2):
        np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])
    sync = gymnasium.make_vec("CompILE/GridVisit-v0", num_envs=2, vectorization_mode="sync")
    # JAX has been used in this process, and does not survive a fork.
    workers = gymnasium.make_vec(
        "CompILE/GridVisit-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    try:
        for vector in (sync, workers):
            vector.reset(seed=[4, 5])
        for _ in range(3):
            np.testing.assert_array_equal(sync.step(np.array([1, 2]))[0], workers.step(np.array([1, 2]))[0])
    finally:
        sync.close()
        workers.close()


@pytest.mark.parametrize("name", ["CompILE/GridVisit-v0", "CompILE/Reacher-v0"])
def test_the_task_can_be_shown(name: str) -> None:
    env = ShowTask(gymnasium.make(name, num_tasks=2))
    observation, info = env.reset(seed=3)
    shown, over = [], False
    while not over:
        assert env.observation_space.contains(observation)
        expected = np.arange(10) == info["task"]
        np.testing.assert_array_equal(observation["task"], expected)
        shown.append(info["task"])
        action = env.unwrapped.expert_action()
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert info["success"]
    assert observation["task"].sum() == 0, "all is done"
    assert list(dict.fromkeys(shown)) == info["tasks"].tolist()
    with pytest.raises(WorldError, match="has no task to show"):
        ShowTask(gymnasium.make("CartPole-v1"))
