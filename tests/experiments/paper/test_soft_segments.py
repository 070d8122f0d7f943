"""Soft segments: the exact ones against enumeration, the relaxed ones against the recognition model's boundaries."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.nn import logsumexp

from compile_il.data.batch import batch_of
from compile_il.data.labels import UNKNOWN
from compile_il.inference.relaxed.recognition import draw_gumbel
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.model.model import Model
from experiments.paper.portraits import no_noise, posterior_segments, relaxed_segment_probs
from tests.inference.exact.cases import MAX_STEPS, case, enumerate_all, free
from tests.inference.exact.small import SMALL, small_model, vector_demos

POSTERIOR = jax.jit(posterior_segments, static_argnums=3)


@pytest.mark.parametrize(("length", "num_segments"), [(7, 3), (5, 3), (3, 3), (4, 1)])
def test_exact_segments_are_those_of_all_paths(length: int, num_segments: int) -> None:
    assert_segments(length, num_segments, [])


def test_codes_that_are_told_in_order_move_the_segments() -> None:
    told, free = assert_segments(6, 3, [1, UNKNOWN, 0]), assert_segments(6, 3, [])
    assert np.abs(told - free).max() > 0.01


def assert_segments(length: int, num_segments: int, sketch: list[int]) -> np.ndarray:
    steps, priors = case(length, num_skills=2)
    paths = enumerate_all(steps, priors, length, num_segments, segment_codes=sketch)
    log_probs = np.array([path.log_prob for path in paths])
    weights = np.exp(log_probs - logsumexp(log_probs))
    expected = np.zeros((num_segments, MAX_STEPS))
    for path, weight in zip(paths, weights, strict=True):
        segment = np.searchsorted(path.ends, np.arange(length), side="right")
        expected[segment, np.arange(length)] += weight
    known = free(length, 2)._replace(segment_codes=jnp.array(sketch, jnp.int32))
    found = POSTERIOR(steps, priors, known, num_segments)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    return np.asarray(found)


def relaxed_model() -> Model:
    return small_model(dataclasses.replace(SMALL, inference="relaxed", num_segments=2))


def test_relaxed_segments_are_those_of_q() -> None:
    model, demos = relaxed_model(), vector_demos()
    assert isinstance(model.skills, RelaxedSkills)
    batch = batch_of(demos, demos.num_frames, demos.max_length)
    probs = np.asarray(relaxed_segment_probs(model.skills, batch, no_noise(batch, 2), 1.0, "last"))
    # Of two segments only the first has a boundary to find, and nothing lies before it: hard and soft q are the same.
    for i, boundary_probs in enumerate(model.segment(demos, 2).boundary_probs):
        np.testing.assert_allclose(probs[i, 0, : len(boundary_probs)], 1 - np.cumsum(boundary_probs), atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_samples_are_shares_and_harden_as_it_gets_colder(temperature: float) -> None:
    model, demos = relaxed_model(), vector_demos()
    assert isinstance(model.skills, RelaxedSkills)
    batch = batch_of(demos, demos.num_frames, demos.max_length)
    noise = draw_gumbel(jax.random.key(3), 2, demos.max_length + 1)
    probs = np.asarray(relaxed_segment_probs(model.skills, batch, no_noise(batch, 2) + noise, temperature, "last"))
    for shares, length in zip(probs, demos.lengths, strict=True):
        np.testing.assert_allclose(shares[:, :length].sum(axis=0), 1, atol=1e-5)
    soft = np.abs(probs - probs.round()).max()
    assert soft > 0.05 if temperature == 1.0 else soft < 0.05
