"""Runs actors on the CPUs of one or many machines, through Ray, for a learner in this process.

Item n of the work, a trajectory from each environment of an actor, belongs to actor n mod A. The learner takes results
in the order of n, and then sends the actor its next item with the newest parameters. So two runs with the same settings
are the same; the price is that the learner waits for the slowest actor. V-trace corrects for older parameters.

Ray restarts actors that die and sends them their item again. An item holds the place where each environment begins: the
number of the episode, from which its seed follows, and the options since, which a restarted actor takes again. So a
death changes nothing if environments depend on their seeds alone. A resumed run begins with fresh environments.
"""

import contextlib
import functools
import os
import socket
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from compile_il.model.model import Model
from compile_il.rl.agent import TASK_KINDS, Agent, AgentInput, Choice
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import Outcomes, TaskWorld, Trajectory
from compile_il.rl.impala import Learner, LearnerState
from compile_il.rl.options import check_skills
from compile_il.rl.player import Player, pad_tasks
from compile_il.rl.skill_env import SkillEnv
from compile_il.rl.trainer import Statistics
from compile_il.training.loop import stop_is_requested
from compile_il.worlds.gym import WorldEnv, env_of
from compile_il.worlds.world import key_of

WAIT_SECONDS = 30.0
"""Seconds between two messages while no result arrives, and the longest wait after a request to stop."""
MAX_RETRIES = 3
"""Number of times that Ray repeats an item whose actor died; more deaths have another cause."""

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class Episode(NamedTuple):
    """Place of an environment: the number of its episode, and the options in it so far."""

    number: int = 0
    options: tuple[int, ...] = ()


class Unrolled(NamedTuple):
    """Result of an item: trajectories, stacked along the first axis, and the new place of each environment."""

    trajectories: Trajectory
    counts: Counter[str]
    """Totals by their names in `Statistics`."""
    episodes: list[Episode]


class EpisodeRunner:
    """Runs options in one environment; each episode begins with a seed of its own."""

    def __init__(self, env: gymnasium.Env[Any, Any], model: Model | None, config: AgentConfig, seeds: tuple[int, int]):
        if not isinstance(env.action_space, gymnasium.spaces.Discrete) or env.action_space.start != 0:
            raise AgentError(f"The environment's actions are {env.action_space}: an agent needs discrete ones, from 0.")
        world: Any = env.unwrapped.world if isinstance(env.unwrapped, WorldEnv) else None
        self._kind, self._num_actions = getattr(world, "kind", TASK_KINDS[0]), int(env.action_space.n)
        self._has_tasks, self._has_skills = world is not None, model is not None
        self._discount, self._seeds, self._env = config.discount, seeds, env
        self.shapes: dict[str, Any] = {
            "observation_shape": tuple(env.observation_space.shape or ()),
            "num_types": getattr(world, "num_types", 1),
            "num_input_tasks": config.num_input_tasks(getattr(world, "num_tasks", 1)),
            "num_options": self._num_actions + (0 if model is None else model.config.num_skills),
        }
        """`Agent.shapes` of an agent for this environment."""
        if model is not None:
            self._env = SkillEnv(env, model, discount=config.discount, max_steps=config.max_skill_steps)
        self._begin(0)

    def _begin(self, number: int) -> None:
        seed = np.random.SeedSequence([*self._seeds, number]).generate_state(1)[0]
        self._observation, self._info = self._env.reset(seed=int(seed))
        self.episode, self._total_reward = Episode(number), 0.0

    def go_to(self, episode: Episode) -> None:
        """Repeats the options of an episode; if it ends too early, because of more than its seed, begins the next."""
        if self.episode != episode:
            self._begin(episode.number)
            for option in episode.options:
                if self.episode.number == episode.number:
                    self.run(option, Counter())

    def run(self, option: int, counts: Counter[str]) -> tuple[float, float]:
        """Runs an option to its end and returns its reward and discount; after an episode the next one begins."""
        self._observation, reward, terminated, truncated, self._info = self._env.step(option)
        over = bool(terminated or truncated)
        # Environments of others may use the same names in `info` for something else.
        outcome: dict[str, Any] = {"num_steps": 1, "discount": self._discount, "total_reward": reward}
        outcome = self._info if self._has_skills else outcome
        self._total_reward += float(outcome["total_reward"])
        counts.update(num_steps=outcome["num_steps"], num_decisions=1, num_skills=int(option >= self._num_actions))
        success, total_reward = bool(self._info.get("success")), cast(int, self._total_reward if over else 0.0)
        counts.update(num_episodes=over, num_successes=over and success, total_reward=total_reward)
        self.episode = Episode(self.episode.number, (*self.episode.options, option))
        if over:
            self._begin(self.episode.number + 1)
        return float(reward), 0.0 if over else float(outcome["discount"])

    def inputs(self) -> AgentInput:
        """Returns the input of an agent; an environment without tasks has one that is always the same."""
        tasks = self._info["tasks"][self._info["task_index"] :] if self._has_tasks else [0]
        arrays: Any = (
            self._observation,
            np.int32(TASK_KINDS.index(self._kind)),
            pad_tasks(tasks, self.shapes["num_input_tasks"]),
        )
        return AgentInput(*arrays)


