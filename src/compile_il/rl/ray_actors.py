"""Runs actors on the CPUs of one or many machines, through Ray, for a learner in this process.

Item n of the work, a trajectory from each environment of an actor, belongs to actor n mod A. Results are taken in the
order of n, and an actor gets its next item with the newest parameters when its last result is taken. So two runs with
the same settings are the same; the price is that the learner waits for the slowest actor. V-trace corrects for
parameters being older than those that learn.

Ray restarts actors that die and sends them their item again. An item says where its environments begin: the number of
the episode, from which its seed follows, and the options since, which a restarted actor takes again. So a death changes
nothing, as far as environments depend on nothing but their seeds and machines compute alike. A run that is resumed
begins with fresh environments.
"""

import contextlib
import functools
import itertools
import math
import os
import socket
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from compile_il.model.model import Model
from compile_il.rl.agent import TASK_KINDS, Agent, AgentInput, Choice
from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.environment import Outcomes, TaskWorld, Trajectory
from compile_il.rl.impala import Learner, LearnerState
from compile_il.rl.options import check_skills, make_options
from compile_il.rl.player import Player, pad_tasks
from compile_il.rl.skill_env import SkillEnv
from compile_il.rl.trainer import Statistics
from compile_il.training.loop import stop_is_requested
from compile_il.worlds.gym import WorldEnv, env_of
from compile_il.worlds.world import key_of

CONNECT_SECONDS = 5.0
STOP_SECONDS = 20
"""Seconds without a result after which a request to stop ends the waiting."""
MESSAGE_SECONDS = 60
"""Seconds without a result between two messages."""
MAX_RETRIES = 3
"""Number of times that an item is tried again after its actor died; with more deaths, something else is wrong."""

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class NoActorsError(HierarchyError):
    """Error after a request to stop, if no actor has sent anything for so long that none may ever do."""


class Episode(NamedTuple):
    """Place of an environment: the number of its episode, and the options in it so far."""

    number: int = 0
    options: tuple[int, ...] = ()


class Unrolled(NamedTuple):
    """Result of an item: trajectories, stacked along the first axis, and where each environment is afterwards."""

    trajectories: Trajectory
    counts: Counter[str]
    """Counts of what happened, by their names in `Statistics`."""
    episodes: list[Episode]


class EpisodeRunner:
    """An environment in one of its episodes, each of which begins with a seed of its own."""

    def __init__(self, env: gymnasium.Env[Any, Any], model: Model | None, config: AgentConfig, seeds: tuple[int, int]):
        if not isinstance(env.action_space, gymnasium.spaces.Discrete) or env.action_space.start != 0:
            raise HierarchyError(
                f"The environment's actions are {env.action_space}: an agent chooses among a number of discrete ones."
            )
        world: Any = env.unwrapped.world if isinstance(env.unwrapped, WorldEnv) else None
        self._kind = TASK_KINDS.index(getattr(world, "kind", TASK_KINDS[0]))
        self._num_actions, num_skills = int(env.action_space.n), 0 if model is None else model.config.num_skills
        self.shapes: dict[str, Any] = {
            "observation_shape": tuple(env.observation_space.shape or ()),
            "num_types": getattr(world, "num_types", 1),
            "num_input_tasks": config.num_input_tasks(getattr(world, "num_tasks", 1)),
            "num_options": self._num_actions + num_skills,
        }
        """`Agent.shapes` of an agent that acts here."""
        self._has_tasks, self._has_skills = world is not None, model is not None
        self._discount, self._seeds, self._env = config.discount, seeds, env
        if model is not None:
            self._env = SkillEnv(env, model, discount=config.discount, max_steps=config.max_skill_steps)
        self._begin(0)

    def _begin(self, number: int) -> None:
        seed = np.random.SeedSequence([*self._seeds, number]).generate_state(1)[0]
        self._observation, self._info = self._env.reset(seed=int(seed))
        self.episode, self._total_reward = Episode(number), 0.0

    def go_to(self, episode: Episode) -> None:
        """Takes the options of an episode; if it ends on the way, its seed does not determine it, the next begins."""
        if self.episode != episode:
            self._begin(episode.number)
            for option in episode.options:
                self.run(option, Counter())
                if self.episode.number != episode.number:
                    return

    def run(self, option: int, counts: Counter[str]) -> tuple[float, float]:
        """Runs an option to its end, begins anew where an episode ends; returns the option's reward and discount."""
        self._observation, reward, terminated, truncated, self._info = self._env.step(option)
        over, (number, options) = bool(terminated or truncated), self.episode
        outcome: dict[str, Any] = {"num_steps": 1, "discount": self._discount, "total_reward": reward}
        if self._has_skills:  # in what others put into `info`, the same names may mean something else
            outcome |= self._info
        self._total_reward += float(outcome["total_reward"])
        counts.update(num_steps=outcome["num_steps"], num_decisions=1, num_skills=int(option >= self._num_actions))
        success = over and bool(self._info.get("success", False))
        total_reward: Any = self._total_reward if over else 0.0
        counts.update(num_episodes=int(over), num_successes=int(success), total_reward=total_reward)
        self.episode = Episode(number, (*options, option))
        if over:
            self._begin(number + 1)
        return float(reward), 0.0 if over else float(outcome["discount"])

    def inputs(self) -> AgentInput:
        """Returns the input of an agent; an environment without tasks has one that is always the same."""
        tasks = self._info["tasks"][self._info["task_index"] :] if self._has_tasks else [0]
        arrays: Any = self._observation, np.int32(self._kind), pad_tasks(tasks, self.shapes["num_input_tasks"])
        return AgentInput(*arrays)


