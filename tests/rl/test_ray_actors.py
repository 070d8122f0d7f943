"""Acting on CPUs beside a plain loop; actors on Ray, of which some die, and clusters that cannot be used."""

import contextlib
import dataclasses
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from compile_il.model.model import Model
from compile_il.rl import ray_actors
from compile_il.rl.agent import Agent
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.learn import learn, run_training
from compile_il.rl.player import load_player
from compile_il.rl.ray_actors import EnvActor, Episode, EpisodeRunner, MakeEnv, RayTrainer, Unrolled
from compile_il.rl.skill_env import SkillEnv
from compile_il.training.loop import StopRequest
from compile_il.training.runs import read_log
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.gym import env_of
from tests.rl.test_options import SIZE, untrained

SMALL = AgentConfig(num_environments=4, batch_size=4, num_ticks=6, num_levels=4, hidden_dim=8, num_maps=2, embed_dim=2)
LOW_LEVEL = dataclasses.replace(SMALL, agent="low-level")
PICK = GridWorld(size=SIZE, num_tasks=2, num_objects=4, max_steps=9)
VISIT = GridWorld(kind="visit", size=SIZE, num_tasks=2, num_objects=4, max_steps=14)
CARTPOLE = functools.partial(gymnasium.make, "CartPole-v1")


def skills_of(agent: str) -> Model | None:
    return None if agent == "low-level" else untrained(inference="exact", recurrent=agent == "hierarchical")


def fresh_agent(config: AgentConfig, make_env: MakeEnv, model: Model | None) -> Agent:
    shapes = EpisodeRunner(make_env(), model, config, (0, 0)).shapes
    return Agent(config, **shapes, key=jax.random.key(0))


def seed_of(actor_seed: int, environment: int, episode: int) -> int:
    return int(np.random.SeedSequence([actor_seed, environment, episode]).generate_state(1)[0])


def assert_same(first: Any, second: Any) -> None:
    """To the last bit."""
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("agent", ["low-level", "hierarchical", "bc"])
def test_trajectories_are_those_of_a_plain_loop(agent: Any) -> None:
    config = dataclasses.replace(SMALL, agent=agent, max_skill_steps=3)
    model, make_env = skills_of(agent), functools.partial(env_of, PICK)
    chooser = fresh_agent(config, make_env, model)
    actor = EnvActor(make_env, config, seed=5)
    first = actor.unroll(chooser, model, 0, [Episode()] * 2)
    second = actor.unroll(chooser, model, 1, first.episodes)
    assert second.counts["num_decisions"] == 2 * 6
    for number in range(2):
        env: gymnasium.Env = make_env()
        env = env if model is None else SkillEnv(env, model, discount=config.discount, max_steps=3)
        observation, info = env.reset(seed=seed_of(5, number, 0))
        num_episodes = 0
        for part in (first, second):
            row = jax.tree.map(lambda leaf, n=number: leaf[n], part.trajectories)
            for n, option in enumerate(row.options):
                np.testing.assert_array_equal(row.inputs.observation[n], observation)
                remaining = info["tasks"][info["task_index"] :]
                assert row.inputs.tasks[n].tolist() == [*remaining, -1, -1][: 2 if agent == "bc" else 1]
                assert row.inputs.kind[n] == 1
                observation, reward, terminated, truncated, info = env.step(int(option))
                over = terminated or truncated
                assert row.outcomes.rewards[n] == pytest.approx(reward)
                discount = 0 if over else config.discount ** info.get("num_steps", 1)
                assert row.outcomes.discounts[n] == pytest.approx(discount)
                if over:
                    num_episodes += 1
                    observation, info = env.reset(seed=seed_of(5, number, num_episodes))
        assert second.episodes[number].number == num_episodes > 0
        np.testing.assert_array_equal(row.inputs.observation[-1], observation)


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


def test_an_environment_of_others_has_one_task_and_its_info_is_left_alone() -> None:
    config = dataclasses.replace(LOW_LEVEL, num_ticks=60)
    actor = EnvActor(Talkative, config, seed=0)
    unrolled = actor.unroll(fresh_agent(config, Talkative, None), None, 0, [Episode()] * 2)
    assert unrolled.trajectories.inputs.observation.shape == (2, 61, 4)
    assert (unrolled.trajectories.inputs.tasks == 0).all()
    assert unrolled.counts["num_steps"] == 2 * 60
    assert set(np.unique(unrolled.trajectories.outcomes.discounts).tolist()) == {0.0, np.float32(config.discount)}
    assert 0 < unrolled.counts["total_reward"] < 100 * unrolled.counts["num_episodes"]


