"""Sketches, the codes of segments whose places are unknown, against full enumeration; dense and streaming."""

import itertools
from collections import Counter
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from compile_il.batches import batch_of, pick
from compile_il.demos.labels import NO_SEGMENT
from compile_il.exact import decode, recursion, streaming, streaming_decode
from compile_il.exact.known import Known, known_from_labels
from compile_il.exact.objective import DENSE, STREAMING, Recursion
from compile_il.log_space import LOG_ZERO
from tests.exact.small import small_model, vector_demos
from tests.exact.test_recursion import MAX_SEGMENTS, MAX_STEPS, case, enumerate_all, free
from tests.exact.test_recursion import log_likelihood as free_likelihood
from tests.twins.enumerate_segmentations import log_sum

K = 2
BOTH = [pytest.param(recursion, id="dense"), pytest.param(streaming, id="streaming")]
JITTED = {
    module: Recursion(*(jax.jit(function) for function in functions))
    for module, functions in ((recursion, DENSE), (streaming, STREAMING))
}
ANY_COUNT = jnp.log(jnp.array([1e-30, 0.1, 0.4, 0.3, 0.2]))
NOTHING = [-1] * MAX_STEPS

sketches = st.lists(st.sampled_from([-1, 0, 1]), max_size=MAX_SEGMENTS)


def known_of(length: int, sketch: Any, boundaries: Any = NOTHING, codes: Any = NOTHING) -> Known:
    """Padded as batches pad, so that everything compiles once."""
    padded = np.full(MAX_STEPS + 1, NO_SEGMENT if len(sketch) else -1, np.int32)
    padded[: len(sketch)] = sketch
    return known_from_labels(*map(jnp.array, (length, boundaries, codes, padded)), K)


