"""Actors on the CPUs of one or many machines, through Ray, and one learner here.

Each actor acts with the parameters that were the newest when it began; those of the learner have moved on by the time
its trajectories are learned from, and V-trace corrects for that. By how much is for the order of work to say, not for
the machines (`crew.py`): two runs with the same settings are the same, and an actor that dies and is replaced costs
time and changes nothing else, as far as environments depend on nothing but their seeds and machines round alike. The
price is that the learner waits for the slowest actor.

Everything goes through the same learner as on the device, so a run can be stopped and resumed. One that is resumed
begins with fresh environments: it is determined too, but by where it was resumed as well.

Actors on Ray that are dealt work in order, and can be replaced without a trace.

Of A slots, each with an actor, item n belongs to slot n mod A: one trajectory from each of its environments. Results
are taken in the order of n, not in the order in which they come, and a slot is sent its next item with the parameters
that are the newest when its last result is taken. So which parameters act for which item depends on n alone.

A slot remembers where its environments were before the item that is under way. If the actor dies, another one is told,
brings its own environments there (`EnvActor`), and is sent the same item with the same parameters.

Acting in Gymnasium environments: what an actor on a CPU does, wherever it runs.

An actor has some environments, each at an option of its own. The agent chooses for all of them at once; then each
option is run to its end, one environment after the other. So a trajectory has the same number of decisions everywhere,
and none of them is still running.

All that is drawn comes from seeds: each episode begins with one of its own, and the choices of one unroll have a key of
their own. So where an environment is follows from its episode's number and the options that it took since, and another
actor with the same seed can be brought there.

Connecting to a Ray cluster, or starting one on this machine.
"""

import dataclasses
import functools
import math
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from compile_il.model.files import named_leaves
from compile_il.model.model import Model
from compile_il.rl.agent import NO_TASK, TASK_KINDS, Agent, AgentInput, Choice
from compile_il.rl.config import AgentConfig, HierarchyError
from compile_il.rl.environment import Outcomes, TaskWorld, Trajectory
from compile_il.rl.impala import ImpalaLosses, Learned, Learner
from compile_il.rl.options import make_options
from compile_il.rl.player import Player
from compile_il.rl.skill_env import SkillEnv
from compile_il.rl.trainer import Statistics
from compile_il.training.loop import stop_is_requested
from compile_il.worlds.gym import WorldEnv, env_of
from compile_il.worlds.world import key_of

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class Stage(NamedTuple):
    """Sizes and kinds of what an agent sees, does and is told in some environments, which all share them."""

    observation_shape: tuple[int, ...]
    num_actions: int
    kind: int
    """Type of the tasks, as an index into `TASK_KINDS`."""
    num_types: int
    """Number of types of the objects that tasks are about."""
    num_told: int
    """Number of tasks that the agent is told of, the current one included."""

    def agent_maker(self, config: AgentConfig, model: Model | None) -> Callable[..., Agent]:
        """Function that makes an agent for this stage, given a `key`."""
        num_skills = 0 if model is None else model.config.num_skills

        def make(*, key: Any) -> Agent:
            return Agent(
                config,
                observation_shape=self.observation_shape,
                num_types=self.num_types,
                num_told=self.num_told,
                num_options=self.num_actions + num_skills,
                key=key,
            )

        return make


def stage_of(env: gymnasium.Env[Any, Any], config: AgentConfig) -> Stage:
    """Stage of an environment; without tasks as ours have, it counts as having one that is always the same."""
    world = env.unwrapped.world if isinstance(env.unwrapped, WorldEnv) else None
    kind = getattr(world, "kind", TASK_KINDS[0])
    if not isinstance(env.action_space, gymnasium.spaces.Discrete) or env.action_space.start != 0:
        raise HierarchyError(
            f"The environment's actions are {env.action_space}: an agent chooses among a number of discrete ones."
        )
    return Stage(
        observation_shape=tuple(env.observation_space.shape or ()),
        num_actions=int(env.action_space.n),
        kind=TASK_KINDS.index(kind),
        num_types=getattr(world, "num_types", 1),
        num_told=getattr(world, "num_tasks", 1) if config.agent == "bc" else 1,
    )


