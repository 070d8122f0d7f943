"""Actors on the CPUs of one or many machines, through Ray, and one learner here.

Each actor acts with the parameters that were the newest when it began; those of the learner have moved on by the time
its trajectories are learned from, and V-trace corrects for that. By how much is for the order of work to say, not for
the machines (`crew.py`): two runs with the same settings are the same, and an actor that dies and is replaced costs
time and changes nothing else, as far as environments depend on nothing but their seeds and machines round alike. The
price is that the learner waits for the slowest actor.

Everything goes through the same learner as on the device, so a run can be stopped and resumed. One that is resumed
begins with fresh environments: it is determined too, but by where it was resumed as well.
"""

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any, NamedTuple, Self

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from compile_il.array_names import named_leaves
from compile_il.hierarchy.arena import TaskWorld
from compile_il.hierarchy.crew import Crew
from compile_il.hierarchy.env_actor import ActingCounts, EnvActor, EpisodeSoFar, MakeEnv, stage_of
from compile_il.hierarchy.impala import ImpalaLosses
from compile_il.hierarchy.learner import Learned, Learner
from compile_il.hierarchy.on_device import Statistics
from compile_il.hierarchy.options import make_options
from compile_il.hierarchy.player import Player
from compile_il.hierarchy.ray_cluster import connect, require_ray
from compile_il.hierarchy.settings import AgentConfig, HierarchyError
from compile_il.hierarchy.skill_env import SkillEnv
from compile_il.hierarchy.trajectories import Trajectory
from compile_il.model import Model
from compile_il.worlds.gym import env_of
from compile_il.worlds.world import key_of


class Progress(NamedTuple):
    """State of training with actors on Ray between two iterations."""

    learned: Learned
    num_steps: Float[Array, ""]
    """Number of low-level steps so far; a float, as JAX's integers end at two thousand million."""


class OnRay:
    """Reinforcement learning with actors elsewhere; has the methods of `OnDevice`.

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
    """Who acts, in words: part of what a resumed run is checked for, as `OnDevice` cannot go on from this state."""

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
    from compile_il.model_files import describe

    if model is None:
        return None
    arrays = named_leaves(eqx.filter(model.skills, eqx.is_array))
    return describe(model), {name: np.asarray(array) for name, array in arrays.items()}


def unpack_model(packed: Any) -> Model | None:
    """Model from the plain values and arrays that `pack_model` made."""
    from compile_il.model_files import build

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