class EnvActor:
    """Acts in environments that `make_env` makes; at each step one option runs to its end in each of them."""

    def __init__(self, make_env: MakeEnv, config: AgentConfig, seed: int):
        self._make_env, self._config, self._seed = make_env, config, seed
        self._runners: list[EpisodeRunner] = []

    def unroll(self, agent: Agent, model: Model | None, item: int, episodes: list[Episode]) -> Unrolled:
        """Acts for one trajectory in each environment, from its place in `episodes`; `item` seeds all choices."""
        if not self._runners:  # Ray limits how often an item may fail, but not how often __init__ may
            seeds = ((self._seed, number) for number in range(len(episodes)))
            self._runners = [EpisodeRunner(self._make_env(), model, self._config, pair) for pair in seeds]
        for runner, episode in zip(self._runners, episodes, strict=True):
            runner.go_to(episode)
        key, counts = jax.random.fold_in(key_of(self._seed), item), Counter[str]()
        inputs, choices, results = [_stack([runner.inputs() for runner in self._runners])], [], []
        for n in range(self._config.trajectory_length):
            choices.append(_choose(agent, inputs[-1], jax.random.fold_in(key, n)))
            pairs = zip(self._runners, np.asarray(choices[-1].option).tolist(), strict=True)
            results.append([runner.run(option, counts) for runner, option in pairs])
            inputs.append(_stack([runner.inputs() for runner in self._runners]))
        choice, outcomes = _stack(choices, axis=1), np.array(results, np.float32).transpose(2, 1, 0)
        arrays: Any = (*outcomes, np.ones(outcomes.shape[1:], bool))
        trajectories = Trajectory(_stack(inputs, axis=1), choice.option, choice.log_prob, Outcomes(*arrays))
        return Unrolled(trajectories, counts, [runner.episode for runner in self._runners])


@eqx.filter_jit
def _choose(agent: Agent, inputs: AgentInput, key: PRNGKeyArray) -> Choice:
    return jax.vmap(agent.choose)(inputs, jax.random.split(key, inputs.kind.shape[0]))


def _stack(trees: Sequence[Any], axis: int = 0) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis), *trees)


def connect(address: str | None, num_cpus: int) -> tuple[Any, bool]:
    """Connects to a Ray cluster, or starts one; returns Ray, and whether the caller has to shut the cluster down."""
    try:
        import ray
    except ImportError as error:
        raise AgentError('Ray is not installed: pip install "compile-il[ray]", or act on the device.') from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if ray.is_initialized():
        return ray, False
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        with warnings.catch_warnings():
            # JAX warns of forks; those of Ray are safe, as they start another program at once.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            ray.init("local", num_cpus=num_cpus, include_dashboard=False, **quiet)
        return ray, True
    try:
        if address != "auto":  # Ray itself would wait a minute for an answer
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=5.0).close()
        ray.init(address=address, **quiet)
    except Exception as error:  # Ray has several classes for it
        raise AgentError(
            f"No Ray cluster answers at {address} ({error}): start one with `ray start --head` and give host:port of "
            "its head, or auto; or leave the address out. If it asks for a token, set RAY_AUTH_MODE=token."
        ) from error
    return ray, False


