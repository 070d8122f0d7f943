"""The codes of segments whose places are unknown, against full enumeration."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.batch import batch_of, pick
from compile_il.data.labels import NO_SEGMENT
from compile_il.inference.exact.constraints import Constraints, constraints_from_labels
from compile_il.inference.exact.decode import sample_segmentation
from compile_il.inference.exact.engine import feasible
from compile_il.inference.exact.segment_scores import unknown_count
from compile_il.inference.records import LOG_ZERO
from tests.inference.exact.cases import (
    ANY_COUNT,
    GRADIENTS,
    LIKELIHOODS,
    MAX_SEGMENTS,
    MAX_STEPS,
    assert_best,
    assert_frequencies,
    assert_likelihood,
    assert_posterior,
    best_segmentation,
    case,
    enumerate_all,
    enumerate_counts,
    free,
    given,
    of_steps,
)
from tests.inference.exact.small import small_model, vector_demos
from tests.twins.enumerate_segmentations import log_sum

K = 2
free_likelihood = LIKELIHOODS["dense"]
NOTHING = [-1] * MAX_STEPS

lists_of_codes = st.lists(st.sampled_from([-1, 0, 1]), max_size=MAX_SEGMENTS)


def known_of(length: int, segment_codes: Any, boundaries: Any = NOTHING, codes: Any = NOTHING) -> Constraints:
    """Padded as batches pad, so that everything compiles once."""
    padded = np.full(MAX_STEPS + 1, NO_SEGMENT if len(segment_codes) else -1, np.int32)
    padded[: len(segment_codes)] = segment_codes
    return constraints_from_labels(*map(jnp.array, (length, boundaries, codes, padded)), K)


@for_all(st.integers(4, MAX_STEPS), st.integers(1, MAX_SEGMENTS), lists_of_codes, st.sampled_from([*LIKELIHOODS]))
@settings(max_examples=100)
def test_against_enumeration(length: int, num_segments: int, segment_codes: list[int], engine: str) -> None:
    steps, priors = case(length, K)
    known, log_count = known_of(length, segment_codes), given(num_segments)
    every = enumerate_all(steps, priors, length, num_segments, segment_codes=segment_codes)
    if not every:
        assert LIKELIHOODS[engine](steps, priors, known, log_count) < LOG_ZERO / 2
        return
    best, found = best_segmentation(steps, priors, known, log_count)
    assert_posterior(found, every)
    assert_likelihood(engine, (steps, priors, known, log_count), every)
    assert found.log_likelihood <= free_likelihood(steps, priors, free(length, K), log_count) + 1e-4
    assert_best(best, every)


def test_codes_of_segments_give_the_number_of_segments() -> None:
    steps, priors = case(6, K)
    best, found = best_segmentation(steps, priors, known_of(6, [-1, 1, -1]), ANY_COUNT)
    np.testing.assert_allclose(found.count_probs, [0, 0, 0, 1, 0], atol=1e-5)
    every = enumerate_counts(steps, priors, 6, ANY_COUNT, segment_codes=[-1, 1, -1])
    assert_posterior(found, every)
    assert_best(best, every)


@pytest.mark.parametrize("engine", LIKELIHOODS)
@pytest.mark.parametrize("length", [4, 7])
def test_all_codes_together_are_the_free_likelihood(length: int, engine: str) -> None:
    steps, priors = case(length, K)
    parts = [
        float(LIKELIHOODS[engine](steps, priors, known_of(length, segment_codes), ANY_COUNT))
        for m in range(1, MAX_SEGMENTS + 1)
        for segment_codes in itertools.product(range(K), repeat=m)
    ]
    whole = free_likelihood(steps, priors, free(length, K), ANY_COUNT)
    np.testing.assert_allclose(log_sum(parts), whole, rtol=1e-5)


@pytest.mark.parametrize("engine", LIKELIHOODS)
def test_codes_that_say_nothing_change_nothing(engine: str) -> None:
    steps, priors = case(7, K)
    np.testing.assert_allclose(
        LIKELIHOODS[engine](steps, priors, known_of(7, []), ANY_COUNT),
        free_likelihood(steps, priors, free(7, K), ANY_COUNT),
        rtol=1e-6,
    )


@pytest.mark.parametrize("engine", LIKELIHOODS)
def test_with_labels_of_steps(engine: str) -> None:
    steps, priors = case(7, K)
    labels = {"boundaries": [-1, 0, -1, -1, 1, -1, -1], "codes": [-1, -1, -1, 0, -1, -1, -1]}
    found = LIKELIHOODS[engine](steps, priors, known_of(7, [1, -1, -1], **labels), ANY_COUNT)
    arrays = {f"{name.replace('boundaries', 'boundary').replace('codes', 'code')}_labels": np.array(value)
              for name, value in labels.items()}  # fmt: skip
    every = enumerate_all(steps, priors, 7, 3, segment_codes=[1, -1, -1], **arrays)
    assert every
    np.testing.assert_allclose(found, log_sum([p.log_prob for p in every]) + float(ANY_COUNT[3]), rtol=1e-5)


@pytest.mark.parametrize("engine", LIKELIHOODS)
@pytest.mark.parametrize("segment_codes", [[1, K, 0], [0] * (MAX_SEGMENTS + 1)], ids=["skill", "segments"])
def test_a_skill_or_a_segment_too_many_is_impossible(segment_codes: list[int], engine: str) -> None:
    steps, priors = case(7, K)
    found, slopes = GRADIENTS[engine](steps, priors, known_of(7, segment_codes), ANY_COUNT)
    assert found < LOG_ZERO / 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("longest", [MAX_STEPS, 3], ids=["free", "longest"])
def test_gradients_agree(longest: int) -> None:
    steps, priors = case(6, K)
    priors = priors._replace(log_duration=priors.log_duration[: longest + 1])
    known = known_of(6, [-1, 1, -1])
    dense, by_rows = (GRADIENTS[name](steps, priors, known, ANY_COUNT)[1] for name in LIKELIHOODS)
    for a, b in zip(jax.tree.leaves(by_rows), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", LIKELIHOODS)
def test_gradients_against_finite_differences(engine: str) -> None:
    (steps, priors), known = case(6, K), known_of(6, [-1, 1, -1])
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (steps, priors, ANY_COUNT))
        check_grads(lambda s, p, count: LIKELIHOODS[engine](s, p, known, count), doubled, 1, modes=["rev"])


@pytest.mark.parametrize(
    ("longest", "segment_codes"),
    [(MAX_STEPS, [-1, 1, -1]), (3, []), (3, [-1, 1, -1])],
    ids=["codes", "longest", "codes-longest"],
)
def test_samples_come_as_often_as_the_posterior_says(longest: int, segment_codes: list[int]) -> None:
    steps, priors = case(5, K)
    priors = priors._replace(log_duration=priors.log_duration[: longest + 1])
    known, sample = known_of(5, segment_codes), of_steps(sample_segmentation)
    draw = jax.jit(jax.vmap(lambda key: sample(steps, priors, known, ANY_COUNT, key)[0]))
    drawn = draw(jax.random.split(jax.random.key(0), 20_000))
    assert_frequencies(drawn, enumerate_counts(steps, priors, 5, ANY_COUNT, segment_codes=segment_codes))


def test_batches_carry_codes_of_segments() -> None:
    demos = vector_demos()[:2]
    assert batch_of(demos.storage, 16, 9).segment_codes.shape == (2, 0)
    batch = batch_of(demos.with_labels(segment_codes=[None, [2, -1]]).storage, 16, 9)
    assert batch.segment_codes.tolist() == [[-1] * 10, [2, -1, *[NO_SEGMENT] * 8]]
    assert pick(batch, np.array([1])).segment_codes.tolist() == [[2, -1, *[NO_SEGMENT] * 8]]


def test_models_respect_codes_of_segments() -> None:
    demos = vector_demos()
    free_skills = small_model().segment(demos).skills
    label_codes = [None, *((skills + 1) % 3 for skills in free_skills[1:])]
    found = small_model().segment(demos.with_labels(segment_codes=label_codes))
    assert found.skills[0].tolist() == free_skills[0].tolist()
    for skills, segment_codes in zip(found.skills[1:], label_codes[1:], strict=True):
        np.testing.assert_array_equal(skills, segment_codes)


def agrees(boundaries: list[int], codes: list[int], in_order: list[int]) -> bool:
    """Whether one of all segmentations agrees with all labels."""
    T, M = len(boundaries), len(in_order)
    for inner in itertools.combinations(range(1, T), M - 1):
        if any(label not in (-1, t in inner) for t, label in enumerate(boundaries) if t):
            continue
        segments = np.searchsorted(inner, np.arange(T), side="right")
        for named in itertools.product(*([code] if code != -1 else [0, 1] for code in in_order)):
            if all(code in (-1, named[m]) for code, m in zip(codes, segments, strict=True)):
                return True
    return False


label_lists = st.lists(st.tuples(*[st.sampled_from([-1, -1, 0, 1])] * 2), min_size=1, max_size=5)


@settings(max_examples=300)
@for_all(label_lists, st.lists(st.sampled_from([-1, 0, 1]), max_size=4))
def test_exactly_the_contradictions_are_infeasible(labels: list[tuple[int, int]], in_order: list[int]) -> None:
    boundaries, codes = [0, *(b for b, _ in labels[1:])], [c for _, c in labels]
    demos = Demonstrations.from_arrays(None, [[0] * len(labels), [0] * 5])  # the second makes all of one shape
    try:
        demos = demos.with_labels([boundaries, None], [codes, None], [in_order, None])
    except DemonstrationError:
        assert not in_order or not agrees(boundaries, codes, in_order)
        return
    assert feasible(demos, K, 5, unknown_count(5)).tolist() == [
        not in_order or agrees(boundaries, codes, in_order),
        True,
    ]
