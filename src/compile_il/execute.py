"""Skills at work: reconstructing demonstrations step by step, and acting in the world from observations alone.

Appendix "Evaluation details" of the paper: reconstruction, exact match and online evaluation.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from compile_il.demos import Demonstrations
from compile_il.model import Segments
from compile_il.worlds import ActingWorld

_FRAMES_PER_CALL = 8192


@runtime_checkable
class Actor(Protocol):
    """What can be executed: `Skills`, or anything else that acts and says when it is done."""

    def act(self, observation: Shaped[Array, "..."], skill: Array) -> Shaped[Array, "*A"]:
        """The action of a skill."""

    def is_done(
        self,
        observation: Shaped[Array, "..."],
        action: Shaped[Array, "*A"],
        arrived: Shaped[Array, "..."],
        skill: Array,
    ) -> Bool[Array, ""]:
        """Whether a skill stops on arriving."""


class Reconstruction(NamedTuple):
    """How well the found skills repeat the demonstrations' actions, given the true states."""

    accuracy: float
    """Share of steps whose action is repeated."""
    exact_match: float
    """Share of demonstrations all of whose actions are repeated."""


@eqx.filter_jit
def _act_on_frames(skills: Actor, frames: Shaped[Array, "F ..."], codes: Int[Array, " F"]) -> Shaped[Array, "F ..."]:
    return jax.vmap(skills.act)(frames, codes)


def reconstruct(skills: Actor, demos: Demonstrations, found: Segments) -> Reconstruction:
    """Repeats each action with the skill found for its step; for discrete actions."""
    steps = np.concatenate([frames[:-1] for frames in demos.observations])
    codes, actions = np.concatenate(found.labels), np.concatenate(demos.actions)
    right = np.zeros(len(actions), bool)
    for first in range(0, len(actions), _FRAMES_PER_CALL):
        part = slice(first, first + _FRAMES_PER_CALL)
        missing = _FRAMES_PER_CALL - len(actions[part])
        padded = (jnp.asarray(np.concatenate([x[part], np.repeat(x[:1], missing, axis=0)])) for x in (steps, codes))
        right[part] = np.asarray(_act_on_frames(skills, *padded))[: _FRAMES_PER_CALL - missing] == actions[part]
    starts = np.cumsum(demos.lengths) - demos.lengths
    return Reconstruction(float(right.mean()), float(np.logical_and.reduceat(right, starts).mean()))


def run_codes(
    skills: Actor, world: ActingWorld, level: Any, codes: Int[Array, " M"], num_codes: Int[Array, ""]
) -> Bool[Array, ""]:
    """Runs one skill after the other in the world, each until its termination rule says stop; was the list done?

    Nothing but observations reaches the skills.
    """

    def act(carry: tuple[Any, Int[Array, ""], Bool[Array, ""]], _: None) -> tuple[tuple[Any, Any, Any], None]:
        state, index, running = carry
        seen = world.observe(level, state)
        skill = codes[jnp.minimum(index, codes.shape[0] - 1)]
        action = skills.act(seen, skill)
        step = world.step(level, state, action)
        done = skills.is_done(seen, action, world.observe(level, step.state), skill)
        still = running & ~step.terminated & ~step.truncated & (index + done < num_codes)
        state = jax.tree.map(lambda new, old: jnp.where(running, new, old), step.state, state)
        return (state, index + done, still), None

    start = (world.start(level), jnp.array(0), jnp.array(True))
    (state, _, _), _ = jax.lax.scan(act, start, None, length=world.max_steps)
    return state.task_index == world.num_tasks


@eqx.filter_jit
def run_all(
    skills: Actor, world: ActingWorld, levels: Any, codes: Int[Array, "B M"], num_codes: Int[Array, " B"]
) -> Bool[Array, " B"]:
    """`run_codes` on many levels at once."""
    return jax.vmap(lambda level, code, num: run_codes(skills, world, level, code, num))(levels, codes, num_codes)
