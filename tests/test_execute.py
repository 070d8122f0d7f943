"""Skills at work, with skills written by hand in a world that is a line."""

import dataclasses
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

from compile_il import execute
from compile_il.demos import Demonstrations
from compile_il.model import Segments
from compile_il.worlds import Episode, Step


class State(NamedTuple):
    position: Array
    task_index: Array


@dataclasses.dataclass(frozen=True)
class Line:
    """Walk to one place after another. A level is the list of places; action 1 goes right, 0 left."""

    num_tasks: int = 2
    max_steps: int = 6
    num_actions: int = 2
    reward: Literal["dense", "sparse"] = "dense"

    def level(self, key: PRNGKeyArray) -> Any:
        raise NotImplementedError

    def episode(self, key: PRNGKeyArray) -> Episode:
        raise NotImplementedError

    def plan(self, level: Any) -> Any:
        raise NotImplementedError

    def expert(self, level: Any, plan: Any, state: Any) -> Array:
        raise NotImplementedError

    def start(self, level: Array) -> State:
        return State(jnp.array(0), jnp.array(0))

    def observe(self, level: Array, state: State) -> Array:
        return state.position.astype(jnp.float32)[None]

    def step(self, level: Array, state: State, action: Array) -> Step:
        position = state.position + 2 * action - 1
        task_index = state.task_index + (position == level[state.task_index])
        state = State(position, task_index)
        return Step(state, jnp.array(0.0), task_index == self.num_tasks, jnp.array(False))


class ByHand(eqx.Module):
    """Skill 0 goes right, skill 1 left; both stop at even places."""

    def begin(self, observation: Array) -> Array:
        return observation

    def follow(self, now: Array, observation: Array) -> Array:
        return observation

    def act(self, now: Array, skill: Array) -> Array:
        return (skill == 0).astype(jnp.int32)

    def arrive(self, now: Array, action: Array, observation: Array) -> Array:
        return observation

    def is_done(self, now: Array, skill: Array) -> Array:
        return now[0] % 2 == 0


@pytest.mark.parametrize(
    ("places", "codes", "num_codes", "solved"),
    [
        ([2, 0], [0, 1], 2, True),
        ([2, 0], [0, 0], 2, False),
        ([2, 0], [1, 0], 2, False),
        ([2, 4], [0, 0], 2, True),
        ([2, 4], [0, 0], 1, False),  # nothing acts once the list is done, though going on would have helped
        ([1, 2], [0, 1], 1, True),  # one skill may do two tasks
    ],
)
def test_skills_run_one_after_the_other(places: list[int], codes: list[int], num_codes: int, solved: bool) -> None:
    done = execute.run_codes(ByHand(), Line(), jnp.array(places), jnp.array(codes), jnp.array(num_codes))
    assert bool(done) == solved


def test_time_runs_out() -> None:
    levels, codes = jnp.array([[2, 4], [2, 1]]), jnp.array([[0, 0], [0, 1]])
    solved = execute.run_all(ByHand(), Line(max_steps=3), levels, codes, jnp.array([2, 2]))
    assert solved.tolist() == [False, True]


@pytest.mark.parametrize("demos_per_call", [1, 256])
def test_reconstruction(demos_per_call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_DEMOS_PER_CALL", demos_per_call)
    actions = [np.array([1, 1, 0]), np.array([1, 0, 0, 1])]
    demos = Demonstrations.from_arrays([np.zeros((4, 1)), np.zeros((5, 1))], actions)
    found = Segments(
        boundaries=[np.array([2], np.int32), np.array([1], np.int32)],
        skills=[np.array([0, 1], np.int32), np.array([0, 1], np.int32)],
        boundary_probs=[np.zeros(3, np.float32), np.zeros(4, np.float32)],
        count_probs=[np.zeros(3, np.float32)] * 2,
        log_likelihood=np.zeros(2, np.float32),
    )
    assert [labels.tolist() for labels in found.labels] == [[0, 0, 1], [0, 1, 1, 1]]
    assert execute.reconstruct(ByHand(), demos, found) == (pytest.approx((1 + 3 / 4) / 2), 1 / 2)


def test_a_batch_is_its_levels() -> None:
    levels, codes = jnp.array([[2, 0], [2, 0], [2, 4]]), jnp.array([[0, 1], [1, 0], [0, 0]])
    num_codes = jnp.array([2, 2, 2])
    each = [bool(execute.run_codes(ByHand(), Line(), *row)) for row in zip(levels, codes, num_codes, strict=True)]
    assert execute.run_all(ByHand(), Line(), levels, codes, num_codes).tolist() == each
    assert jax.tree.leaves(ByHand()) == []
