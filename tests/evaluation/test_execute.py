"""Runs skills written by hand in a world that is a line."""

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, PRNGKeyArray

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.segments import Segments
from compile_il.evaluation import execute
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.world import Episode, Step


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
    trap: int = 99
    """A place where the episode ends."""
    far: int = 99
    """A place where it is cut."""

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
        return Step(
            state, jnp.array(0.0), (task_index == self.num_tasks) | (position == self.trap), position == self.far
        )


class ByHand(eqx.Module):
    """Skill 0 goes right, skill 1 left; both stop at even places."""

    def init(self, observation: Array) -> Array:
        return observation

    def switch_skill(self, now: Array, observation: Array) -> Array:
        return observation

    def act(self, now: Array, skill: Array) -> Array:
        return (skill == 0).astype(jnp.int32)

    def observe(self, now: Array, action: Array, observation: Array) -> Array:
        return observation

    def done(self, now: Array, skill: Array) -> Array:
        return now[0] % 2 == 0


def solves(skills: Any, world: Line, places: Any, codes: Any, num_codes: Any) -> bool:
    return bool(execute.run_all(skills, world, *(jnp.array(x)[None] for x in (places, codes, num_codes)))[0])


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
    assert solves(ByHand(), Line(), places, codes, num_codes) == solved


@pytest.mark.parametrize("world", [Line(trap=3), Line(far=3)])
def test_nothing_is_done_after_an_episode_has_ended(world: Line) -> None:
    """Neither tasks nor skills, though the second one would stop at its next step."""
    places, codes = jnp.array([2, 4]), jnp.array([0, 0])
    for where, num_done, positions in ((Line(), 2, [0, 1, 2, 3, 4, 4, 4]), (world, 1, [0, 1, 2, 3, 3, 3, 3])):
        found = execute.run_codes(ByHand(), where, places, codes, jnp.array(2))
        assert (found.num_done, found.num_steps) == (num_done, max(positions))
        assert found.states.position.tolist() == positions
        assert solves(ByHand(), where, places, codes, 2) == (num_done == 2)


class Counting(ByHand):
    """The same, but a skill stops after two steps; it remembers how many it has made."""

    def init(self, observation: Array) -> Array:
        return jnp.array(0)

    def switch_skill(self, now: Array, observation: Array) -> Array:
        return jnp.array(0)

    def observe(self, now: Array, action: Array, observation: Array) -> Array:
        return now + 1

    def done(self, now: Array, skill: Array) -> Array:
        return now >= 2


def test_each_skill_begins_anew() -> None:
    assert solves(Counting(), Line(), [2, 0], [0, 1], 2)


def test_skills_are_run_on_the_levels_of_the_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    world = GridWorld(size=6, num_objects=3, num_tasks=2)
    demos = demonstrate(world, num_demos=3, seed=5)
    given: dict[str, Any] = {}

    def run_all(skills: Any, world: Any, levels: Any, codes: Array, num_codes: Array) -> np.ndarray:
        starts = jax.vmap(lambda level: world.observe(level, world.start(level)))(levels)
        given.update(skills=skills, starts=starts, codes=codes.tolist(), num_codes=num_codes.tolist())
        return np.array([True, False, True])

    scoring = importlib.import_module("compile_il.evaluation.evaluate")  # its name is that of a function, too
    monkeypatch.setattr(scoring, "run_all", run_all)
    model: Any = SimpleNamespace(skills="the model's")
    segments: Any = SimpleNamespace(skills=[np.array([3, 1]), np.array([2]), np.array([0, 0])], num_segments=[2, 1, 2])
    with jax.default_prng_impl("rbg"):  # levels are drawn by one generator, whatever others are used for
        assert scoring._online(model, world, segments, seed=5) == pytest.approx(2 / 3)
    np.testing.assert_array_equal(given["starts"], [demo.observations[0] for demo in demos])
    assert (given["codes"], given["num_codes"]) == ([[3, 1], [2, 2], [0, 0]], [2, 1, 2])
    assert given["skills"] == "the model's"


def test_one_miss_in_two_hundred_is_no_match() -> None:
    actions = np.ones(200, int)
    actions[77] = 0
    demos = Demonstrations.from_arrays([np.zeros((201, 1))], [actions])
    nothing = np.zeros(200, np.float32)
    found = Segments([np.zeros(0, np.int32)], [np.zeros(1, np.int32)], [nothing], [nothing[:2]], nothing[:1])
    assert execute.reconstruct(ByHand(), demos, found) == (pytest.approx(199 / 200), 0.0)


def test_time_runs_out() -> None:
    levels, codes = jnp.array([[2, 4], [2, 1]]), jnp.array([[0, 0], [0, 1]])
    solved = execute.run_all(ByHand(), Line(max_steps=3), levels, codes, jnp.array([2, 2]))
    assert solved.tolist() == [False, True]


def test_long_episodes_run_to_their_end() -> None:
    class Going(ByHand):
        def done(self, now: Array, skill: Array) -> Array:
            return jnp.array(False)

    places, codes = jnp.array([[150, 200]]), jnp.array([[0]])
    for max_steps, solved in ((200, True), (199, False)):
        world = Line(max_steps=max_steps, trap=-1, far=-1)
        assert execute.run_all(Going(), world, places, codes, jnp.array([1])).tolist() == [solved]


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
    each = [solves(ByHand(), Line(), *row) for row in zip(levels, codes, num_codes, strict=True)]
    assert execute.run_all(ByHand(), Line(), levels, codes, num_codes).tolist() == each
    assert jax.tree.leaves(ByHand()) == []
