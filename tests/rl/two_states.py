"""A world of two states whose optimal values are known, and a skill for it.

    state 0: action 0 stays, for a reward of 0.1; action 1 goes to state 1, for nothing
    state 1: action 0 goes back to state 0, for a reward of 1; action 1 stays, for nothing

The best one can do is to go round: V(0) = γ / (1 - γ²), V(1) = 1 / (1 - γ²), where nothing ends.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from compile_il.config import Config
from compile_il.data.spaces import Space
from compile_il.model.model import Model
from compile_il.worlds.world import Step


class Level(NamedTuple):
    tasks: Array


class State(NamedTuple):
    place: Array
    task_index: Array
    num_steps: Array


@dataclasses.dataclass(frozen=True)
class TwoStates:
    num_tasks: int = 1
    num_actions: int = 2
    num_types: int = 1
    max_steps: int = 10**9
    reward: str = "dense"

    def level(self, key: Array) -> Level:
        del key
        return Level(jnp.zeros(self.num_tasks, jnp.int32))

    def start(self, level: Level) -> State:
        del level
        return State(jnp.array(0), jnp.array(0), jnp.array(0))

    def step(self, level: Level, state: State, action: Array) -> Step:
        del level
        place = jnp.where(action == 0, 0, 1)
        reward = jnp.where(action == 0, jnp.where(state.place == 0, 0.1, 1.0), 0.0)
        num_steps = state.num_steps + 1
        return Step(State(place, state.task_index, num_steps), reward, jnp.array(False), num_steps >= self.max_steps)

    def observe(self, level: Level, state: State) -> Array:
        del level
        return (jnp.arange(2) == state.place).astype(jnp.float32)


class RoundTrip(eqx.Module):
    """One skill: to state 1 and back, where it stops; it remembers where it is."""

    num_skills: int = 1
    space: Space = Space("vector", (2,), 0, 2, 0)

    def init(self, observation: Array) -> Array:
        return observation

    def switch_skill(self, now: Array, observation: Array) -> Array:
        return observation

    def act(self, now: Array, skill: Array) -> Array:
        return jnp.where(now[0] > 0, 1, 0)

    def observe(self, now: Array, action: Array, observation: Array) -> Array:
        return observation

    def done(self, now: Array, skill: Array) -> Array:
        return now[0] > 0


MODEL = Model(RoundTrip(), Config(num_skills=1), Config(num_skills=1).resolved(), 2.0)