class ActingCounts(NamedTuple):
    """Counts of what happened while acting, which can be added up."""

    num_steps: int = 0
    num_decisions: int = 0
    num_skills: int = 0
    num_episodes: int = 0
    num_successes: int = 0
    total_reward: float = 0.0
    """Undiscounted reward of all episodes that ended."""

    def plus(self, other: "ActingCounts") -> "ActingCounts":
        """Sum of these counts and others."""
        total: ActingCounts = jax.tree.map(lambda a, b: a + b, self, other)
        return total


class EpisodeSoFar(NamedTuple):
    """How far an environment has come: all that is needed to bring another one to the same place."""

    number: int = 0
    """Number of the episode among those of its environment, from 0."""
    options: tuple[int, ...] = ()
    """Options taken in the episode so far; in the result of an unroll, only those taken in that unroll."""

    def then(self, later: "EpisodeSoFar") -> "EpisodeSoFar":
        """How far an environment has come after an unroll whose result is `later`."""
        return later if later.number != self.number else EpisodeSoFar(self.number, self.options + later.options)


class Unrolled(NamedTuple):
    """Result of one unroll by an actor."""

    trajectory: Trajectory
    """One trajectory of each environment, stacked along the first axis."""
    counts: ActingCounts
    episodes: list[EpisodeSoFar]
    """How far each environment has come in the unroll."""


