"""One skill at work in the grid world until it says stop (paper, appendix "Qualitative results")."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from compile_il.execute import Actor, run_codes
from compile_il.worlds.grid import GridLevel, GridWorld


class SkillRun(NamedTuple):
    """What one skill did, from the start of a level until it stopped or the episode was over."""

    cells: Int[Array, " times"]
    """Cell of the player at each time, row * size + column; it stands still from the end on."""
    num_steps: Int[Array, ""]
    stopped: Bool[Array, ""]
    """Whether the skill said stop; else the episode ended first."""
    taken: Bool[Array, " num_objects"]
    """Which objects were picked up."""


def run_skill(skills: Actor, world: GridWorld, level: GridLevel, skill: Int[Array, ""]) -> SkillRun:
    """Runs a skill as the paper's agent does: until its termination probability exceeds 0.5, or the episode ends.

    In a world of one pick-up the first object that is taken ends the episode, whichever it is.
    """
    run = run_codes(skills, world, level, skill[None], jnp.array(1))
    return SkillRun(run.states.player, run.num_steps, run.num_done == 1, ~run.states.present[-1])


@eqx.filter_jit
def run_on_levels(skills: Actor, world: GridWorld, levels: Any, skill: Int[Array, ""]) -> SkillRun:
    """Runs one skill on many levels at once, by `run_skill`."""
    return jax.vmap(lambda level: run_skill(skills, world, level, skill))(levels)
