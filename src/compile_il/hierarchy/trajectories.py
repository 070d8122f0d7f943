"""Trajectories of decisions: what an agent learns from, wherever it acted."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from compile_il.hierarchy.agents import Situation
from compile_il.hierarchy.arena import Arena, Decision, Tick


class Outcomes(NamedTuple):
    """What came of N decisions in a row."""

    rewards: Float[Array, " N"]
    discounts: Float[Array, " N"]
    valid: Bool[Array, " N"]
    """Which of them have come to their end; all that have, come first."""


class Trajectory(NamedTuple):
    """Decisions in a row, with what came of all but the last valid one; the next one's value stands for the rest."""

    situations: Situation
    """Where they were made: N + 1."""
    options: Int[Array, " N"]
    log_probs: Float[Array, " N"]
    """Under the policy that chose, which may be an older one."""
    outcomes: Outcomes


def collect(before: Decision, ticks: Tick, num_decisions: int) -> tuple[Decision, Outcomes]:
    """The decisions among the ticks of one environment, moved together: N + 1 of them and N outcomes.

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
    """A trajectory with all that was seen, drawn again from levels and states."""
    situations = jax.vmap(arena.situation)(decisions.level_index, decisions.state)
    return Trajectory(situations, decisions.option[:-1], decisions.log_prob[:-1], outcomes)