class RayTrainer(contextlib.AbstractContextManager["RayTrainer", None]):
    """Trains an agent with actors on Ray, in a world or in what `make_env` makes; has the methods of `AgentTrainer`."""

    ACTORS = "actors on Ray"
    """Part of the data of a run, as `AgentTrainer` cannot go on from this state."""

    def __init__(
        self,
        config: AgentConfig,
        world: TaskWorld | None,
        model: Model | None = None,
        *,
        make_env: MakeEnv | None = None,
        num_actors: int = 2,
        address: str | None = None,
    ):
        if config.num_seeds != 1:
            raise AgentError(f"num_seeds is {config.num_seeds}: with actors on Ray one agent learns at a time, use 1.")
        if num_actors < 1 or config.num_environments % num_actors:
            raise AgentError(
                f"{config.num_environments} environments cannot be divided among {num_actors} actors: make "
                "num_environments a multiple of num_actors and of batch_size."
            )
        check_skills(config.agent, model)
        self.config, self.world, self.model, self._num_actors = config, world, model, num_actors
        self._make_env = make_env or functools.partial(env_of, world)
        # This also refuses environments and skills that actors would die of.
        self.learner = Learner(config, EpisodeRunner(self._make_env(), model, config, (0, 0)).shapes)
        self._update = jax.jit(self.learner.update)
        self.actors: list[Any] = []
        """Ray's handles of the actors, which start with the first step."""
        self._pending: deque[tuple[int, Any]] = deque()
        """Items that actors work on, in order, each with Ray's reference to its result."""
        self._waiting: list[Trajectory] = []
        self._ray, self._own_cluster = connect(address, num_actors)
        if (num_cpus := self._ray.cluster_resources().get("CPU", 0)) < num_actors:  # Ray would wait forever
            raise AgentError(
                f"The Ray cluster has {num_cpus:g} CPUs, and {num_actors} actors need one each: use fewer."
            )

    def start(self) -> LearnerState:
        """Returns the first state of training: a fresh agent."""
        return self.learner.start(key_of(self.config.seed))

    def step(self, learned: LearnerState, iteration: int) -> tuple[LearnerState, Statistics]:
        """Takes as many trajectories as there are environments, and makes the updates that follow from them."""
        cost, counts, losses = self.learner.entropy_cost(iteration), Counter[str](), []
        for _ in range(self.config.num_environments // self.config.batch_size):
            learned, loss = self._update(learned, self._next_batch(learned, iteration, counts), cost)
            losses.append(loss)
        mean = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves))[None], *losses)
        totals = {name: jnp.array([value]) for name, value in counts.items()}
        return learned, Statistics(**totals, policy_loss=mean.policy, baseline_loss=mean.baseline, entropy=mean.entropy)

    def players(self, learned: LearnerState) -> list[Player]:
        """Returns the agent as it is now, alone in a list, in single precision."""
        return [Player(self.learner.full_agent(learned.params), self.config, self.world, self.model)]

    def close(self) -> None:
        """Ends the actors, and the cluster if this trainer started it."""
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors = []
        if self._own_cluster:
            self._ray.shutdown()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_batch(self, learned: LearnerState, iteration: int, counts: Counter[str]) -> Trajectory:
        """Takes a batch of trajectories, in the order of items; actors go on with the newest parameters."""
        agent, size = self._ray.put(self.learner.agent(learned.params)), self.config.batch_size
        if not self.actors:
            self._start_actors(agent, iteration)
        while len(self._waiting) < size:
            item, reference = self._pending.popleft()
            unrolled: Unrolled = self._wait(reference)
            self._send(agent, item + self._num_actors, unrolled.episodes)
            counts.update(unrolled.counts)
            leaves, treedef = jax.tree.flatten(unrolled.trajectories)
            self._waiting += [jax.tree.unflatten(treedef, rows) for rows in zip(*leaves, strict=True)]
        batch: Trajectory = _stack(self._waiting[:size])
        del self._waiting[:size]
        return batch

    def _start_actors(self, agent: Any, iteration: int) -> None:
        """Starts actors with seeds of their own, which a resumed run does not repeat."""
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": MAX_RETRIES}
        remote = self._ray.remote(**options, runtime_env={"env_vars": {"JAX_PLATFORMS": "cpu"}})(EnvActor)
        self._model, share = self._ray.put(self.model), self.config.num_environments // self._num_actors
        for number in range(self._num_actors):
            seed = np.random.SeedSequence([self.config.seed, iteration, number]).generate_state(1)[0]
            self.actors.append(remote.remote(self._make_env, self.config, int(seed)))
            self._send(agent, number, [Episode()] * share)

    def _send(self, agent: Any, item: int, episodes: list[Episode]) -> None:
        unroll = self.actors[item % self._num_actors].unroll
        self._pending.append((item, unroll.remote(agent, self._model, item, episodes)))

    def _wait(self, reference: Any) -> Any:
        """Waits for the result of an item; says so when it takes long, and ends the wait on request."""
        began = time.monotonic()
        while not self._ray.wait([reference], timeout=WAIT_SECONDS)[0]:
            free = self._ray.available_resources().get("CPU", 0)
            waited = f"No actor has sent anything for {time.monotonic() - began:.0f} s"
            if stop_is_requested():
                raise TimeoutError(f"{waited}.")
            print(f"{waited}; {free:g} CPUs of the Ray cluster are free.", file=sys.stderr)
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise AgentError(f"Actors die at their start, or at the same step again and again: {error}") from error
