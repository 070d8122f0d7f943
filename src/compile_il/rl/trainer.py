"""Acting and learning in one compiled program: thousands of environments, several seeds, nothing sent to the host.

All environments make some ticks with the same parameters; their trajectories are then shared out into batches, and the
agent is updated with one after the other. So the last batch of an iteration was made by parameters that are some
updates old, as in IMPALA's distributed training, and V-trace corrects for it in the same way.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import EnvState, OptionEnv, StepResult, TaskWorld, collect, trajectory_of
from compile_il.rl.impala import ImpalaLosses, Learned, Learner
from compile_il.rl.options import make_options
from compile_il.rl.player import Player, agent_maker, make_arena
from compile_il.training.trainer import map_seeds
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.world import key_of


class AgentsState(NamedTuple):
    """State of training between two iterations; seeds are stacked along the first axis."""

    learned: Learned
    moments: EnvState
    """State of every environment of every seed: seeds x environments."""


class Statistics(NamedTuple):
    """What happened in an iteration, for each seed; all of it can be added up over iterations."""

    num_steps: Int[Array, " seeds"]
    """Number of low-level steps, those inside of skills included."""
    num_decisions: Int[Array, " seeds"]
    """Number of options that ended."""
    num_skills: Int[Array, " seeds"]
    """Number of skills among the options that were chosen."""
    num_episodes: Int[Array, " seeds"]
    """Number of episodes that ended."""
    num_successes: Int[Array, " seeds"]
    """Number of episodes in which all tasks were done."""
    total_reward: Float[Array, " seeds"]
    """Undiscounted reward of all episodes that ended."""
    policy_loss: Float[Array, " seeds"]
    """Loss of the policy, a mean over the iteration's updates."""
    baseline_loss: Float[Array, " seeds"]
    """Loss of the baseline, a mean over the iteration's updates."""
    entropy: Float[Array, " seeds"]
    """Entropy of the policy, a mean over the iteration's updates."""

    @property
    def success_rate(self) -> Float[Array, " seeds"]:
        """Share of the finished episodes in which all tasks were done; not a number where none ended."""
        return self.num_successes / self.num_episodes

    @property
    def mean_reward(self) -> Float[Array, " seeds"]:
        """Mean undiscounted reward of the finished episodes; not a number where none ended."""
        return self.total_reward / self.num_episodes


