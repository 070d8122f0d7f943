"""Acts and learns in one compiled program, with thousands of environments and several seeds.

All environments take some steps with the same parameters; the agent is then updated with one batch of trajectories
after the other. So the last batch of an iteration comes from parameters that are some updates old, as in IMPALA's
distributed training, and V-trace corrects for it in the same way.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import EnvState, OptionEnv, TaskWorld, collect, make_trajectory
from compile_il.rl.impala import ImpalaLosses, Learner, LearnerState
from compile_il.rl.options import make_options, observation_of
from compile_il.rl.player import Player
from compile_il.training.trainer import map_seeds
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.world import key_of


class TrainerState(NamedTuple):
    """State of training between two iterations; seeds are stacked along the first axis."""

    learner: LearnerState
    envs: EnvState
    """State of every environment of every seed: seeds x environments."""


class Statistics(NamedTuple):
    """Statistics of an iteration, for each seed, which add up over iterations."""

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
    """Loss of the policy, a mean over the iteration's updates, as are the baseline's and the entropy."""
    baseline_loss: Float[Array, " seeds"]
    entropy: Float[Array, " seeds"]


class AgentTrainer:
    """Trains agents in a JAX world, with acting and learning on one device.

    A step depends only on the state, its number and the settings, so training can stop and go on anywhere.
    """

    ACTORS = "actors on the device that learns"
    """Part of the data of a run, as `RayTrainer` cannot go on from this state."""

    def __init__(self, config: AgentConfig, world: TaskWorld, model: Model | None = None):
        self.config, self.world, self.model = config, world, model
        options = make_options(config.agent, world, model)
        if config.half_precision and model is not None:
            options = eqx.tree_at(lambda options: options.skills, options, model.skills.in_half_precision())
        shapes = {
            "observation_shape": observation_of(world).shape,
            "num_types": world.num_types,
            "num_input_tasks": config.num_input_tasks(world.num_tasks),
            "num_options": options.num_options,
        }
        self.learner = Learner(config, shapes)
        level_key, self._start_key, self._acting_key = jax.random.split(key_of(config.seed), 3)
        self.env = OptionEnv(options, draw_levels(world, level_key, config.num_levels), world, config)
        # Levels and skills are arguments of the compiled functions rather than constants in them: they are large.
        self._arrays, self._static = eqx.partition(self.env, eqx.is_array)
        self._start = jax.jit(self._start_all)
        self._step = jax.jit(self._step_all, donate_argnums=0)

    def start(self) -> TrainerState:
        """Returns the first state of training: fresh agents, each in environments of its own."""
        return self._start(self._arrays)

    def step(self, state: TrainerState, iteration: int) -> tuple[TrainerState, Statistics]:
        """Acts in all environments of all seeds and makes the updates that follow; the given state is used up."""
        return self._step(state, self._arrays, iteration)

    def players(self, state: TrainerState) -> list[Player]:
        """Returns the agents of all seeds as they are now, in single precision."""
        seeds = [jax.tree.map(lambda leaf, n=n: leaf[n], state.learner.params) for n in range(self.config.num_seeds)]
        return [Player(self.learner.full_agent(params), self.config, self.world, self.model) for params in seeds]

    def _start_all(self, arrays: Any) -> TrainerState:
        env = eqx.combine(arrays, self._static)

        def start(key: PRNGKeyArray) -> TrainerState:
            agent_key, env_key = jax.random.split(key)
            learner = self.learner.start(agent_key)
            keys = jax.random.split(env_key, self.config.num_environments)
            start_env = functools.partial(env.start, self.learner.agent(learner.params))
            return TrainerState(learner, jax.vmap(start_env)(keys))

        return map_seeds(start, self.config.num_seeds)(jax.random.split(self._start_key, self.config.num_seeds))

    def _step_all(
        self, state: TrainerState, arrays: Any, iteration: Int[Array, ""] | int
    ) -> tuple[TrainerState, Statistics]:
        keys = jax.random.split(jax.random.fold_in(self._acting_key, iteration), self.config.num_seeds)
        env, cost = eqx.combine(arrays, self._static), self.learner.entropy_cost(iteration)
        step = functools.partial(self._step_seed, env, cost)
        return map_seeds(step, self.config.num_seeds)(state, keys)

    def _step_seed(
        self, env: OptionEnv, entropy_cost: Float[Array, ""], state: TrainerState, key: PRNGKeyArray
    ) -> tuple[TrainerState, Statistics]:
        """Returns the next state and statistics of one seed after one iteration."""
        config = self.config
        keys = jax.random.split(key, (config.num_environments, config.num_ticks))
        unroll = functools.partial(env.unroll, self.learner.agent(state.learner.params))
        envs, steps = jax.vmap(unroll)(state.envs, keys)
        collect_all = jax.vmap(functools.partial(collect, num_decisions=config.trajectory_length))
        shape = (config.num_environments // config.batch_size, config.batch_size)
        batches = jax.tree.map(
            lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), collect_all(state.envs.decision, steps)
        )

        def update(learner: LearnerState, batch: Any) -> tuple[LearnerState, ImpalaLosses]:
            batch = jax.vmap(functools.partial(make_trajectory, env))(*batch)
            return self.learner.update(learner, batch, entropy_cost)

        learner, losses = jax.lax.scan(update, state.learner, batches)
        by_skill = steps.ended & (steps.decision.option >= env.options.num_actions)
        return TrainerState(learner, envs), Statistics(
            num_steps=jnp.array(steps.ended.size),
            num_decisions=jnp.sum(steps.ended),
            num_skills=jnp.sum(by_skill),
            num_episodes=jnp.sum(steps.over),
            num_successes=jnp.sum(steps.success),
            total_reward=jnp.sum(jnp.where(steps.over, steps.episode_reward, 0.0)),
            policy_loss=jnp.mean(losses.policy),
            baseline_loss=jnp.mean(losses.baseline),
            entropy=jnp.mean(losses.entropy),
        )
