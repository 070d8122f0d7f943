"""The learner of an agent: parameters, and updates from batches of trajectories, wherever these come from."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.hierarchy.agents import Agent
from compile_il.hierarchy.impala import ImpalaLosses, losses_of
from compile_il.hierarchy.settings import AgentConfig
from compile_il.hierarchy.trajectories import Trajectory
from compile_il.worlds.world import key_of


class Learned(NamedTuple):
    """Parameters of one agent, and the state of their optimiser."""

    params: Any
    optimiser: Any


class Learner:
    """Makes agents and improves them; all functions are pure, of one seed.

    Args:
      config: the settings.
      make: makes an agent, given a `key`.
    """

    def __init__(self, config: AgentConfig, make: Callable[..., Agent]):
        self.config, self._make = config, make
        self.optimiser = optax.adam(learning_rates(config))
        self._static = eqx.filter(eqx.filter_eval_shape(self._make, key=key_of(0)), _is_array, inverse=True)

    def start(self, key: PRNGKeyArray) -> Learned:
        """Parameters of a fresh agent, and the first state of their optimiser."""
        params = eqx.filter(self._make(key=key), eqx.is_inexact_array)
        return Learned(params, self.optimiser.init(params))

    def agent(self, params: Any) -> Agent:
        """Agent with given parameters that acts and learns, in half precision if settings say so."""
        agent: Agent = eqx.combine(params, self._static)
        return agent.in_half_precision() if self.config.half_precision else agent

    def entropy_cost(self, iteration: Int[Array, ""] | int) -> Float[Array, ""]:
        """Weight of the policy's entropy, c_entropy, after a number of iterations."""
        last = self.config.entropy_cost
        first = last if self.config.first_entropy_cost is None else self.config.first_entropy_cost
        way = jnp.clip(2 * jnp.asarray(iteration) / self.config.num_iterations, 0.0, 1.0)
        return first + way * (last - first)

    def update(
        self, learned: Learned, batch: Trajectory, entropy_cost: Float[Array, ""] | float
    ) -> tuple[Learned, ImpalaLosses]:
        """One step of Adam on a batch of trajectories, stacked along the first axis; the losses are means.

            loss = policy + c_baseline * baseline - c_entropy * entropy, each a mean over all valid decisions

        Deviation: IMPALA sums. Adam takes out constant factors, and means do not depend on how long options are.
        """

        def loss(params: Any) -> tuple[Float[Array, ""], ImpalaLosses]:
            losses_of_one = functools.partial(losses_of, self.agent(params), max_change=self.config.max_change)
            each = jax.vmap(losses_of_one)(batch)
            sums: ImpalaLosses = jax.tree.map(jnp.sum, each)
            count = jnp.maximum(sums.num_decisions, 1)
            mean = ImpalaLosses(sums.policy / count, sums.baseline / count, sums.entropy / count, sums.num_decisions)
            costs = self.config.baseline_cost * mean.baseline - entropy_cost * mean.entropy
            return mean.policy + costs, mean

        gradient, losses = jax.grad(loss, has_aux=True)(learned.params)
        updates, optimiser = self.optimiser.update(gradient, learned.optimiser)
        return Learned(optax.apply_updates(learned.params, updates), optimiser), losses


def learning_rates(config: AgentConfig) -> optax.ScalarOrSchedule:
    """Learning rate of Adam: a constant, or a schedule over all updates."""
    if config.final_learning_rate is None:
        return config.learning_rate
    factor = config.final_learning_rate / config.learning_rate
    return optax.exponential_decay(
        config.learning_rate, config.num_updates, factor, end_value=config.final_learning_rate
    )


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
