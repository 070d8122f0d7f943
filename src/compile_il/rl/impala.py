"""Updates agents with IMPALA's losses on trajectories of decisions.

Espeholt et al., 2018; paper, appendix "Distributed training". Discounts differ from decision to decision, as options
take different numbers of steps.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from compile_il.rl.agent import Agent
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import Trajectory
from compile_il.worlds.world import key_of

MAX_WEIGHT = 1.0
"""Largest importance weight, at which others are cut: ρ̄ = c̄ = 1, as in IMPALA's experiments."""


class Targets(NamedTuple):
    """V-trace of the N decisions of a trajectory: targets of the baseline, v_n, and weighted advantages, A_n."""

    values: Float[Array, " N"]
    advantages: Float[Array, " N"]


class ImpalaLosses(NamedTuple):
    """Loss terms over valid decisions: sums over a trajectory, or means over a batch in `Learner.update`."""

    policy: Float[Array, ""]
    baseline: Float[Array, ""]
    entropy: Float[Array, ""]
    num_decisions: Float[Array, ""]


def vtrace(
    values: Float[Array, " states"],
    rewards: Float[Array, " N"],
    discounts: Float[Array, " N"],
    weights: Float[Array, " N"],
) -> Targets:
    """Calculates V-trace targets and advantages, with a discount Γ_n of its own for each decision.

        ρ_n = min(1, π(o_n | s_n) / μ(o_n | s_n))
        δ_n = ρ_n (R_n + Γ_n V(s_{n+1}) - V(s_n))
        v_n = V(s_n) + δ_n + Γ_n ρ_n (v_{n+1} - V(s_{n+1})),      v_N = V(s_N)
        A_n = ρ_n (R_n + Γ_n v_{n+1} - V(s_n))

    Espeholt et al., equation 1 and section 4.2, with c̄ = ρ̄. Where a weight is 0, nothing that follows counts.
    The last of the values V(s_n) is for what follows the trajectory; Γ_n is 0 where an episode is over.
    """
    weights = jnp.minimum(weights, MAX_WEIGHT)
    errors = weights * (rewards + discounts * values[1:] - values[:-1])

    # v_n - V(s_n) = δ_n + Γ_n ρ_n (v_{n+1} - V(s_{n+1})). A loop over n would launch as many kernels as the networks.
    excess, _ = jax.lax.associative_scan(_compose, (errors, discounts * weights), reverse=True)
    targets = values[:-1] + excess
    following = jnp.append(targets[1:], values[-1])
    return Targets(targets, weights * (rewards + discounts * following - values[:-1]))


def _compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
    """Composes two maps x -> e + k x, given as pairs (e, k): applies the later one first, then the earlier one."""
    return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]


def clip_advantages(
    advantages: Float[Array, " N"], weights: Float[Array, " N"], max_change: float | None
) -> Float[Array, " N"]:
    """Sets advantages to zero that would move a choice's probability further where it has changed enough already.

        A_n, and 0 where A_n < 0 and π/μ < 1 - ε, or A_n > 0 and π/μ > 1 + ε

    The clipping of PPO (Schulman et al., 2017, equation 7), as many updates on the trajectories of one policy can
    reverse its choices; docs/decisions.md, "A choice is not pushed far by the same trajectories".
    `weights` are π / μ, not cut. With `max_change`, ε, of None nothing is clipped, as in IMPALA.
    """
    if max_change is None:
        return advantages
    clipped = jnp.where(advantages < 0, weights < 1 - max_change, weights > 1 + max_change)
    return jnp.where(clipped, 0.0, advantages)


