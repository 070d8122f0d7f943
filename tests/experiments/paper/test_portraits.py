"""Portraits: runs of skills against a plain loop, soft segments against enumeration, and that they agree."""

import dataclasses
import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Int

from compile_il.config import Config
from compile_il.data.batch import batch_of
from compile_il.data.labels import UNKNOWN
from compile_il.evaluation.execute import Execution
from compile_il.inference.exact.segment_scores import point_mass
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.model.model import Model
from compile_il.worlds.demonstrate import demonstrate, draw_levels
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.world import key_of
from experiments.paper import portraits
from experiments.paper.portraits import (
    DrawnPart,
    describe_runs,
    portray_segments,
    posterior_segments,
    relaxed_segment_probs,
    run_on_levels,
)
from tests.inference.exact.cases import MAX_STEPS, case, enumerate_all, free, of_steps
from tests.inference.exact.small import SMALL, model_for, small_model, vector_demos

WORLD = GridWorld(num_tasks=1, max_steps=12)
TINY: dict[str, Any] = {"num_skills": 3, "hidden_dim": 8, "num_maps": 2, "batch_size": 4, "num_iterations": 2}
NUM_LEVELS = 4
WORLD_NAME = "grid-pickup"
PART = DrawnPart("exact", WORLD_NAME, Config(**TINY), (3,), NUM_LEVELS - 1)


class Scripted(eqx.Module):
    """Makes given actions, whatever it sees, and stops after as many steps as the number of the skill."""

    actions: Int[Array, " T"]

    def init(self, observation: Array) -> Int[Array, ""]:
        return jnp.array(0)

    def switch_skill(self, now: Int[Array, ""], observation: Array) -> Int[Array, ""]:
        return now

    def act(self, now: Int[Array, ""], skill: Array) -> Int[Array, ""]:
        return self.actions[now]

    def observe(self, now: Int[Array, ""], action: Array, observation: Array) -> Int[Array, ""]:
        return now + 1

    def done(self, now: Int[Array, ""], skill: Array) -> Bool[Array, ""]:
        return now == skill


@functools.cache
def levels() -> Any:
    """As many as a portrait draws and runs, to compile once."""
    drawn = draw_levels(WORLD, key_of(5), portraits.NUM_SEARCHED)
    return jax.tree.map(lambda leaf: leaf[:NUM_LEVELS], drawn)


def runs_of(skills: Any, skill: int) -> Execution:
    return jax.tree.map(np.asarray, run_on_levels(skills, WORLD, levels(), jnp.asarray(skill)))


def test_a_run_ends_where_the_skill_says_or_with_the_episode() -> None:
    demo = demonstrate(WORLD, num_demos=1, seed=5)[0]
    length = len(demo.actions)
    cells = demo.observations[..., -1].reshape(length + 1, -1).argmax(axis=1)
    script = Scripted(jnp.asarray(np.pad(demo.actions, (0, WORLD.max_steps - length))))
    assert length < WORLD.max_steps
    for says_stop, num_steps, stopped, num_taken in (
        (length - 1, length - 1, True, 0),
        (length, length, True, 1),
        (length + 1, length, False, 1),  # what was picked up has ended the episode before
        (99, length, False, 1),
    ):
        run = jax.tree.map(lambda leaf: leaf[0], runs_of(script, says_stop))
        taken = ~run.states.present[-1]
        assert (run.num_steps, run.num_done == 1, taken.sum()) == (num_steps, stopped, num_taken)
        np.testing.assert_array_equal(run.states.player[: num_steps + 1], cells[: num_steps + 1])
        assert set(run.states.player[num_steps:]) == {cells[num_steps]}


@functools.cache
def model(inference: str) -> Model:
    demos = demonstrate(WORLD, num_demos=2, seed=1)
    return model_for(demos, Config(inference=inference, **TINY))  # type: ignore[arg-type]


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
def test_runs_are_those_of_a_plain_loop(inference: str) -> None:
    """With untrained networks, which wander and stop as they like."""
    trained = model(inference)
    together = runs_of(trained.skills, 1)
    step, observe = jax.jit(WORLD.step), jax.jit(WORLD.observe)
    for i in range(NUM_LEVELS):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], levels())
        state, over, stopped, cells = WORLD.start(level), False, False, []
        running = trained.begin(np.asarray(observe(level, state)), 1)
        while not over:
            cells.append(int(state.player))
            action = running.act()
            after = step(level, state, action)
            stopped = running.arrive(action, np.asarray(observe(level, after.state)))
            over = stopped or bool(after.terminated) or bool(after.truncated)
            state = after.state
        run = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        assert run.num_steps == len(cells)
        assert run.num_done == stopped
        assert run.states.player[: len(cells) + 1].tolist() == [*cells, int(state.player)]