class EnvActor:
    """Acts in some environments, as `make_env` makes them; at each step, one option runs to its end in each of them."""

    def __init__(self, make_env: MakeEnv, config: AgentConfig, seed: int):
        self._make_env, self._config, self._seed = make_env, config, seed
        self._runners: list[EpisodeRunner] = []

    def unroll(self, agent: Agent, model: Model | None, item: int, episodes: list[Episode]) -> Unrolled:
        """Acts for one trajectory in each environment, from where `episodes` are; all draws follow from `item`."""
        if not self._runners:  # made here: Ray limits how often an item may fail, but not how often an actor may
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
    """Connects to the Ray cluster at an address, or starts one on this machine with so many processors.

    Returns Ray, and whether a cluster was started, which is then to be shut down.
    """
    try:
        import ray
    except ImportError as error:
        raise HierarchyError('Ray is not installed: pip install "compile-il[ray]", or act on the device.') from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if ray.is_initialized():
        return ray, False
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is to be sent to anybody
        with warnings.catch_warnings():
            # JAX warns of forks; Ray's are followed by the start of another program at once, which is no danger.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            ray.init("local", num_cpus=num_cpus, include_dashboard=False, **quiet)
        return ray, True
    try:
        if address != "auto":  # where nobody answers, Ray would wait for a minute
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        ray.init(address=address, **quiet)
    except Exception as error:  # Ray has several classes for it
        raise HierarchyError(
            f"No Ray cluster answers at {address} ({error}): start one with `ray start --head` and give host:port of "
            "its head, or auto; or leave the address out. If it asks for a token, set RAY_AUTH_MODE=token."
        ) from error
    return ray, False


