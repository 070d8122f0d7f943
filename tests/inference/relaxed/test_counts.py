"""Demonstrations of one data set that have different numbers of segments, in relaxed training."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.config import Config, ConfigError
from compile_il.data import DemonstrationError
from compile_il.data.batch import batch_of
from compile_il.data.labels import UNKNOWN
from compile_il.data.spaces import scaling_of, space_of
from compile_il.inference.engines import ENGINES

LENGTHS = (5, 8, 2, 6, 7)
CONFIG = Config(inference="relaxed", num_segments=3, num_skills=4, hidden_dim=6, num_iterations=2, batch_size=4)


def demonstrations() -> cil.Demonstrations:
    rng = np.random.default_rng(0)
    observations = [rng.normal(size=(length + 1, 4)).astype(np.float32) for length in LENGTHS]
    return cil.Demonstrations.from_arrays(observations, [rng.integers(0, 3, n) for n in LENGTHS], num_actions=3)


def labelled(ends: list[list[int]], codes: list[list[int]]) -> cil.Demonstrations:
    boundaries = [np.isin(np.arange(n), inner).astype(int) for n, inner in zip(LENGTHS, ends, strict=True)]
    return demonstrations().with_labels(boundaries=boundaries, segment_codes=[np.array(each) for each in codes])


def losses(demos: cil.Demonstrations, num_segments: int, **settings: Any) -> np.ndarray:
    """With the same networks, whatever the number of segments."""
    config = dataclasses.replace(CONFIG, num_segments=num_segments, **settings).resolved()
    skills = ENGINES[config.inference].make_skills(
        config.resolved(), space_of(demos), scaling_of(demonstrations()), jax.random.key(0)
    )
    keys = jax.random.split(jax.random.key(1), len(demos))
    batch = batch_of(demos.storage, sum(LENGTHS) + 8, 9)
    return np.asarray(
        eqx.filter_jit(ENGINES[config.inference].make_losses(config, 3.0))(skills, batch, keys, jnp.array(0)).total
    )


@pytest.mark.parametrize("boundary_term", ["first", "lengths"])
def test_empty_segments_cost_nothing(boundary_term: str) -> None:
    """Two segments of three are two of two: nothing is drawn where all is labelled."""
    demos = labelled([[3], [2], [1], [4], [6]], [[0, 1], [2, 2], [3, 0], [1, 3], [0, 2]])
    more, fewer = (losses(demos, count, boundary_term=boundary_term) for count in (3, 2))
    np.testing.assert_allclose(more, fewer, rtol=1e-5)


def test_one_segment_of_three_is_one_of_one() -> None:
    demos = demonstrations().with_labels(segment_codes=[[1], [0], [3], [2], [1]])
    np.testing.assert_allclose(losses(demos, 3), losses(demos, 1), rtol=1e-5)


def test_a_list_of_numbers_is_taken() -> None:
    demos = demonstrations()
    model = cil.fit(demos, config=CONFIG, num_segments=[2, 3, 3, 3, 2], progress=False)
    assert model.resolved.num_segments == 3
    found = model.segment(demos, num_segments=[2, 3, 3, 3, 2])
    most = [2, 3, 2, 3, 2]  # the third has two steps
    assert all(len(skills) <= count for skills, count in zip(found.skills, most, strict=True))


def test_labels_decide(model: cil.Model) -> None:
    """With an untrained recognition model: listed segments all have a step, labelled cuts are certain."""
    codes = [[0, 1], [2, 2, 1], [3, 0], [1], []]
    listed = demonstrations().with_labels(segment_codes=[np.array(each, int) for each in codes])
    found = model.segment(listed)
    for i in range(4):
        assert found.skills[i].tolist() == codes[i]
    assert 1 <= len(found.skills[4]) <= 3
    with pytest.raises(DemonstrationError, match="demonstration 0 give codes of 2 segments, and there are 3"):
        model.segment(listed, 3)
    inner_cuts = [[3, 4], [2, 7], [1], [], []]
    boundaries = [np.isin(np.arange(n), inner).astype(int) for n, inner in zip(LENGTHS, inner_cuts, strict=True)]
    boundaries[3][:] = boundaries[4][:] = -1
    cut = demonstrations().with_labels(boundaries=boundaries, segment_codes=[[-1] * 3, [-1] * 3, [-1] * 2, [], []])
    found = model.segment(cut)
    assert [found.boundaries[i].tolist() for i in range(3)] == [[3, 4], [2, 7], [1]]
    for i in range(3):
        np.testing.assert_array_equal(found.boundary_probs[i] == 1, np.isin(np.arange(LENGTHS[i]), found.boundaries[i]))
        np.testing.assert_array_equal(found.boundary_probs[i][boundaries[i] == 0], 0)


@pytest.fixture(scope="module")
def model() -> cil.Model:
    return cil.fit(demonstrations(), config=CONFIG, num_iterations=1, progress=False)


def test_labels_of_some_leave_others_as_they_are() -> None:
    """A demonstration with fewer steps than segments trains, whatever the labels of the others."""
    boundaries = [np.full(n, -1) for n in LENGTHS]
    boundaries[1] = np.isin(np.arange(8), [2, 5]).astype(int)
    cil.fit(demonstrations().with_labels(boundaries=boundaries), config=CONFIG, progress=False)


def test_zeros_alone_are_not_ignored() -> None:
    boundaries = [np.full(n, -1) for n in LENGTHS]
    boundaries[1][2:4] = 0
    with pytest.raises(DemonstrationError, match="demonstration 1 give 0 of 2 boundaries"):
        cil.fit(demonstrations().with_labels(boundaries=boundaries), config=CONFIG, progress=False)


def test_fewer_labels_than_segments_say_what_to_do() -> None:
    demos = labelled([[3], [2, 4], [1], [4], [6]], [[0, 1], [2, 2, 1], [3, 0], [1, 3], [0, 2]])
    with pytest.raises(DemonstrationError, match="pass a list as num_segments"):
        cil.fit(demos, config=CONFIG, progress=False)


def test_a_number_must_be_given() -> None:
    for data in (demonstrations(), "symbols"):
        with pytest.raises(
            ConfigError, match=r"num_segments is None, and labels do not .* inference needs their number"
        ):
            cil.fit(data, config=CONFIG, num_segments=None, progress=False)


def test_labels_may_give_the_numbers_alone() -> None:
    """As they do for the command, which takes no list."""
    counts = [2, 3, 2, 1, 2]
    demos = demonstrations().with_labels(segment_codes=[[UNKNOWN] * count for count in counts])
    model = cil.fit(demos, config=dataclasses.replace(CONFIG, num_segments=None), progress=False)
    assert model.resolved.num_segments == 3
    assert model.segment(demos).num_segments.max() <= 3
