"""The learner: parameters, and one update from a batch of trajectories. It does not know where they come from."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from compile_il.hierarchy.agents import Agent
from compile_il.hierarchy.impala import Losses, losses_of
from compile_il.hierarchy.settings import AgentConfig
from compile_il.hierarchy.trajectories import Trajectory


class Learned(NamedTuple):
    """Parameters and optimiser of one agent."""

    params: Any
    optimiser: Any


class Learner:
    """Makes agents and improves them; all functions are pure, of one seed.

    Args:
      config: the settings.
      observation_shape: of what agents see.
      num_types: types of objects in tasks.
      num_told: tasks that an agent is told of.
      num_options: what it chooses among.
    """

    def __init__(
        self,
        config: AgentConfig,
        *,
        observation_shape: tuple[int, ...],
        num_types: int,
        num_told: int,
        num_options: int,
    ):
        self.config = config
        self._make = functools.partial(
            Agent,
            config,
            observation_shape=observation_shape,
            num_types=num_types,
            num_told=num_told,
            num_options=num_options,
        )
        self.optimiser = optax.adam(config.learning_rate)
        self._static = eqx.filter(eqx.filter_eval_shape(self._make, key=jax.random.key(0)), _is_array, inverse=True)

    def start(self, key: PRNGKeyArray) -> Learned:
        """A fresh agent."""
        params = eqx.filter(self._make(key=key), eqx.is_inexact_array)
        return Learned(params, self.optimiser.init(params))

    def agent(self, params: Any) -> Agent:
        """The agent that acts and learns with these parameters."""
        agent: Agent = eqx.combine(params, self._static)
        return agent.in_half_precision() if self.config.half_precision else agent

    def update(self, learned: Learned, batch: Trajectory) -> tuple[Learned, Losses]:
        """One step of Adam on a batch of trajectories, stacked along the first axis; the losses are means.

            loss = policy + c_baseline * baseline - c_entropy * entropy, each a mean over all valid decisions

        Deviation: IMPALA sums. Adam takes out constant factors, and means do not depend on how long options are.
        """

        def loss(params: Any) -> tuple[Float[Array, ""], Losses]:
            each = jax.vmap(functools.partial(losses_of, self.agent(params)))(batch)
            sums: Losses = jax.tree.map(jnp.sum, each)
            count = jnp.maximum(sums.num_decisions, 1)
            mean = Losses(sums.policy / count, sums.baseline / count, sums.entropy / count, sums.num_decisions)
            costs = self.config.baseline_cost * mean.baseline - self.config.entropy_cost * mean.entropy
            return mean.policy + costs, mean

        gradient, losses = jax.grad(loss, has_aux=True)(learned.params)
        updates, optimiser = self.optimiser.update(gradient, learned.optimiser)
        return Learned(optax.apply_updates(learned.params, updates), optimiser), losses


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)