class RayTrainer(contextlib.AbstractContextManager["RayTrainer", None]):
    """Trains an agent with actors on Ray, among which environments are shared out; has the methods of `AgentTrainer`.

    The agent acts in a world or, where that is None, in what `make_env` makes; see `learn` for the other arguments.
    """

    ACTORS = "actors on Ray"
    """Part of what a resumed run is checked for, as `AgentTrainer` cannot go on from this state."""

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
        if num_actors < 1:
            raise HierarchyError(f"num_actors is {num_actors}: use at least 1.")
        if config.num_seeds != 1:
            raise HierarchyError(
                f"num_seeds is {config.num_seeds}: with actors on Ray one agent learns at a time, use 1."
            )
        if config.num_environments % num_actors:
            raise HierarchyError(
                f"{config.num_environments} environments cannot be shared out to {num_actors} actors: make "
                f"num_environments a multiple of {math.lcm(num_actors, config.batch_size)}, which batches of "
                f"{config.batch_size} can be made of, too."
            )
        if world is not None:
            make_options(config.agent, world, model)  # refuses what does not go together
            make_env = make_env or functools.partial(env_of, world)
        elif make_env is None:
            raise HierarchyError("There is no environment: give a world, or make_env, which makes one.")
        check_skills(config.agent, model)
        self.config, self.world, self.model = config, world, model
        self._make_env, self._num_actors = make_env, num_actors
        shapes = EpisodeRunner(make_env(), model, config, (0, 0)).shapes  # and refuses what actors would die of
        self.learner = Learner(config, shapes)
        self._update = jax.jit(self.learner.update)
        self.actors: list[Any] = []
        """Ray's handles of the actors, which start with the first step."""
        self._pending: deque[tuple[int, Any]] = deque()
        """Items under way, in order, each with Ray's reference to its result."""
        self._waiting: list[Trajectory] = []
        self._ray, self._own_cluster = connect(address, num_actors)
        if (num_cpus := self._ray.cluster_resources().get("CPU", 0)) < num_actors:  # they would be waited for forever
            self.close()
            raise HierarchyError(
                f"The Ray cluster has {num_cpus:g} CPUs, and each of {num_actors} actors needs one: use fewer "
                "(num_actors), or a larger cluster."
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
        """Returns the agent that has been learned so far, alone in a list, in single precision."""
        return [Player(self.learner.full_agent(learned.params), self.config, self.world, self.model)]

    def close(self) -> None:
        """Ends the actors, and the cluster if it was started here."""
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
            unrolled = self._wait(reference)
            self._send(agent, item + self._num_actors, unrolled.episodes)
            counts.update(unrolled.counts)
            rows = range(len(unrolled.episodes))
            self._waiting += [jax.tree.map(lambda leaf, n=n: leaf[n], unrolled.trajectories) for n in rows]
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        batch: Trajectory = _stack(taken)
        return batch

    def _start_actors(self, agent: Any, iteration: int) -> None:
        """Starts actors with seeds of their own, which differ from those before where a run was resumed."""
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": MAX_RETRIES}
        remote = self._ray.remote(**options, runtime_env={"env_vars": {"JAX_PLATFORMS": "cpu"}})(EnvActor)
        self._model, share = self._ray.put(self.model), self.config.num_environments // self._num_actors
        for number in range(self._num_actors):
            seed = np.random.SeedSequence([self.config.seed, iteration, number]).generate_state(1)[0]
            self.actors.append(remote.remote(self._make_env, self.config, int(seed)))
            self._send(agent, number, [Episode()] * share)

    def _send(self, agent: Any, item: int, episodes: list[Episode]) -> None:
        actor = self.actors[item % self._num_actors]
        self._pending.append((item, actor.unroll.remote(agent, self._model, item, episodes)))

    def _wait(self, reference: Any) -> Unrolled:
        """Waits for the result of an item; long waits are explained, and end on request."""
        for seconds in itertools.count(1):
            if self._ray.wait([reference], timeout=1.0)[0]:
                break
            if seconds > STOP_SECONDS and stop_is_requested():
                raise NoActorsError(f"No actor has sent anything for {seconds} s.")
            if seconds % MESSAGE_SECONDS == 0:
                free = self._ray.available_resources().get("CPU", 0)
                text = f"No actor has sent anything for {seconds} s; {free:g} CPUs of the Ray cluster are free."
                print(text, file=sys.stderr)
        try:
            unrolled: Unrolled = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise HierarchyError(
                "Actors die as soon as they are started, or each at the same step of an environment, which a run that "
                f"is resumed may not come to: {error}"
            ) from error
        return unrolled