def test_a_portrait_agrees_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portraits, "MOST_STEPS", WORLD.max_steps)
    portrait = PART.measure([model("exact")], tmp_path, print)["portrait"]
    assert json.loads(json.dumps(portrait)) == portrait, "a part that is done is read back from its file"
    level = np.array([list(row) for row in portrait["level"]])
    assert 0 <= portrait["found"] < len(portrait["skills"]) == TINY["num_skills"]
    for skill in portrait["skills"]:
        rows, columns = np.divmod(skill["path"], level.shape[1])
        assert level[rows[0], columns[0]] == "@"
        assert (level[rows, columns] != "#").all()
        assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) <= 1).all()
        assert skill["taken"] is None or level.flat[skill["taken"]].isalpha()
        assert sum(skill["terminations"]) == skill["num_stopped"] <= portrait["num_levels"] == PART.num_test
        assert skill["num_stopped_with_object"] <= skill["num_stopped"]
        assert (skill["mean_steps"] is None) == (skill["num_stopped"] == 0)
        assert not np.reshape(skill["terminations"], level.shape)[[0, -1]].any(), "nobody stands in the outer wall"
    segments = portrait["segments"]
    assert len(segments["tasks"]) == len(segments["probs"]) == len(segments["boundaries"]) + 1 == 3
    np.testing.assert_allclose(np.sum(segments["probs"], axis=0), 1, atol=2e-4)


def test_counts_of_runs_by_hand() -> None:
    """After the one that is shown, two of five skills stop, one of them with something; two end with the episode."""
    cells = np.array([[6, 7, 7, 7], [6, 7, 8, 8], [6, 11, 11, 11], [6, 7, 12, 12], [6, 7, 12, 12], [6, 7, 6, 7]])
    present = np.ones((6, 4, 2), bool)
    present[[0, 1, 3, 4], -1, [1, 1, 0, 1]] = False
    states = SimpleNamespace(player=cells, present=present)
    runs = Execution(states, np.array([1, 2, 1, 2, 2, 3]), np.array([1, 1, 1, 0, 0, 0]))  # type: ignore[arg-type]
    terminations = np.zeros(25, int)
    terminations[[8, 11]] = 1
    shown = {"path": [6, 7], "stopped": True, "taken": 13}
    counted = {"num_stopped": 2, "num_stopped_with_object": 1, "mean_steps": 1.5, "terminations": terminations.tolist()}
    assert describe_runs(runs, np.array([9, 13]), 5) == shown | counted


def test_the_sample_is_one_of_the_end_of_training() -> None:
    """Where temperatures fall, it is at the last one."""

    def sample(**settings: Any) -> np.ndarray:
        config = dataclasses.replace(model("relaxed").config, **settings)
        return np.array(portray_segments(dataclasses.replace(model("relaxed"), config=config), WORLD_NAME, 3)["sample"])

    fallen = sample(temperature=1.0, final_temperature=0.1)
    np.testing.assert_array_equal(fallen, sample(temperature=0.1))
    assert np.abs(fallen - sample(temperature=1.0)).max() > 0.01


POSTERIOR = jax.jit(of_steps(posterior_segments))


@pytest.mark.parametrize(
    ("length", "num_segments", "segment_codes"), [(5, 3, []), (3, 3, []), (4, 1, []), (6, 3, [1, UNKNOWN, 0])]
)
def test_exact_segments_are_those_of_all_paths(length: int, num_segments: int, segment_codes: list[int]) -> None:
    steps, priors = case(length, num_skills=2)
    paths = enumerate_all(steps, priors, length, num_segments, segment_codes=segment_codes)
    log_probs = np.array([path.log_prob for path in paths])
    weights = np.exp(log_probs - logsumexp(log_probs))
    expected = np.zeros((num_segments, MAX_STEPS))
    for path, weight in zip(paths, weights, strict=True):
        segment = np.searchsorted(path.ends, np.arange(length), side="right")
        expected[segment, np.arange(length)] += weight
    constraints = free(length, 2)._replace(segment_codes=jnp.array(segment_codes, jnp.int32))
    found = POSTERIOR(steps, priors, constraints, point_mass(num_segments, num_segments))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_relaxed_segments_are_those_of_q_and_samples_harden_as_it_gets_colder() -> None:
    model, demos = small_model(dataclasses.replace(SMALL, inference="relaxed", num_segments=2)), vector_demos()
    assert isinstance(model.skills, RelaxedSkills)
    batch = batch_of(demos.storage, demos.num_frames, demos.max_length)
    noise = jax.random.gumbel(jax.random.key(3), (2, demos.max_length + 1))
    noise = jnp.broadcast_to(noise, (len(demos), *noise.shape))
    mean, warm, cold = (
        np.asarray(relaxed_segment_probs(model.skills, batch, scale * noise, temperature, "last"))
        for scale, temperature in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.01))
    )
    # Of two segments only the first has a boundary to infer, and nothing lies before it: hard and soft q are the same.
    for i, boundary_probs in enumerate(model.segment(demos, 2).boundary_probs):
        np.testing.assert_allclose(mean[i, 0, : len(boundary_probs)], 1 - np.cumsum(boundary_probs), atol=1e-5)
    for probs in (mean, warm, cold):
        for shares, length in zip(probs, demos.lengths, strict=True):
            np.testing.assert_allclose(shares[:, :length].sum(axis=0), 1, atol=1e-5)
    assert np.abs(warm - warm.round()).max() > 0.05 > np.abs(cold - cold.round()).max()