@given(st.integers(4, MAX_STEPS), st.integers(1, MAX_SEGMENTS), sketches, st.sampled_from([recursion, streaming]))
@settings(deadline=None, max_examples=100)
def test_against_enumeration(length: int, num_segments: int, sketch: list[int], module: ModuleType) -> None:
    steps, priors = case(length, K)
    known, log_count = known_of(length, sketch), recursion.exactly(num_segments, MAX_SEGMENTS)
    every = enumerate_all(steps, priors, length, num_segments, sketch=sketch)
    found = JITTED[module].posterior(steps, priors, known, log_count)
    if not every:
        assert found.log_likelihood < LOG_ZERO / 2
        return
    total = log_sum([path.log_prob for path in every])
    np.testing.assert_allclose(found.log_likelihood, total, rtol=1e-5, atol=1e-4)
    assert found.log_likelihood <= free_likelihood(steps, priors, free(length, K), log_count) + 1e-4
    boundary_probs, skill_probs = np.zeros(MAX_STEPS), np.zeros((MAX_STEPS, K))
    for path in every:
        weight = np.exp(path.log_prob - total)
        boundary_probs[list(path.ends[:-1])] += weight
        for start, end, k in zip((0, *path.ends[:-1]), path.ends, path.skills, strict=True):
            skill_probs[start:end, k] += weight
    np.testing.assert_allclose(found.boundary_probs, boundary_probs, atol=1e-4)
    np.testing.assert_allclose(found.skill_probs, skill_probs, atol=1e-4)
    best = max(every, key=lambda path: path.log_prob)
    viterbi = JITTED[module].best_segmentation(steps, priors, known, log_count)
    assert tuple(viterbi.ends[:num_segments].tolist()) == best.ends
    assert tuple(viterbi.skills[:num_segments].tolist()) == best.skills
    np.testing.assert_allclose(viterbi.log_prob, best.log_prob, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("module", BOTH)
def test_a_sketch_tells_the_number_of_segments(module: ModuleType) -> None:
    steps, priors = case(6, K)
    found = JITTED[module].posterior(steps, priors, known_of(6, [-1, 1, -1]), ANY_COUNT)
    np.testing.assert_allclose(found.count_probs, [0, 0, 0, 1, 0], atol=1e-5)
    every = enumerate_all(steps, priors, 6, 3, sketch=[-1, 1, -1])
    total = log_sum([path.log_prob for path in every]) + float(ANY_COUNT[3])
    np.testing.assert_allclose(found.log_likelihood, total, rtol=1e-5)
    assert int(JITTED[module].best_segmentation(steps, priors, known_of(6, [-1, 1, -1]), ANY_COUNT).num_segments) == 3


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("length", [4, 7])
def test_all_sketches_together_are_the_free_likelihood(length: int, module: ModuleType) -> None:
    steps, priors = case(length, K)
    parts = [
        float(JITTED[module].log_likelihood(steps, priors, known_of(length, sketch), ANY_COUNT))
        for m in range(1, MAX_SEGMENTS + 1)
        for sketch in itertools.product(range(K), repeat=m)
    ]
    whole = free_likelihood(steps, priors, free(length, K), ANY_COUNT)
    np.testing.assert_allclose(log_sum(parts), whole, rtol=1e-5)


@pytest.mark.parametrize("module", BOTH)
def test_a_sketch_that_says_nothing_changes_nothing(module: ModuleType) -> None:
    steps, priors = case(7, K)
    np.testing.assert_allclose(
        JITTED[module].log_likelihood(steps, priors, known_of(7, []), ANY_COUNT),
        free_likelihood(steps, priors, free(7, K), ANY_COUNT),
        rtol=1e-6,
    )


@pytest.mark.parametrize("module", BOTH)
def test_with_labels_of_steps(module: ModuleType) -> None:
    steps, priors = case(7, K)
    labels = {"boundaries": [-1, 0, -1, -1, 1, -1, -1], "codes": [-1, -1, -1, 0, -1, -1, -1]}
    found = JITTED[module].log_likelihood(steps, priors, known_of(7, [1, -1, -1], **labels), ANY_COUNT)
    arrays = {f"{name.replace('boundaries', 'boundary').replace('codes', 'code')}_labels": np.array(value)
              for name, value in labels.items()}  # fmt: skip
    every = enumerate_all(steps, priors, 7, 3, sketch=[1, -1, -1], **arrays)
    assert every
    np.testing.assert_allclose(found, log_sum([p.log_prob for p in every]) + float(ANY_COUNT[3]), rtol=1e-5)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("sketch", [[1, K, 0], [0] * (MAX_SEGMENTS + 1)], ids=["skill", "segments"])
def test_a_skill_or_a_segment_too_many_is_impossible(sketch: list[int], module: ModuleType) -> None:
    steps, priors = case(7, K)
    gradient = jax.jit(jax.value_and_grad(module.log_likelihood))
    found, slopes = gradient(steps, priors, known_of(7, sketch), ANY_COUNT)
    assert found < LOG_ZERO / 2
    assert all(np.isfinite(leaf).all() for leaf in slopes)


@pytest.mark.parametrize("longest", [MAX_STEPS, 3], ids=["free", "longest"])
def test_gradients_agree(longest: int) -> None:
    steps, priors = case(6, K)
    priors = priors._replace(log_duration=priors.log_duration[: longest + 1])
    known = known_of(6, [-1, 1, -1])
    dense, streamed = (
        jax.jit(jax.grad(module.log_likelihood, argnums=(0, 1, 3)))(steps, priors, known, ANY_COUNT)
        for module in (recursion, streaming)
    )
    for a, b in zip(jax.tree.leaves(streamed), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_gradients_against_finite_differences() -> None:
    (steps, priors), known = case(6, K), known_of(6, [-1, 1, -1])
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (steps, priors))
        log_count = ANY_COUNT.astype(jnp.float64)
        check_grads(jax.jit(lambda s, p: recursion.log_likelihood(s, p, known, log_count)), doubled, 1, modes=["rev"])


@pytest.mark.parametrize(
    ("module", "longest", "sketch"),
    [(decode, MAX_STEPS, [-1, 1, -1]), (streaming_decode, MAX_STEPS, []), (streaming_decode, 3, [-1, 1, -1])],
    ids=["dense-sketch", "streaming-free", "streaming-sketch-longest"],
)
def test_samples_come_as_often_as_the_posterior_says(module: ModuleType, longest: int, sketch: list[int]) -> None:
    length, num_samples = 5, 20_000
    steps, priors = case(length, K)
    priors = priors._replace(log_duration=priors.log_duration[: longest + 1])
    every = {
        (path.ends, path.skills): path.log_prob + float(ANY_COUNT[m])
        for m in range(1, MAX_SEGMENTS + 1)
        for path in enumerate_all(steps, priors, length, m, sketch=sketch)
    }
    total = log_sum(list(every.values()))
    known = known_of(length, sketch)
    draw = jax.jit(jax.vmap(lambda key: module.sample_segmentation(key, steps, priors, known, ANY_COUNT)))
    drawn = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(0), num_samples)))
    paths = [(tuple(e[:n]), tuple(z[:n])) for n, e, z in zip(drawn[0], *(x.tolist() for x in drawn[1:3]), strict=True)]
    np.testing.assert_allclose(drawn.log_prob, [every[path] for path in paths], rtol=1e-4, atol=1e-3)
    counted = Counter(paths)
    for path, log_prob in every.items():
        share = np.exp(log_prob - total)
        assert abs(counted[path] - share * num_samples) < 5 * (np.sqrt(share * (1 - share) * num_samples) + 1)


def test_batches_carry_sketches() -> None:
    demos = vector_demos()[:2]
    assert batch_of(demos, 16, 9).segment_labels.shape == (2, 0)
    batch = batch_of(demos.with_labels(segment_codes=[None, [2, -1]]), 16, 9)
    assert batch.segment_labels.tolist() == [[-1] * 10, [2, -1, *[NO_SEGMENT] * 8]]
    assert pick(batch, np.array([1])).segment_labels.tolist() == [[2, -1, *[NO_SEGMENT] * 8]]


def test_models_respect_sketches() -> None:
    demos = vector_demos()
    free_skills = small_model().segment(demos).skills
    told = [None, *((skills + 1) % 3 for skills in free_skills[1:])]
    found = small_model().segment(demos.with_labels(segment_codes=told))
    assert found.skills[0].tolist() == free_skills[0].tolist()
    for skills, sketch in zip(found.skills[1:], told[1:], strict=True):
        np.testing.assert_array_equal(skills, sketch)