class AgentTrainer:
    """Reinforcement learning in a JAX world, with acting and learning on one device.

    `start` gives the first state, each `step` the next one and what happened. A step depends on the state, its number
    and the settings only, so training can stop and go on anywhere.

    Args:
      config: the settings.
      world: where the agent acts.
      model: whose skills it can call; None for a low-level agent.
    """

    ACTORS = "actors on the device that learns"
    """Who acts, in words: part of what a resumed run is checked for, as `RayTrainer` cannot go on from this state."""

    def __init__(self, config: AgentConfig, world: TaskWorld, model: Model | None = None):
        self.config, self.world, self.model = config, world, model
        options = make_options(config.agent, world, model)
        if config.half_precision and model is not None:
            options = eqx.tree_at(lambda options: options.skills, options, model.skills.in_half_precision())
        self.learner = Learner(config, agent_maker(config, world, model))
        level_key, self._start_key, self._acting_key = jax.random.split(key_of(config.seed), 3)
        levels = draw_levels(world, level_key, config.num_levels)
        self.arena = make_arena(config, world, options, levels)
        # Levels and skills are handed over rather than compiled in: they are large.
        self._arrays, self._static = eqx.partition(self.arena, eqx.is_array)
        self._start = jax.jit(self._begin_all)
        self._step = jax.jit(self._iterate_all, donate_argnums=0)

    def start(self) -> AgentsState:
        """First state of training: fresh agents, each in environments of its own."""
        return self._start(self._arrays)

    def step(self, state: AgentsState, iteration: int) -> tuple[AgentsState, Statistics]:
        """Acts in all environments of all seeds and makes the updates that follow; the given state is used up."""
        return self._step(state, self._arrays, iteration)

    def num_steps(self, state: AgentsState, iteration: int) -> float:
        """Number of low-level steps of each seed in so many iterations."""
        del state
        return iteration * self.config.num_environments * self.config.num_ticks

    def close(self) -> None:
        """Does nothing, as all is in this process."""

    def players(self, state: AgentsState) -> list[Player]:
        """Agents that the seeds have learned so far, in single precision."""
        full = dataclasses.replace(self.config, half_precision=False)
        learner = Learner(full, agent_maker(full, self.world, self.model))
        seeds = [jax.tree.map(lambda leaf, n=n: leaf[n], state.learned.params) for n in range(self.config.num_seeds)]
        return [Player(learner.agent(params), self.config, self.world, self.model) for params in seeds]

    def _begin_all(self, arrays: Any) -> AgentsState:
        arena = eqx.combine(arrays, self._static)

        def begin(key: PRNGKeyArray) -> AgentsState:
            agent_key, arena_key = jax.random.split(key)
            learned = self.learner.start(agent_key)
            keys = jax.random.split(arena_key, self.config.num_environments)
            return AgentsState(
                learned, jax.vmap(functools.partial(arena.begin, self.learner.agent(learned.params)))(keys)
            )

        return map_seeds(begin, self.config.num_seeds)(jax.random.split(self._start_key, self.config.num_seeds))

    def _iterate_all(
        self, state: AgentsState, arrays: Any, iteration: Int[Array, ""] | int
    ) -> tuple[AgentsState, Statistics]:
        keys = jax.random.split(jax.random.fold_in(self._acting_key, iteration), self.config.num_seeds)
        cost = self.learner.entropy_cost(iteration)
        iterate = functools.partial(self._iterate, eqx.combine(arrays, self._static), cost)
        return map_seeds(iterate, self.config.num_seeds)(state, keys)

    def _iterate(
        self, arena: OptionEnv, entropy_cost: Float[Array, ""], state: AgentsState, key: PRNGKeyArray
    ) -> tuple[AgentsState, Statistics]:
        """Next state and statistics of one seed after one iteration."""
        config = self.config
        keys = jax.random.split(key, (config.num_environments, config.num_ticks))
        unroll = functools.partial(arena.unroll, self.learner.agent(state.learned.params))
        moments, ticks = jax.vmap(unroll)(state.moments, keys)
        gather = functools.partial(collect, num_decisions=config.trajectory_length)
        found = jax.vmap(gather)(state.moments.decision, ticks)
        shape = (config.num_environments // config.batch_size, config.batch_size)
        batches = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)

        def update(learned: Learned, batch: Any) -> tuple[Learned, ImpalaLosses]:
            batch = jax.vmap(functools.partial(trajectory_of, arena))(*batch)
            return self.learner.update(learned, batch, entropy_cost)

        learned, losses = jax.lax.scan(update, state.learned, batches)
        return AgentsState(learned, moments), _statistics(arena, ticks, losses)


def _statistics(arena: OptionEnv, ticks: StepResult, losses: ImpalaLosses) -> Statistics:
    by_skill = ticks.ended & (ticks.decision.option >= arena.options.num_actions)
    return Statistics(
        num_steps=jnp.array(ticks.ended.size),
        num_decisions=jnp.sum(ticks.ended),
        num_skills=jnp.sum(by_skill),
        num_episodes=jnp.sum(ticks.over),
        num_successes=jnp.sum(ticks.success),
        total_reward=jnp.sum(jnp.where(ticks.over, ticks.episode_reward, 0.0)),
        policy_loss=jnp.mean(losses.policy),
        baseline_loss=jnp.mean(losses.baseline),
        entropy=jnp.mean(losses.entropy),
    )
