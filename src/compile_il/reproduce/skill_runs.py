"""One skill at work in the grid world until it says stop (paper, appendix "Qualitative results")."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from compile_il.execute import Actor
from compile_il.worlds.grid import GridLevel, GridState, GridWorld
from compile_il.worlds.world import append, select


class SkillRun(NamedTuple):
    """What one skill did, from the start of a level until it stopped or the episode was over."""

    cells: Int[Array, " times"]
    """Where the player was at each time, row * size + column; it stands still from the end on."""
    num_steps: Int[Array, ""]
    stopped: Bool[Array, ""]
    """Whether the skill said stop; else the episode ended first."""
    taken: Bool[Array, " num_objects"]
    """Which objects were picked up."""


class _Moment(NamedTuple):
    """A run under way."""

    state: GridState
    memory: Any
    running: Bool[Array, ""]
    stopped: Bool[Array, ""]


def run_skill(skills: Actor, world: GridWorld, level: GridLevel, skill: Int[Array, ""]) -> SkillRun:
    """Runs a skill as the paper's agent does: until its termination probability exceeds 0.5, or the episode ends.

    In a world of one pick-up the first object that is taken ends the episode, whichever it is.
    """

    def act(now: _Moment, _: None) -> tuple[_Moment, tuple[Int[Array, ""], Bool[Array, ""]]]:
        action = skills.act(now.memory, skill)
        step = world.step(level, now.state, action)
        memory = skills.arrive(now.memory, action, world.observe(level, step.state))
        stopped = now.running & skills.is_done(memory, skill)
        running = now.running & ~stopped & ~step.terminated & ~step.truncated
        after = _Moment(select(now.running, step.state, now.state), memory, running, now.stopped | stopped)
        return after, (now.state.player, now.running)

    start = world.start(level)
    first = _Moment(start, skills.begin(world.observe(level, start)), jnp.array(True), jnp.array(False))
    last, (cells, running) = jax.lax.scan(act, first, None, length=world.max_steps)
    return SkillRun(append(cells, last.state.player), jnp.sum(running), last.stopped, ~last.state.present)


@eqx.filter_jit
def run_on_levels(skills: Actor, world: GridWorld, levels: Any, skill: Int[Array, ""]) -> SkillRun:
    """`run_skill` on many levels at once."""
    return jax.vmap(lambda level: run_skill(skills, world, level, skill))(levels)
