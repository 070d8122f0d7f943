"""How well an agent does on levels that it has never seen."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from compile_il.hierarchy.agents import Agent, Choice, Situation
from compile_il.hierarchy.arena import Arena, Chooser, Moment


class Greedy(eqx.Module):
    """Agent that no longer explores: it takes its most probable option."""

    agent: Agent

    def choose(self, situation: Situation, key: PRNGKeyArray) -> Choice:
        """Most probable option in a situation; the key is not used."""
        del key
        return self.agent.choose_best(situation)


class Game(NamedTuple):
    """Result of one episode, from its beginning to its end; of several, stacked."""

    success: Bool[Array, ""]
    """Whether all tasks were done."""
    reward: Float[Array, ""]
    """Undiscounted reward of the episode."""
    num_steps: Int[Array, ""]
    """Number of low-level steps in the episode."""
    num_decisions: Int[Array, ""]
    """Number of options that were called in the episode."""
    num_skills: Int[Array, ""]
    """Number of skills among the options that were called."""


def play(arena: Arena, chooser: Chooser, level_index: Int[Array, ""], key: PRNGKeyArray) -> Game:
    """Plays one episode on one level of an arena."""
    keys = jax.random.split(key, arena.world.max_steps + 1)

    def tick(carry: tuple[Moment, Any], key: PRNGKeyArray) -> tuple[tuple[Moment, Any], Game]:
        now, over = carry
        after, tick = arena.tick(chooser, now, key)
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

    start = arena.begin_on(level_index, chooser, keys[0]), jnp.array(False)
    _, rows = jax.lax.scan(tick, start, keys[1:])
    total: Game = jax.tree.map(jnp.sum, rows)
    return total._replace(success=total.success > 0)


@eqx.filter_jit
def play_all(arena: Arena, chooser: Chooser, key: PRNGKeyArray) -> Game:
    """Plays one episode on each level of an arena."""
    keys = jax.random.split(key, arena.num_levels)
    return jax.vmap(functools.partial(play, arena, chooser))(jnp.arange(arena.num_levels), keys)