def impala_losses(agent: Agent, trajectory: Trajectory, max_change: float | None = None) -> ImpalaLosses:
    """Sums loss terms over a trajectory's valid decisions; gradients flow through V and π alone.

    policy    -Σ A_n log π(o_n | s_n), where A_n are clipped
    baseline  ½ Σ (v_n - V(s_n))²
    entropy   Σ H[π(· | s_n)]
    """
    outputs = jax.vmap(agent)(trajectory.inputs)
    valid: Bool[Array, " N"] = trajectory.outcomes.valid
    log_probs = jax.nn.log_softmax(outputs.logits[:-1])
    chosen = jnp.sum(log_probs * jax.nn.one_hot(trajectory.options, log_probs.shape[1]), axis=1)
    # A weight of zero cuts a trajectory off: what stands behind its last outcome must not count.
    weights = jnp.where(valid, jnp.exp(jax.lax.stop_gradient(chosen) - trajectory.log_probs), 0.0)
    values = jax.lax.stop_gradient(outputs.value)
    targets = vtrace(values, trajectory.outcomes.rewards, trajectory.outcomes.discounts, weights)
    advantages = clip_advantages(targets.advantages, weights, max_change)
    entropies = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1)
    return ImpalaLosses(
        policy=-jnp.sum(jnp.where(valid, chosen * advantages, 0.0)),
        baseline=0.5 * jnp.sum(jnp.where(valid, (targets.values - outputs.value[:-1]) ** 2, 0.0)),
        entropy=jnp.sum(jnp.where(valid, entropies, 0.0)),
        num_decisions=jnp.sum(valid).astype(jnp.float32),
    )


class LearnerState(NamedTuple):
    """Parameters of one agent, and the state of their optimiser."""

    params: Any
    optimiser: Any


class Learner:
    """Makes agents, of some `Agent.shapes`, and updates them; all functions are pure, of one seed."""

    def __init__(self, config: AgentConfig, shapes: dict[str, Any]):
        self.config, self._make = config, functools.partial(Agent, config, **shapes)
        self.optimiser = optax.adam(learning_rates(config))
        agent = eqx.filter_eval_shape(self._make, key=key_of(0))
        self._static = eqx.filter(agent, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))

    def start(self, key: PRNGKeyArray) -> LearnerState:
        """Returns the parameters of a fresh agent, and the first state of their optimiser."""
        params = eqx.filter(self._make(key=key), eqx.is_inexact_array)
        return LearnerState(params, self.optimiser.init(params))

    def full_agent(self, params: Any) -> Agent:
        """Returns the agent with given parameters, in single precision."""
        agent: Agent = eqx.combine(params, self._static)
        return agent

    def agent(self, params: Any) -> Agent:
        """Returns the agent with given parameters, in half precision if settings ask for it."""
        agent = self.full_agent(params)
        return agent.in_half_precision() if self.config.half_precision else agent

    def entropy_cost(self, iteration: Int[Array, ""] | int) -> Float[Array, ""]:
        """Returns the weight of the policy's entropy, c_entropy, after a number of iterations."""
        last = self.config.entropy_cost
        first = last if self.config.first_entropy_cost is None else self.config.first_entropy_cost
        share = jnp.clip(2 * jnp.asarray(iteration) / self.config.num_iterations, 0.0, 1.0)
        return first + share * (last - first)

    def update(
        self, state: LearnerState, batch: Trajectory, entropy_cost: Float[Array, ""] | float
    ) -> tuple[LearnerState, ImpalaLosses]:
        """Takes a step of Adam on a batch of trajectories, stacked along the first axis; the losses are means.

            loss = policy + c_baseline * baseline - c_entropy * entropy, each a mean over all valid decisions

        Deviation: IMPALA sums. Adam takes out constant factors, and means do not depend on how long options are.
        """

        def loss(params: Any) -> tuple[Float[Array, ""], ImpalaLosses]:
            one = functools.partial(impala_losses, self.agent(params), max_change=self.config.max_change)
            sums: ImpalaLosses = jax.tree.map(jnp.sum, jax.vmap(one)(batch))
            count = jnp.maximum(sums.num_decisions, 1)
            mean = ImpalaLosses(sums.policy / count, sums.baseline / count, sums.entropy / count, sums.num_decisions)
            costs = self.config.baseline_cost * mean.baseline - entropy_cost * mean.entropy
            return mean.policy + costs, mean

        gradient, losses = jax.grad(loss, has_aux=True)(state.params)
        updates, optimiser = self.optimiser.update(gradient, state.optimiser)
        return LearnerState(optax.apply_updates(state.params, updates), optimiser), losses


def learning_rates(config: AgentConfig) -> optax.ScalarOrSchedule:
    """Returns the learning rate of Adam: a constant, or a schedule over all updates."""
    first, last = config.learning_rate, config.final_learning_rate
    num_updates = config.num_iterations * (config.num_environments // config.batch_size)
    return first if last is None else optax.exponential_decay(first, num_updates, last / first, end_value=last)
