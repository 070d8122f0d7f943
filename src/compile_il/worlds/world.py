"""Defines the interface of worlds, as pure functions of one episode, and the loop in which experts act.

A world is a frozen dataclass of options; its methods are pure JAX functions of ONE episode, so `jax.jit` can take the
world as a static argument and `jax.vmap` makes a batch. A *level* is what stays fixed (walls, targets, the task
list), a *state* what changes. States are small; observations are made from them only where they are needed.
"""

import dataclasses
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray, Shaped

from compile_il.config import MAX_SEED, CompileError

Reward = Literal["dense", "sparse"]

KEY_KIND = "threefry2x32"
"""Random generator of all keys, rather than JAX's global default, so that a seed means the same everywhere."""


def key_of(seed: int | Integer[Array, ""]) -> PRNGKeyArray:
    """Makes the random key of a seed, independently of JAX's default generator; checks plain numbers."""
    if not isinstance(seed, jax.Array):
        check_whole("seed", seed)
        check(0 <= seed <= MAX_SEED, f"seed is {seed}", f"use a number from 0 to {MAX_SEED}")
    return jax.random.key(seed, impl=KEY_KIND)


class WorldError(CompileError):
    """Options of a world that cannot work; the message says what to change."""


class Step(NamedTuple):
    """Result of one action: the next state, the reward, and whether the episode is over."""

    state: Any
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Episode(NamedTuple):
    """One demonstration without observations, padded to T steps, of which the first `length` are real."""

    level: Any
    states: Any
    """T + 1 states: `states[t]` is where action t was taken, `states[length]` where the episode ended."""
    actions: Shaped[Array, " T *action"]
    segment_index: Int[Array, " T"]
    """Index in the task list of the task that step t worked on."""
    length: Int[Array, ""]
    success: Bool[Array, ""]


@runtime_checkable
class World(Protocol):
    """Interface of every world; `tasks` of a level holds the codes of the true segments."""

    @property
    def num_tasks(self) -> int:
        """Number of tasks in a task list."""

    @property
    def num_actions(self) -> int | None:
        """Number of discrete actions, or None where actions are continuous."""

    def episode(self, key: PRNGKeyArray) -> Episode:
        """Draws a random level and its expert demonstration."""

    def observe(self, level: Any, state: Any) -> Shaped[Array, "..."]:
        """Returns the observation of a state."""


@runtime_checkable
class ActingWorld(World, Protocol):
    """Interface of a world that can be acted in and has an expert."""

    @property
    def max_steps(self) -> int:
        """Actions after which an episode is cut."""

    @property
    def reward(self) -> Reward:
        """Whether each task done earns a reward of 1 ("dense"), or only the last one ("sparse")."""

    def level(self, key: PRNGKeyArray) -> Any:
        """Draws a random level that can be solved."""

    def start(self, level: Any) -> Any:
        """Returns the state in which an episode on a level begins."""

    def step(self, level: Any, state: Any, action: Shaped[Array, "*action"]) -> Step:
        """Takes one action in a state; after the end of an episode the result has no meaning."""

    def plan(self, level: Any) -> Any:
        """Computes the expert's plan for a level, once per episode."""

    def expert(self, level: Any, plan: Any, state: Any) -> Shaped[Array, "*action"]:
        """Returns the expert's action in a state on its own path, given its plan."""


Tree = TypeVar("Tree")


def select(condition: Bool[Array, ""], on_true: Tree, on_false: Tree) -> Tree:
    """Applies `jnp.where` to all leaves of two trees of equal structure."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def append(steps: Tree, last: Tree) -> Tree:
    """Adds one more step to the end of a tree of arrays with a leading time axis."""
    return jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), steps, last)


def expert_episode(world: ActingWorld, key: PRNGKeyArray) -> Episode:
    """Draws a level and lets the expert act until the episode ends, after which the state no longer changes."""
    level = world.level(key)
    plan = world.plan(level)

    def act(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
        state, running = carry
        action = world.expert(level, plan, state)
        step = world.step(level, state, action)
        still_running = running & ~step.terminated & ~step.truncated
        return (select(running, step.state, state), still_running), (state, action, running)

    start = (world.start(level), jnp.array(True))
    (last, _), (states, actions, running) = jax.lax.scan(act, start, None, length=world.max_steps)
    return Episode(
        level=level,
        states=append(states, last),
        actions=actions,
        segment_index=states.task_index,
        length=jnp.sum(running),
        success=last.task_index == world.num_tasks,
    )


def task_reward(reward: Reward, done: Bool[Array, ""], finished: Bool[Array, ""]) -> Float[Array, ""]:
    """Returns 1 for each task done (dense) or once all are done (sparse; paper, "Hierarchical RL")."""
    return (done if reward == "dense" else finished).astype(jnp.float32)


def check(condition: bool, problem: str, remedy: str) -> None:
    """Raises a `WorldError` that says what is wrong and what to do, unless the condition holds."""
    if not condition:
        raise WorldError(f"{problem}: {remedy}.")


def check_whole(name: str, value: Any) -> None:
    """Refuses a value that is no whole number, such as 2.5, "3" or True."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(whole, f"{name} is {value!r}", "use a whole number")


def check_options(world: Any) -> None:
    """Refuses options of the wrong type or range, as far as all worlds share them."""
    for field in dataclasses.fields(world):
        name, value = field.name, getattr(world, field.name)
        if field.type is int:
            check_whole(name, value)
        if field.type is float:
            check(isinstance(value, Real), f"{name} is {value!r}", "use a number")
        if name in ("num_tasks", "max_steps"):
            check(value >= 1, f"{name} is {value}", "use at least 1")
        if name == "reward":
            check(value in ("dense", "sparse"), f"reward is {value!r}", "use 'dense' or 'sparse'")