@pytest.mark.parametrize("agent", ["low-level", "hierarchical"])
def test_another_actor_goes_on_where_one_was(agent: Any) -> None:
    """Whenever it takes over: with the same observations, choices and rewards of whole episodes."""
    config = dataclasses.replace(SMALL, agent=agent)
    model, make_env = skills_of(agent), functools.partial(env_of, VISIT)
    chooser = fresh_agent(config, make_env, model)
    actor = EnvActor(make_env, config, seed=7)
    episodes, longest, total_reward = [Episode()] * 3, 0, 0.0
    for item in range(0, 12, 2):
        expected = actor.unroll(chooser, model, item, episodes)
        assert_same(EnvActor(make_env, config, seed=7).unroll(chooser, model, item, episodes), expected)
        episodes, total_reward = expected.episodes, total_reward + expected.counts["total_reward"]
        longest = max(longest, *(len(episode.options) for episode in episodes))
    assert total_reward > 0
    assert longest > config.num_ticks, "an episode longer than an unroll"
    assert max(episode.number for episode in episodes) > 1


def test_an_actor_that_cannot_get_there_goes_on_with_the_next_episode() -> None:
    """An environment that ends sooner the second time; what it earned till then is not counted again."""
    long, short = (functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=limit) for limit in (50, 4))
    chooser = fresh_agent(LOW_LEVEL, long, None)
    episodes = EnvActor(long, LOW_LEVEL, seed=0).unroll(chooser, None, 0, [Episode()] * 2).episodes
    assert [(episode.number, len(episode.options)) for episode in episodes] == [(0, 6), (0, 6)]
    unrolled: Unrolled = EnvActor(short, LOW_LEVEL, seed=0).unroll(chooser, None, 1, episodes)
    for number in range(2):
        observation, _ = long().reset(seed=seed_of(0, number, 1))
        np.testing.assert_array_equal(unrolled.trajectories.inputs.observation[number, 0], observation)
    assert (unrolled.trajectories.outcomes.discounts[:, 3] == 0).all()
    assert (unrolled.counts["num_episodes"], unrolled.counts["total_reward"]) == (2, 2 * 4)
    assert [(episode.number, len(episode.options)) for episode in unrolled.episodes] == [(2, 2), (2, 2)]


@pytest.fixture(scope="module")
def cluster() -> Any:
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


ANY_WARNING = pytest.mark.filterwarnings("ignore")  # Ray's own


def fragile(world: GridWorld, flag: Path) -> MakeEnv:
    """Environments of which the first one that steps while there is a certain file takes its process with it."""

    def make_env() -> Any:
        env = env_of(world)
        step = env.step

        def step_or_die(action: Any) -> Any:
            with contextlib.suppress(FileNotFoundError):
                flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return step(action)

        env.step = step_or_die  # type: ignore[method-assign]
        return env

    return make_env


@ANY_WARNING
def test_deaths_change_nothing(cluster: Any, tmp_path: Path) -> None:
    """Two runs are the same to the last bit, though in one of them actors die: at work, and after it is done."""
    config = dataclasses.replace(SMALL, batch_size=2, learning_rate=3e-3, num_iterations=7, max_skill_steps=3)
    model, flag = skills_of("hierarchical"), tmp_path / "die"

    def run(disturb: Callable[[RayTrainer, int], None]) -> list[Any]:
        with RayTrainer(config, VISIT, model, make_env=fragile(VISIT, flag), num_actors=2) as trainer:
            state, rows = trainer.start(), []
            for iteration in range(config.num_iterations):
                disturb(trainer, iteration)
                state, statistics = trainer.step(state, iteration)
                rows.append(statistics)
            return [state, rows]

    def kill(trainer: RayTrainer, iteration: int) -> None:
        if iteration == 4:
            results = [reference for _, reference in trainer._pending]
            cluster.wait(results, num_returns=2)
            assert max(len(episode.options) for each in cluster.get(results) for episode in each.episodes) > 1
            cluster.kill(trainer.actors[1], no_restart=False)  # what it has sent is not taken yet
            flag.touch()  # which the other one will see as soon as it goes on

    undisturbed = run(lambda trainer, iteration: None)
    disturbed = run(kill)
    assert not flag.exists()
    assert_same(disturbed, undisturbed)
    assert sum(int(statistics.num_episodes[0]) for statistics in undisturbed[1]) > 8


@ANY_WARNING
def test_actors_that_cannot_live_are_not_restarted_forever(cluster: Any) -> None:
    def make_env() -> Any:
        if os.getpid() != parent:
            os._exit(1)
        return env_of(VISIT)

    parent = os.getpid()
    die = pytest.raises(AgentError, match="die at their start")
    with RayTrainer(LOW_LEVEL, VISIT, make_env=make_env, num_actors=1) as trainer, die:
        trainer.step(trainer.start(), 0)


