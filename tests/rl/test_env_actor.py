"""Acting on CPUs: trajectories beside a plain loop, and actors that go on where another one was."""

import dataclasses
import functools
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig
from compile_il.rl.impala import Learner
from compile_il.rl.ray_actors import EnvActor, EpisodeSoFar, MakeEnv, Unrolled, stage_of
from compile_il.rl.skill_env import SkillEnv
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.gym import env_of
from tests.rl.test_options import SIZE, untrained

SMALL = AgentConfig(num_environments=4, batch_size=4, num_ticks=6, num_levels=4, hidden_dim=8, num_maps=2, embed_dim=2)
PICK = GridWorld(size=SIZE, num_tasks=2, num_objects=4, max_steps=9)


def fresh_params(config: AgentConfig, make_env: MakeEnv, model: Model | None) -> list[jax.Array]:
    learner = Learner(config, stage_of(make_env(), config).agent_maker(config, model))
    return jax.tree.leaves(learner.start(jax.random.key(0)).params)


def seed_of(actor_seed: int, environment: int, episode: int) -> int:
    return int(np.random.SeedSequence([actor_seed, environment, episode]).generate_state(1)[0])


def where(episodes: list[EpisodeSoFar], unrolled: Unrolled) -> list[EpisodeSoFar]:
    """Where environments are that were there, after an unroll."""
    return [before.then(after) for before, after in zip(episodes, unrolled.episodes, strict=True)]


def assert_the_same(first: Any, second: Any) -> None:
    """To the last bit."""
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("agent", ["low-level", "hierarchical", "bc"])
def test_trajectories_are_what_a_plain_loop_sees(agent: Any) -> None:
    config = dataclasses.replace(SMALL, agent=agent)
    model = None if agent == "low-level" else untrained(inference="exact")
    make_env = functools.partial(env_of, PICK)
    params = fresh_params(config, make_env, model)
    actor = EnvActor(make_env, model, config, 2, seed=5)
    first, second = actor.unroll(params, 0), actor.unroll(params, 1)
    assert second.counts.num_decisions == 2 * 6
    for number in range(2):
        env: gymnasium.Env = make_env()
        env = env if model is None else SkillEnv(env, model, discount=config.discount)
        observation, info = env.reset(seed=seed_of(5, number, 0))
        num_episodes = 0
        for part in (first, second):
            row = jax.tree.map(lambda leaf, n=number: leaf[n], part.trajectory)
            for n, option in enumerate(row.options):
                np.testing.assert_array_equal(row.situations.observation[n], observation)
                left = info["tasks"][info["task_index"] :]
                told = [*left, -1, -1][: 2 if agent == "bc" else 1]
                assert row.situations.tasks[n].tolist() == told
                assert row.situations.kind[n] == 1
                observation, reward, terminated, truncated, info = env.step(int(option))
                over = terminated or truncated
                assert row.outcomes.rewards[n] == pytest.approx(reward)
                discount = 0 if over else config.discount ** info.get("num_steps", 1)
                assert row.outcomes.discounts[n] == pytest.approx(discount)
                if over:
                    num_episodes += 1
                    observation, info = env.reset(seed=seed_of(5, number, num_episodes))
        assert second.episodes[number].number == num_episodes > 0
        np.testing.assert_array_equal(row.situations.observation[-1], observation)


def test_an_environment_without_tasks_has_one_that_stays_the_same() -> None:
    config = dataclasses.replace(SMALL, agent="low-level")
    make_env = functools.partial(gymnasium.make, "CartPole-v1")
    params = fresh_params(config, make_env, None)
    found, counts, _ = EnvActor(make_env, None, config, 3, seed=0).unroll(params, 0)
    assert found.situations.observation.shape == (3, 7, 4)
    assert (found.situations.tasks == 0).all()
    assert counts.num_steps == 3 * 6


class Talkative(gymnasium.Wrapper):
    """CartPole, with words in `info` that mean something else elsewhere."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        observation, _ = self.env.reset(**settings)
        return observation, {"tasks": "balance", "task_index": 0}

    def step(self, action: Any) -> Any:
        *rest, _ = self.env.step(action)
        return *rest, {"discount": 1.0, "num_steps": 7, "total_reward": 100.0, "tasks": "balance", "task_index": 0}


def test_what_others_say_in_info_is_left_alone() -> None:
    config = dataclasses.replace(SMALL, agent="low-level")
    params = fresh_params(config, Talkative, None)
    actor = EnvActor(Talkative, None, config, 2, seed=0)
    for item in range(12):
        found, counts, _ = actor.unroll(params, item)
        assert counts.num_steps == 2 * 6
        assert set(np.unique(found.outcomes.discounts).tolist()) <= {0.0, np.float32(config.discount)}
        if counts.num_episodes:
            assert counts.total_reward < 100
            return
    raise AssertionError("no episode has ended")


@pytest.mark.parametrize("agent", ["low-level", "hierarchical"])
def test_another_actor_goes_on_where_one_was(agent: Any) -> None:
    """Whenever it takes over: with the same observations, choices and rewards of whole episodes."""
    config = dataclasses.replace(SMALL, agent=agent)
    model = None if agent == "low-level" else untrained(inference="exact", recurrent=True)
    world = GridWorld(kind="visit", size=SIZE, num_tasks=2, num_objects=4, max_steps=14)
    make_env = functools.partial(env_of, world)
    params = fresh_params(config, make_env, model)
    actor = EnvActor(make_env, model, config, 3, seed=7)
    episodes, longest, total_reward = [EpisodeSoFar()] * 3, 0, 0.0
    for item in range(0, 12, 2):
        other = EnvActor(make_env, model, config, 3, seed=7, episodes=episodes)
        expected = actor.unroll(params, item)
        assert_the_same(other.unroll(params, item), expected)
        episodes, total_reward = where(episodes, expected), total_reward + expected.counts.total_reward
        longest = max(longest, *(len(episode.options) for episode in episodes))
    assert total_reward > 0
    assert longest > config.num_ticks, "an episode longer than an unroll"
    assert max(episode.number for episode in episodes) > 1


def test_one_that_cannot_get_there_goes_on_with_the_next_episode() -> None:
    """An environment that ends sooner the second time; what it earned till then is not counted again."""
    config = dataclasses.replace(SMALL, agent="low-level")
    long, short = (functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=limit) for limit in (50, 4))
    params = fresh_params(config, long, None)
    episodes = where([EpisodeSoFar()] * 2, EnvActor(long, None, config, 2, seed=0).unroll(params, 0))
    assert [(episode.number, len(episode.options)) for episode in episodes] == [(0, 6), (0, 6)]

    actor = EnvActor(short, None, config, 2, seed=0, episodes=episodes)
    found = actor.unroll(params, 1)
    for number in range(2):
        observation, _ = long().reset(seed=seed_of(0, number, 1))
        np.testing.assert_array_equal(found.trajectory.situations.observation[number, 0], observation)
    assert (found.trajectory.outcomes.discounts[:, 3] == 0).all()
    assert (found.counts.num_episodes, found.counts.total_reward) == (2, 2 * 4)
    episodes = where(episodes, found)
    assert [(episode.number, len(episode.options)) for episode in episodes] == [(2, 2), (2, 2)]
    again = EnvActor(short, None, config, 2, seed=0, episodes=episodes)
    assert_the_same(again.unroll(params, 2), actor.unroll(params, 2))