class EnvActor:
    """Some environments, and an agent that acts in them with the parameters that it is given.

    Args:
      make_env: makes an environment.
      model: whose skills are options; None where there are none.
      config: the settings.
      num_environments: how many of them.
      seed: of the environments and of the agent's choices.
      episodes: where another actor with this seed has left its environments, and these are to go on; None to begin.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        model: Model | None,
        config: AgentConfig,
        num_environments: int,
        seed: int,
        episodes: Sequence[EpisodeSoFar] | None = None,
    ):
        self._config, self._seed, self._key = config, seed, key_of(seed)
        envs = [make_env() for _ in range(num_environments)]
        self._stage = stage_of(envs[0], config)
        # What others put into `info` may have the same names and mean something else.
        self._has_tasks, self._has_skills = isinstance(envs[0].unwrapped, WorldEnv), model is not None
        learner = Learner(config, self._stage.agent_maker(config, model))
        self._treedef = jax.tree.structure(jax.eval_shape(learner.start, self._key).params)
        if model is not None:
            limit = config.max_skill_steps
            envs = [SkillEnv(env, model, discount=config.discount, max_steps=limit) for env in envs]
        self._envs = envs
        self._seen: list[tuple[Any, dict[str, Any]]] = [(None, {})] * num_environments
        self._earned, self._episode_numbers = np.zeros(num_environments), [0] * num_environments
        self._taken: list[list[int]] = [[] for _ in envs]
        for number, episode in enumerate(episodes or [EpisodeSoFar()] * num_environments):
            self._replay(number, episode)

        def choose(params: Any, situations: AgentInput, key: Any, tick: Any) -> Choice:
            agent, key = learner.agent(params), jax.random.fold_in(key, tick)
            return jax.vmap(agent.choose)(situations, jax.random.split(key, num_environments))

        self._choose = jax.jit(choose)

    def unroll(self, leaves: list[Any], item: int) -> Unrolled:
        """Acts for one trajectory in each environment.

        Args:
          leaves: the agent's parameters, in the order of their tree.
          item: another number each time; what is chosen depends on it, and not on what was unrolled before.
        """
        params = jax.tree.unflatten(self._treedef, [jnp.asarray(leaf) for leaf in leaves])
        key, self._taken = jax.random.fold_in(self._key, item), [[] for _ in self._envs]
        situations, choices, results, total = [self._situations()], [], [], ActingCounts()
        for tick in range(self._config.trajectory_length):
            choice: Choice = jax.tree.map(np.asarray, self._choose(params, situations[-1], key, tick))
            steps = [self._run(number, int(option)) for number, option in enumerate(choice.option)]
            choices.append(choice)
            results.append([(reward, discount) for reward, discount, _ in steps])
            for _, _, counts in steps:
                total = total.plus(counts)
            situations.append(self._situations())
        rewards, discounts = np.moveaxis(np.array(results, np.float32), 0, 1).transpose(2, 0, 1)
        stacked: AgentInput = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *situations)
        trajectory = Trajectory(
            situations=stacked,
            options=np.stack([choice.option for choice in choices], axis=1),  # type: ignore[arg-type]
            log_probs=np.stack([choice.log_prob for choice in choices], axis=1),  # type: ignore[arg-type]
            outcomes=Outcomes(rewards, discounts, np.ones(rewards.shape, bool)),  # type: ignore[arg-type]
        )
        episodes = [EpisodeSoFar(*ep) for ep in zip(self._episode_numbers, map(tuple, self._taken), strict=True)]
        return Unrolled(trajectory, total, episodes)

    def _begin(self, number: int, episode_number: int) -> None:
        """Begins an episode of an environment, from a seed that follows from the actor's and from both numbers."""
        seed = np.random.SeedSequence([self._seed, number, episode_number]).generate_state(1)[0]
        self._seen[number] = self._envs[number].reset(seed=int(seed))
        self._earned[number], self._episode_numbers[number], self._taken[number] = 0.0, episode_number, []

    def _replay(self, number: int, episode: EpisodeSoFar) -> None:
        """Brings an environment to where another one was, whose episode had not ended.

        If this one ends, then its seed does not determine it, and there is no such place: the next episode has begun.
        """
        self._begin(number, episode.number)
        for option in episode.options:
            _, _, counts = self._run(number, option)
            if counts.num_episodes:
                return

    def _run(self, number: int, option: int) -> tuple[float, float, ActingCounts]:
        """Runs an option to its end, begins anew after an episode's; returns the option's reward, discount, counts."""
        env = self._envs[number]
        observation, reward, terminated, truncated, info = env.step(option)
        over = bool(terminated or truncated)
        about = info if self._has_skills else {}
        self._earned[number] += about.get("total_reward", reward)
        self._taken[number].append(option)
        counts = ActingCounts(
            num_steps=about.get("num_steps", 1),
            num_decisions=1,
            num_skills=int(option >= self._stage.num_actions),
            num_episodes=int(over),
            num_successes=int(over and bool(info.get("success", False))),
            total_reward=float(self._earned[number]) if over else 0.0,
        )
        self._seen[number] = (observation, info)
        if over:
            self._begin(number, self._episode_numbers[number] + 1)
        return float(reward), 0.0 if over else float(about.get("discount", self._config.discount)), counts

    def _situations(self) -> AgentInput:
        stage, num = self._stage, len(self._envs)
        tasks = [_remaining(info if self._has_tasks else {}, stage.num_told) for _, info in self._seen]
        return AgentInput(
            observation=np.stack([observation for observation, _ in self._seen]),  # type: ignore[arg-type]
            kind=np.full(num, stage.kind, np.int32),  # type: ignore[arg-type]
            tasks=np.stack(tasks),  # type: ignore[arg-type]
        )


def _remaining(info: dict[str, Any], num_told: int) -> np.ndarray:
    """Next `num_told` tasks of an environment's list, `NO_TASK` behind its end; type 0 if there is no list."""
    if "tasks" not in info:
        return np.zeros(num_told, np.int32)
    left = np.asarray(info["tasks"], np.int32)[info["task_index"] :][:num_told]
    return np.pad(left, (0, num_told - len(left)), constant_values=NO_TASK)


