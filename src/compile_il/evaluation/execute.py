"""Skills at work: reconstructing demonstrations step by step, and acting in the world from observations alone.

Appendix "Evaluation details" of the paper: reconstruction, exact match and online evaluation.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.worlds import ActingWorld
from compile_il.worlds.world import append, select

_DEMOS_PER_CALL = 256


@runtime_checkable
class Actor(Protocol):
    """What can be executed: skills of either engine, or anything else that acts and says when it is done.

    What it remembers of a skill that runs is its own affair: it is made where a skill begins, and made anew on each
    arrival.
    """

    def init(self, observation: Shaped[Array, "..."]) -> Any:
        """What is remembered where the first skill begins."""

    def switch_skill(self, now: Any, observation: Shaped[Array, "..."]) -> Any:
        """What is remembered where one skill has ended and the next begins."""

    def act(self, now: Any, skill: Array) -> Shaped[Array, "*A"]:
        """The action of a skill."""

    def observe(self, now: Any, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> Any:
        """What is remembered after an action has led to an observation."""

    def done(self, now: Any, skill: Array) -> Bool[Array, ""]:
        """Whether a skill stops here."""


class Reconstruction(NamedTuple):
    """How well the found skills repeat the demonstrations' actions, given the true states."""

    accuracy: float
    """Share of steps whose action is repeated."""
    exact_match: float
    """Share of demonstrations all of whose actions are repeated."""


@eqx.filter_jit
def _repeat(
    skills: Actor,
    frames: Shaped[Array, "B times ..."],
    actions: Shaped[Array, "B T ..."],
    codes: Shaped[Array, "B T ..."],
    starts: Bool[Array, "B T"],
) -> Shaped[Array, "B T ..."]:
    """What skills would do at each step of demonstrations, whose real actions lead from each step to the next."""

    def one(frames: Array, actions: Array, codes: Array, starts: Array) -> Array:
        def step(now: Any, moment: tuple[Array, Array, Array, Array, Array]) -> tuple[Any, Array]:
            before, action, code, starts, after = moment
            now = select(starts, skills.switch_skill(now, before), now)
            return skills.observe(now, action, after), skills.act(now, code)

        return jax.lax.scan(step, skills.init(frames[0]), (frames[:-1], actions, codes, starts, frames[1:]))[1]

    return jax.vmap(one)(frames, actions, codes, starts)


def reconstruct(skills: Actor, demos: Demonstrations, found: Segments) -> Reconstruction:
    """Repeats each action with the skill found for its step, and scores that; for discrete actions."""
    shares = list[np.ndarray]()
    for first in range(0, len(demos), _DEMOS_PER_CALL):
        part = demos[first : first + _DEMOS_PER_CALL]
        padded = part.padded(demos.max_length)
        labels = found.labels[first : first + _DEMOS_PER_CALL]
        codes = np.stack(
            [np.concatenate([row, np.repeat(row[:1], demos.max_length - len(row), axis=0)]) for row in labels]
        )
        starts = np.zeros(codes.shape[:2], bool)
        for row, boundaries in zip(starts, found.boundaries[first : first + _DEMOS_PER_CALL], strict=True):
            row[boundaries] = True
        missing = _DEMOS_PER_CALL - len(part)
        given = (padded.observations, padded.actions, codes, starts)
        again = _repeat(skills, *(jnp.asarray(np.concatenate([x, np.repeat(x[:1], missing, axis=0)])) for x in given))
        right = (np.asarray(again)[: len(part)] == padded.actions) & padded.valid
        shares.append(right.sum(axis=1) / part.lengths)
    by_demo = np.concatenate(shares)
    return Reconstruction(float(by_demo.mean()), float((by_demo == 1).mean()))


class Execution(NamedTuple):
    """What a list of skills did in one episode."""

    states: Any
    """The world's state at each time; it stands still once the list is done or the episode is over."""
    num_steps: Int[Array, ""]
    num_done: Int[Array, ""]
    """Number of skills that said stop; fewer than there are in the list if the episode ended first."""


class _Moment(NamedTuple):
    """The state of an execution under way."""

    state: Any
    memory: Any
    num_done: Int[Array, ""]
    running: Bool[Array, ""]


def run_codes(
    skills: Actor, world: ActingWorld, level: Any, codes: Shaped[Array, "M ..."], num_codes: Int[Array, ""]
) -> Execution:
    """Runs one skill after the other in the world, each until its termination rule says stop.

    Nothing but observations reaches the skills.
    """

    def act(now: _Moment, _: None) -> tuple[_Moment, tuple[Any, Bool[Array, ""]]]:
        skill = codes[jnp.minimum(now.num_done, codes.shape[0] - 1)]
        action = skills.act(now.memory, skill)
        step = world.step(level, now.state, action)
        seen = world.observe(level, step.state)
        memory = skills.observe(now.memory, action, seen)
        done = now.running & skills.done(memory, skill)
        num_done = now.num_done + done
        after = _Moment(
            state=select(now.running, step.state, now.state),
            memory=select(done, skills.switch_skill(memory, seen), memory),
            num_done=num_done,
            running=now.running & ~step.terminated & ~step.truncated & (num_done < num_codes),
        )
        return after, (now.state, now.running)

    start = world.start(level)
    first = _Moment(start, skills.init(world.observe(level, start)), jnp.array(0), jnp.array(True))
    last, (states, running) = jax.lax.scan(act, first, None, length=world.max_steps)
    return Execution(append(states, last.state), jnp.sum(running), last.num_done)


@eqx.filter_jit
def run_all(
    skills: Actor, world: ActingWorld, levels: Any, codes: Shaped[Array, "B M ..."], num_codes: Int[Array, " B"]
) -> Bool[Array, " B"]:
    """Whether all tasks were done on each of many levels, where `run_codes` ran the codes."""

    def one(level: Any, codes: Shaped[Array, "M ..."], num_codes: Int[Array, ""]) -> Bool[Array, ""]:
        return run_codes(skills, world, level, codes, num_codes).states.task_index[-1] == world.num_tasks

    return jax.vmap(one)(levels, codes, num_codes)