@ANY_WARNING
def test_agents_learn_in_environments_of_others_and_are_saved(cluster: Any, tmp_path: Path) -> None:
    """A pole is balanced for twenty steps by chance."""
    config = dataclasses.replace(
        LOW_LEVEL, num_environments=32, batch_size=32, num_ticks=16, hidden_dim=32, learning_rate=3e-3,
        final_learning_rate=None, num_iterations=240,
    )  # fmt: skip
    _, player = run_training(RayTrainer(config, None, make_env=CARTPOLE), tmp_path / "run", progress=False)
    rewards = [row["reward"] for row in read_log(tmp_path / "run")]
    assert np.mean([reward for reward in rewards[:60] if reward]) < 30
    assert np.mean([reward for reward in rewards[-60:] if reward]) > 45
    read = load_player(tmp_path / "run")
    assert (read.world, read.config) == (None, config)
    observation = np.array([0.1, -0.2, 0.05, 0.3], np.float32)
    assert read.choose(observation) == player.choose(observation)
    with pytest.raises(AgentError, match=r"of shape \(4,\), and this one has \(3,\)"):
        read.choose(observation[:3])


@ANY_WARNING
def test_a_run_that_was_stopped_goes_on(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once while it acts, and once while it waits for actors that never come."""
    step, steps = RayTrainer.step, []

    def interrupted(self: RayTrainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) < 3:
            os.kill(os.getpid(), signal.SIGINT)
        if len(steps) == 2:
            raise TimeoutError("No actor has sent anything for 20 s.")
        return step(self, state, iteration)

    monkeypatch.setattr(RayTrainer, "step", interrupted)
    monkeypatch.setattr(ray_actors, "WAIT_SECONDS", 600.0)  # a busy machine may take longer than usual to start actors
    config = dataclasses.replace(LOW_LEVEL, num_iterations=3, half_precision=True)
    settings: dict[str, Any] = {"config": config, "actors": "ray", "progress": False, "out": tmp_path / "run"}
    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt, match="after iteration 1 of 3; all is saved"):
            learn(PICK, resume=resume, **settings)
    with pytest.raises(ValueError, match=r"and actors on Ray, and this is .* and actors on the device that learns"):
        learn(PICK, resume=True, **settings | {"actors": "device"})
    player = learn(PICK, resume=True, **settings)
    assert steps == [0, 1, 1, 2]
    rows = read_log(tmp_path / "run")
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert rows[-1]["steps"] == 3 * config.num_environments * config.trajectory_length
    assert load_player(tmp_path / "run").world == player.world == PICK


@ANY_WARNING
def test_waiting_is_explained_and_ends_on_request(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray_actors, "WAIT_SECONDS", 0.6)
    trainer = RayTrainer(LOW_LEVEL, PICK)
    never = cluster.remote(lambda: time.sleep(60)).remote()
    with StopRequest():
        threading.Timer(1.0, signal.raise_signal, [signal.SIGTERM]).start()
        with pytest.raises(TimeoutError, match="No actor has sent anything for 1 s"):
            trainer._wait(never)
    assert "No actor has sent anything for 1 s; 1 CPUs of the Ray cluster are free" in capsys.readouterr().err


@ANY_WARNING
def test_more_actors_than_the_cluster_has_processors_are_refused(cluster: Any) -> None:
    with pytest.raises(AgentError, match="has 2 CPUs, and 4 actors need one each: use fewer"):
        RayTrainer(LOW_LEVEL, PICK, num_actors=4)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nobody", "nowhere.invalid:80"])
def test_an_address_that_does_not_answer_is_refused_within_seconds(address: str) -> None:
    pytest.importorskip("ray").shutdown()
    began = time.monotonic()
    with pytest.raises(AgentError, match=f"No Ray cluster answers at {address}"):
        ray_actors.connect(address, 1)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("agent", "make_env", "skills", "message"),
    [
        ("low-level", functools.partial(gymnasium.make, "Pendulum-v1"), False, "an agent needs discrete ones"),
        ("hierarchical", CARTPOLE, False, "needs skills: give a model"),
        ("low-level", CARTPOLE, True, "A low-level agent has no skills: leave the model out"),
        ("hierarchical", CARTPOLE, True, "The environment has 2 actions, and the model's skills have 8 actions"),
    ],
)
def test_environments_of_others_are_checked_too(agent: Any, make_env: Any, skills: bool, message: str) -> None:
    config, model = dataclasses.replace(SMALL, agent=agent), untrained(inference="exact") if skills else None
    with pytest.raises(AgentError, match=message):
        RayTrainer(config, None, model, make_env=make_env)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_actors": 0}, "cannot be divided among 0 actors: make num_environments a multiple of num_actors"),
        ({"num_actors": 3}, "cannot be divided among 3 actors"),
        ({"num_seeds": 2}, "one agent learns at a time"),
        ({"actors": "cloud"}, '\'cloud\': use "device" or "ray"'),
        ({"actors": "device", "address": "auto"}, 'which is for actors="ray"'),
        ({"agent": "hierarchical"}, "needs skills"),
    ],
)
def test_settings_that_do_not_go_with_ray_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentError, match=message):
        learn(VISIT, config=SMALL, **{"actors": "ray", "agent": "low-level", **settings})


def test_ray_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(AgentError, match=r'pip install "compile-il\[ray\]"'):
        learn(VISIT, config=LOW_LEVEL, actors="ray")