TICK_SECONDS = 1.0
"""Seconds between checks for a request to stop."""


STOP_SECONDS = 20.0
"""Seconds without a result after which a request to stop ends the waiting."""


PATIENCE_SECONDS = 60.0


MOST_DEATHS = 3
"""Largest number of actors of one slot that may die at the same item; with more, something else is wrong."""


MakeActor = Callable[[int, list[EpisodeSoFar]], Any]
"""Function from a slot's seed, and from where its environments are, to Ray's handle of a new actor."""


class NobodyActsError(HierarchyError):
    """Error after a request to stop, if no actor has sent anything for so long that none may ever do."""


@dataclasses.dataclass
class Slot:
    """A place for an actor, and all that a new one needs to do what the old one would have done."""

    seed: int
    episodes: list[EpisodeSoFar]
    """How far the slot's environments had come before the item under way."""
    item: int
    params: Any
    """Ray's reference to the parameters that act for the item under way."""
    actor: Any
    under_way: Any = None
    """Ray's reference to the result of the item under way."""
    num_deaths: int = 0
    """Number of the slot's actors that have died since its last result."""


class Crew:
    """Actors on Ray at work: each unrolls the items of its slot, and is replaced if it dies.

    Args:
      ray: the package; it is connected.
      make_actor: starts an actor.
      seeds: of the slots.
      num_environments: of each slot.
      params: Ray's reference to the parameters that act for the first items.
    """

    def __init__(self, ray: Any, make_actor: MakeActor, seeds: Sequence[int], num_environments: int, params: Any):
        self._ray, self._make_actor = ray, make_actor
        gone = ray.exceptions
        # Of an actor, of its process, of its machine, or of what it had found; its own errors are not among them.
        self._deaths = (
            *(gone.RayActorError, gone.WorkerCrashedError, gone.NodeDiedError),
            *(gone.ObjectLostError, gone.OutOfMemoryError),
        )
        self._arrived: dict[int, Unrolled] = {}
        fresh = [EpisodeSoFar()] * num_environments
        self._slots = [
            Slot(seed, fresh, item, params, actor=make_actor(seed, fresh)) for item, seed in enumerate(seeds)
        ]
        for slot in self._slots:
            self._send(slot)

    @property
    def actors(self) -> list[Any]:
        """Ray's handles of the actors, slot by slot."""
        return [slot.actor for slot in self._slots]

    def take(self, params: Any) -> Unrolled:
        """Waits for the result of the next item and returns it; its actor goes on with the given parameters."""
        slot = min(self._slots, key=lambda slot: slot.item)
        while slot.item not in self._arrived:
            self._receive()
        found = self._arrived.pop(slot.item)
        slot.episodes = [before.then(after) for before, after in zip(slot.episodes, found.episodes, strict=True)]
        slot.item, slot.params = slot.item + len(self._slots), params
        self._send(slot)
        return found

    def close(self) -> None:
        """Ends the actors."""
        for actor in self.actors:
            self._ray.kill(actor)

    def _send(self, slot: Slot) -> None:
        slot.under_way = slot.actor.unroll.remote(slot.params, slot.item)

    def _receive(self) -> None:
        """Waits for any actor that is done or dead, whoever is next in turn; those that died are replaced together."""
        slot = self._wait()
        try:
            self._arrived[slot.item] = self._ray.get(slot.under_way)
        except self._deaths as error:
            self._replace(slot, error)
        else:
            slot.num_deaths = 0

    def _replace(self, slot: Slot, error: Exception) -> None:
        slot.num_deaths += 1
        if slot.num_deaths > MOST_DEATHS:
            raise HierarchyError(
                "Actors die as soon as they are started, or each at the same step of an environment, which a run that "
                f"is resumed may not come to: {error}"
            ) from error
        print("An actor died and is replaced.", file=sys.stderr)
        self._ray.kill(slot.actor)  # which may live, where only its result was lost
        slot.actor = self._make_actor(slot.seed, slot.episodes)
        self._send(slot)

    def _wait(self) -> Slot:
        """Waits for a slot whose actor is done or dead; long waits are explained and can be interrupted."""
        under_way = {slot.under_way: slot for slot in self._slots if slot.item not in self._arrived}
        began, told = time.monotonic(), 0
        while True:
            done, _ = self._ray.wait(list(under_way), num_returns=1, timeout=TICK_SECONDS)
            if done:
                return under_way[done[0]]
            waited = time.monotonic() - began
            if waited > STOP_SECONDS and stop_is_requested():
                raise NobodyActsError(f"No actor has sent anything for {waited:.0f} s.")
            if waited > (told + 1) * PATIENCE_SECONDS:
                told += 1
                free = self._ray.available_resources().get("CPU", 0)
                print(
                    f"No actor has sent anything for {waited:.0f} s; {free:g} CPUs of the Ray cluster are free.",
                    file=sys.stderr,
                )


