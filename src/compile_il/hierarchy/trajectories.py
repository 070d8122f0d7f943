"""Trajectories of decisions: what an agent learns from, wherever it acted."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from compile_il.hierarchy.agents import Situation
from compile_il.hierarchy.arena import Arena, Decision, Tick


class Outcomes(NamedTuple):
    """Rewards and discounts of N decisions in a row."""

    rewards: Float[Array, " N"]
    discounts: Float[Array, " N"]
    valid: Bool[Array, " N"]
    """Whether the option of each decision has ended; those that have ended come first, the others do not count."""


class Trajectory(NamedTuple):
    """N decisions in a row with outcomes; the value of the situation behind the last valid one stands for the rest."""

    situations: Situation
    """Situations in which the decisions were made, and the one behind the last of them: N + 1."""
    options: Int[Array, " N"]
    log_probs: Float[Array, " N"]
    """Log-probability of each option under the policy that chose it, which may be an older one."""
    outcomes: Outcomes


def collect(before: Decision, ticks: Tick, num_decisions: int) -> tuple[Decision, Outcomes]:
    """Decisions among the ticks of one environment, moved together: N + 1 of them, and N outcomes.

    The first decision is that of the option that ran before the first tick. The n-th option that ends is the outcome of
    decision n and the place of decision n + 1. The last option may still be running: it has no outcome yet, and will be
    the first of the next trajectory. Of more than N decisions the first ones are taken.
    """
    order = jnp.argsort(~ticks.ended, stable=True)[:num_decisions]
    ends = jax.tree.map(lambda leaf: leaf[order], ticks)
    decisions = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), before, ends.decision)
    valid = jnp.arange(num_decisions) < jnp.sum(ticks.ended)
    return decisions, Outcomes(ends.reward, ends.discount, valid)


def trajectory_of(arena: Arena, decisions: Decision, outcomes: Outcomes) -> Trajectory:
    """Trajectory of decisions and their outcomes, with observations made again from levels and states."""
    situations = jax.vmap(arena.situation)(decisions.level_index, decisions.state)
    return Trajectory(situations, decisions.option[:-1], decisions.log_prob[:-1], outcomes)
