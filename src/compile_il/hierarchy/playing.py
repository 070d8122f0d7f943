"""How well an agent does on levels that it has never seen."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from compile_il.hierarchy.agents import Agent, Choice, Situation
from compile_il.hierarchy.arena import Arena, Moment


class Best(eqx.Module):
    """An agent that no longer explores."""

    agent: Agent

    def choose(self, situation: Situation, key: PRNGKeyArray) -> Choice:
        """What it prefers."""
        del key
        return self.agent.choose_best(situation)


class Game(NamedTuple):
    """One episode, from its beginning to its end; of several, stacked."""

    success: Bool[Array, ""]
    """Whether all tasks were done."""
    reward: Float[Array, ""]
    """Not discounted."""
    num_steps: Int[Array, ""]
    """Low-level steps."""
    num_decisions: Int[Array, ""]
    """Options that were called."""
    num_skills: Int[Array, ""]
    """Skills among them."""


def play(arena: Arena, agent: Agent, level_index: Int[Array, ""]) -> Game:
    """One episode on one level, in which the agent does what it thinks best."""
    best = Best(agent)
    # Nothing is drawn but the level on which the next episode would begin.
    key = jax.random.key(0)

    def tick(carry: tuple[Moment, Any], _: None) -> tuple[tuple[Moment, Any], Game]:
        now, over = carry
        after, tick = arena.tick(best, now, key)
        by_skill = now.decision.option >= arena.options.num_actions
        row = Game(
            success=tick.success,
            reward=jnp.where(tick.over, tick.episode_reward, 0.0),
            num_steps=jnp.array(1),
            num_decisions=tick.ended.astype(int),
            num_skills=(tick.ended & by_skill).astype(int),
        )
        counted: Game = jax.tree.map(lambda leaf: jnp.where(over, jnp.zeros_like(leaf), leaf), row)
        return (after, over | tick.over), counted

    start = arena.begin_on(level_index, best, key), jnp.array(False)
    _, rows = jax.lax.scan(tick, start, length=arena.world.max_steps)
    total: Game = jax.tree.map(jnp.sum, rows)
    return total._replace(success=total.success > 0)


@eqx.filter_jit
def play_all(arena: Arena, agent: Agent) -> Game:
    """One episode on each of the arena's levels."""
    return jax.vmap(lambda index: play(arena, agent, index))(jnp.arange(arena.num_levels))
