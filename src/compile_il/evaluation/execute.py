"""Runs skills: along demonstrations step by step, and in a world from observations alone.

Appendix "Evaluation details" of the paper: reconstruction, exact match and online evaluation.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.inference.records import Actor
from compile_il.worlds import ActingWorld
from compile_il.worlds.world import append, select

_DEMOS_PER_CALL = 256


class Reconstruction(NamedTuple):
    """Shares of the actions of demonstrations that skills repeat, given the true states."""

    accuracy: float
    """Share of steps, averaged over demonstrations."""
    exact_match: float
    """Share of demonstrations in which every action is repeated."""


def reconstruct(skills: Actor, demos: Demonstrations, segments: Segments) -> Reconstruction:
    """Repeats each discrete action with the skill of its segment, and compares."""
    shares = list[np.ndarray]()
    for first in range(0, len(demos), _DEMOS_PER_CALL):
        rows = slice(first, first + _DEMOS_PER_CALL)
        part = demos[rows].padded(demos.max_length)
        codes = np.stack([repeat_first(labels, demos.max_length) for labels in segments.labels[rows]])
        starts = np.zeros(codes.shape[:2], bool)
        for row, boundaries in zip(starts, segments.boundaries[rows], strict=True):
            row[boundaries] = True
        # Short parts repeat a demonstration, so that every call has the same shape and compiles once.
        arrays = (repeat_first(a, _DEMOS_PER_CALL) for a in (part.observations, part.actions, codes, starts))
        repeated = np.asarray(_repeat(skills, *map(jnp.asarray, arrays)))[: len(codes)]
        shares.append(((repeated == part.actions) & part.valid).sum(axis=1) / part.valid.sum(axis=1))
    by_demo = np.concatenate(shares)
    return Reconstruction(float(by_demo.mean()), float((by_demo == 1).mean()))


def repeat_first(rows: np.ndarray, num_rows: int) -> np.ndarray:
    """Extends an array to `num_rows` rows by copies of its first one."""
    return np.concatenate([rows, np.repeat(rows[:1], num_rows - len(rows), axis=0)])


@eqx.filter_jit
def _repeat(
    skills: Actor,
    frames: Shaped[Array, "B times ..."],
    actions: Shaped[Array, "B T ..."],
    codes: Shaped[Array, "B T ..."],
    starts: Bool[Array, "B T"],
) -> Shaped[Array, "B T ..."]:
    """Returns what skills would do at each step of demonstrations, whose real actions lead from step to step."""

    def repeat_one(frames: Array, actions: Array, codes: Array, starts: Array) -> Array:
        def step(memory: Any, given: tuple[Array, Array, Array, Array, Array]) -> tuple[Any, Array]:
            frame, action, code, starts, next_frame = given
            memory = select(starts, skills.switch_skill(memory, frame), memory)
            return skills.observe(memory, action, next_frame), skills.act(memory, code)

        return jax.lax.scan(step, skills.init(frames[0]), (frames[:-1], actions, codes, starts, frames[1:]))[1]

    return jax.vmap(repeat_one)(frames, actions, codes, starts)


class Execution(NamedTuple):
    """States of one episode, which stand still once all skills have stopped or it is over, and how many did."""

    states: Any
    num_steps: Int[Array, ""]
    num_done: Int[Array, ""]


class _RunState(NamedTuple):
    state: Any
    memory: Any
    num_done: Int[Array, ""]
    running: Bool[Array, ""]


def run_codes(
    skills: Actor, world: ActingWorld, level: Any, codes: Shaped[Array, "M ..."], num_codes: Int[Array, ""]
) -> Execution:
    """Runs one skill after the other in the world, each until it is done, on nothing but observations."""

    def act(now: _RunState, _: None) -> tuple[_RunState, tuple[Any, Bool[Array, ""]]]:
        skill = codes[jnp.minimum(now.num_done, codes.shape[0] - 1)]
        action = skills.act(now.memory, skill)
        step = world.step(level, now.state, action)
        observation = world.observe(level, step.state)
        memory = skills.observe(now.memory, action, observation)
        done = now.running & skills.done(memory, skill)
        num_done = now.num_done + done
        after = _RunState(
            state=select(now.running, step.state, now.state),
            memory=select(done, skills.switch_skill(memory, observation), memory),
            num_done=num_done,
            running=now.running & ~step.terminated & ~step.truncated & (num_done < num_codes),
        )
        return after, (now.state, now.running)

    start = world.start(level)
    first = _RunState(start, skills.init(world.observe(level, start)), jnp.array(0), jnp.array(True))
    last, (states, running) = jax.lax.scan(act, first, None, length=world.max_steps)
    return Execution(append(states, last.state), jnp.sum(running), last.num_done)


@eqx.filter_jit
def run_all(
    skills: Actor, world: ActingWorld, levels: Any, codes: Shaped[Array, "B M ..."], num_codes: Int[Array, " B"]
) -> Bool[Array, " B"]:
    """Returns whether all tasks are done on each of many levels, where `run_codes` runs the codes."""
    run = jax.vmap(lambda *given: run_codes(skills, world, *given).states.task_index[-1] == world.num_tasks)
    return run(levels, codes, num_codes)