CONNECT_SECONDS = 5.0


TOKEN_VARIABLES = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


TOKEN_FILE = Path("~/.ray/auth_token")
"""File in which Ray keeps the token that it shows to clusters."""


HTTP2_SETTINGS = 4
"""Type of the HTTP/2 frame that either side sends first; it stands in the fourth byte of the frame's header."""


HTTP2_HEADER = 9


HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, HTTP2_SETTINGS, 0, 0, 0, 0, 0])


def require_ray() -> Any:
    """Imports Ray, or raises an error that says how to get it."""
    show_token()
    try:
        import ray
    except ImportError as error:
        raise HierarchyError('Ray is not installed: pip install "compile-il[ray]", or act on the device.') from error
    return ray


def show_token() -> None:
    """Lets Ray send the token that this machine has, if any, to clusters that ask for it; others do not mind.

    Newer versions start such clusters where there is a token; a program that names an address sends none, unless Ray
    was told to before it was imported.
    """
    has_token = any(name in os.environ for name in TOKEN_VARIABLES) or TOKEN_FILE.expanduser().exists()
    if has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def connect(ray: Any, address: str | None, num_cpus: int) -> bool:
    """Connects Ray to a cluster, or to one that is started on this machine if there is no address.

    Args:
      ray: the module; if it is connected already, it stays so.
      address: address of a cluster, or "auto" for one on this machine.
      num_cpus: processors of one that is started here, as many as there are actors.

    Returns:
      Whether a cluster was started here, which is then to be shut down.
    """
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is to be sent to anybody
        with warnings.catch_warnings():
            # JAX warns of forks; Ray's are followed by the start of another program at once, which is no danger.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            # An actor that waits for a processor of its own would wait forever.
            ray.init("local", num_cpus=num_cpus, include_dashboard=False, **quiet)
        return True
    check_address(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:  # Ray has several classes for it
        raise HierarchyError(
            f"No Ray at {address} lets us in ({error}): start one with `ray start --head`. If it asks for a token, "
            f"bring its {TOKEN_FILE} here, or set RAY_AUTH_MODE=disabled before you start it."
        ) from error
    return False


def check_address(address: str) -> None:
    """Refuses an address where nobody answers, within seconds; Ray itself would wait for a minute."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as connection:
            _greet(connection)
    except (OSError, ValueError) as error:
        raise HierarchyError(
            f"Nobody answers at {address} ({error}): give host:port of a Ray cluster's head, or auto, or leave it out."
        ) from error


def _greet(connection: socket.socket) -> None:
    """Begins to speak HTTP/2, as gRPC does, which Ray is built on: somebody may take the call and say nothing."""
    connection.sendall(HTTP2_GREETING)
    answer = b""
    while len(answer) < HTTP2_HEADER and (more := connection.recv(HTTP2_HEADER - len(answer))):
        answer += more
    if len(answer) < HTTP2_HEADER or answer[3] != HTTP2_SETTINGS:
        raise OSError("what answers is not Ray")


class Progress(NamedTuple):
    """State of training with actors on Ray between two iterations."""

    learned: Learned
    num_steps: Float[Array, ""]
    """Number of low-level steps so far; a float, as JAX's integers end at two thousand million."""


class RayTrainer:
    """Reinforcement learning with actors elsewhere; has the methods of `AgentTrainer`.

    A step depends on the state, its number and the settings, and on where the actors' environments are: those are fresh
    where a run is resumed.

    Args:
      config: the settings; environments are shared out among the actors.
      world: where the agent acts; of other environments than ours, None.
      model: whose skills it can call; None for a low-level agent.
      make_env: makes an environment; that of the world if None.
      num_actors: processes that act.
      address: of a Ray cluster, or "auto" for one on this machine; one is started here if None.
    """

    ACTORS = "actors on Ray"
    """Who acts, in words: part of what a resumed run is checked for, as `AgentTrainer` cannot go on from this state."""

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
        _check(config, num_actors)
        if world is not None:
            make_options(config.agent, world, model)  # which says what does not go together
        elif make_env is None:
            raise HierarchyError("There is no environment: give a world, or make_env, which makes one.")
        self.config, self.world, self.model = config, world, model
        self._make_env = make_env or functools.partial(env_of, world)
        env = self._make_env()
        if world is None:
            _check_together(config, env, model)
        self._stage = stage_of(env, config)
        self.learner = Learner(config, self._stage.agent_maker(config, model))
        self._update = jax.jit(self.learner.update)
        self._num_actors = num_actors
        self._crew: Crew | None = None
        self._ray = require_ray()
        self._ours = connect(self._ray, address, num_actors)
        self._check_room()
        self._model = self._ray.put(pack_model(model))
        self._waiting: list[Trajectory] = []

    def start(self) -> Progress:
        """First state of training: a fresh agent."""
        return Progress(self.learner.start(key_of(self.config.seed)), jnp.array(0.0))

    def step(self, state: Progress, iteration: int) -> tuple[Progress, Statistics]:
        """Takes as many trajectories as there are environments, and makes the updates that follow from them."""
        config, learned = self.config, state.learned
        cost, total = self.learner.entropy_cost(iteration), ActingCounts()
        losses: list[ImpalaLosses] = []
        for _ in range(config.num_environments // config.batch_size):
            batch, counts = self._gather(learned, iteration)
            learned, loss = self._update(learned, batch, cost)
            losses.append(loss)
            total = total.plus(counts)
        mean = jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves)), *losses)
        found = {name: jnp.array([value]) for name, value in total._asdict().items()}
        return Progress(learned, state.num_steps + total.num_steps), Statistics(
            **found, policy_loss=mean.policy[None], baseline_loss=mean.baseline[None], entropy=mean.entropy[None]
        )

    def num_steps(self, state: Progress, iteration: int) -> float:
        """Number of low-level steps so far; how many an iteration has depends on its options."""
        del iteration
        return float(state.num_steps)

    def players(self, state: Progress) -> list[Player]:
        """Agent that has been learned so far, alone in a list, in single precision."""
        full = dataclasses.replace(self.config, half_precision=False)
        learner = Learner(full, self._stage.agent_maker(full, self.model))
        return [Player(learner.agent(state.learned.params), self.config, self.world, self.model)]

    @property
    def actors(self) -> list[Any]:
        """Ray's handles of the actors that are at work."""
        return [] if self._crew is None else self._crew.actors

    def close(self) -> None:
        """Ends the actors, and Ray if it was started here."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None
        if self._ours:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _gather(self, learned: Learned, iteration: int) -> tuple[Trajectory, ActingCounts]:
        """A batch of trajectories, in the order in which they were dealt; actors go on with the newest parameters."""
        newest = self._ray.put([np.asarray(leaf) for leaf in jax.tree.leaves(learned.params)])
        if self._crew is None:
            self._crew = self._new_crew(newest, iteration)
        total = ActingCounts()
        while len(self._waiting) < self.config.batch_size:
            found = self._crew.take(newest)
            total = total.plus(found.counts)
            rows = found.trajectory.options.shape[0]
            self._waiting += [jax.tree.map(lambda leaf, n=n: leaf[n], found.trajectory) for n in range(rows)]
        batch, self._waiting = self._waiting[: self.config.batch_size], self._waiting[self.config.batch_size :]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batch), total

    def _check_room(self) -> None:
        """Refuses a cluster on which not all actors could ever run: those that cannot would be waited for."""
        room = self._ray.cluster_resources().get("CPU", 0)
        if room < self._num_actors:
            self.close()
            raise HierarchyError(
                f"The Ray cluster has {room:g} CPUs, and each of {self._num_actors} actors needs one: use fewer "
                "(num_actors), or a larger cluster."
            )

    def _new_crew(self, params: Any, iteration: int) -> Crew:
        """Starts actors with seeds of their own, which differ from those before where a run was resumed."""
        share = self.config.num_environments // self._num_actors
        seeds = [
            int(np.random.SeedSequence([self.config.seed, iteration, slot]).generate_state(1)[0])
            for slot in range(self._num_actors)
        ]
        return Crew(self._ray, self._new_actor, seeds, share, params)

    def _new_actor(self, seed: int, episodes: list[EpisodeSoFar]) -> Any:
        """Starts an actor, on a CPU, whose environments go on from the given episodes."""
        options = {"num_cpus": 1, "runtime_env": {"env_vars": {"JAX_PLATFORMS": "cpu"}}}
        make = self._ray.remote(**options)(_RemoteActor)
        return make.remote(self._make_env, self._model, self.config, seed, episodes)


class _RemoteActor(EnvActor):
    """Actor that Ray runs; models come to it as plain values and arrays."""

    def __init__(self, make_env: MakeEnv, packed: Any, config: AgentConfig, seed: int, episodes: list[EpisodeSoFar]):
        super().__init__(make_env, unpack_model(packed), config, len(episodes), seed, episodes)


def pack_model(model: Model | None) -> Any:
    """Model as plain values and arrays, as it is sent to actors; None for no model."""
    from compile_il.model.files import describe

    if model is None:
        return None
    arrays = named_leaves(eqx.filter(model.skills, eqx.is_array))
    return describe(model), {name: np.asarray(array) for name, array in arrays.items()}


def unpack_model(packed: Any) -> Model | None:
    """Model from the plain values and arrays that `pack_model` made."""
    from compile_il.model.files import build

    if packed is None:
        return None
    description, arrays = packed
    return build(description, arrays, Path("skills sent to an actor"))


def _check_together(config: AgentConfig, env: gymnasium.Env[Any, Any], model: Model | None) -> None:
    """Refuses here what every actor would die of: an agent, skills and an environment that do not go together."""
    if (config.agent == "low-level") != (model is None):
        wanted = "skills: give a model, or" if model is None else "no skills: leave the model out, or"
        raise HierarchyError(f"A {config.agent} agent has {wanted} change agent.")
    if model is not None:
        SkillEnv(env, model, discount=config.discount).reset(seed=0)


def _check(config: AgentConfig, num_actors: int) -> None:
    if num_actors < 1:
        raise HierarchyError(f"num_actors is {num_actors}: use at least 1.")
    if config.num_seeds != 1:
        raise HierarchyError(f"num_seeds is {config.num_seeds}: with actors on Ray one agent learns at a time, use 1.")
    if config.num_environments % num_actors:
        raise HierarchyError(
            f"{config.num_environments} environments cannot be shared out to {num_actors} actors: make "
            f"num_environments a multiple of {math.lcm(num_actors, config.batch_size)}, which batches of "
            f"{config.batch_size} can be made of, too."
        )
