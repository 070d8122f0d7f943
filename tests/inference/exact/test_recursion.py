"""Sums and decoders with labels, longest segments, and where the best path and the best boundaries differ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from compile_il.inference.exact.constraints import constraints_from_labels
from compile_il.inference.records import LOG_ZERO
from tests.inference.exact.cases import (
    ANY_COUNT,
    LIKELIHOODS,
    MAX_SEGMENTS,
    MAX_STEPS,
    NO_SEGMENT_CODES,
    assert_best,
    assert_most_hits,
    best_boundaries,
    best_segmentation,
    case,
    enumerate_all,
    free,
    given,
)
from tests.twins.enumerate_segmentations import log_sum

log_likelihood = LIKELIHOODS["dense"]
known_of = jax.jit(constraints_from_labels, static_argnums=4)


@pytest.mark.parametrize(("length", "num_segments"), [(7, 4), (7, 3), (6, 2), (4, 4)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_best_boundaries_where_many_paths_are_about_as_good(length: int, num_segments: int, seed: int) -> None:
    steps, priors = case(length, 3, seed)
    flat = steps._replace(log_policy=steps.log_policy / 4)
    every = enumerate_all(flat, priors, length, num_segments)
    assert_most_hits(best_boundaries(flat, priors, free(length, 3), given(num_segments))[0], every)


def test_best_boundaries_are_not_always_those_of_the_best_path() -> None:
    differ = 0
    for seed in range(30):
        steps, priors = case(7, 3, seed)
        arguments = steps._replace(log_policy=steps.log_policy / 4), priors, free(7, 3)
        ends = [find(*arguments, given(4))[0].ends.tolist() for find in (best_boundaries, best_segmentation)]
        differ += ends[0] != ends[1]
    assert 0 < differ < 30


def test_best_boundaries_of_the_most_probable_number_of_segments() -> None:
    for seed in range(10):
        steps, priors = case(7, 3, seed)
        found, after = best_boundaries(steps, priors, free(7, 3), ANY_COUNT)
        assert int(found.num_segments) == int(jnp.argmax(after.count_probs))
        same, _ = best_boundaries(steps, priors, free(7, 3), given(int(found.num_segments)))
        np.testing.assert_array_equal(found.ends, same.ends)


def test_best_boundaries_are_possible_together() -> None:
    """Each boundary of its own is likely; a longest segment forbids most combinations."""
    for seed in range(10):
        steps, priors = case(7, 3, seed)
        short = priors._replace(log_duration=priors.log_duration[:3])
        found, _ = best_boundaries(steps, short, free(7, 3), given(4))
        assert max(np.diff([0, *found.ends.tolist()])) <= 2


label_lists = st.lists(st.sampled_from([-1, -1, -1, 0, 1]), min_size=MAX_STEPS, max_size=MAX_STEPS)
code_lists = st.lists(st.sampled_from([-1, -1, -1, 0, 1]), min_size=MAX_STEPS, max_size=MAX_STEPS)


@for_all(st.integers(1, MAX_STEPS), st.integers(1, MAX_SEGMENTS), label_lists, code_lists)
@settings(max_examples=150)
def test_labels_leave_the_paths_that_agree_with_them(
    length: int, num_segments: int, boundaries: list[int], codes: list[int]
) -> None:
    steps, priors = case(length, 2)
    labels = {"boundary_labels": np.array(boundaries), "code_labels": np.array(codes)}
    agreeing = enumerate_all(steps, priors, length, num_segments, **labels) if num_segments <= length else []
    known = known_of(jnp.array(length), jnp.array(boundaries), jnp.array(codes), NO_SEGMENT_CODES, 2)
    log_count = given(num_segments)
    constrained = float(log_likelihood(steps, priors, known, log_count))
    if agreeing:
        np.testing.assert_allclose(constrained, log_sum([p.log_prob for p in agreeing]), rtol=1e-5, atol=1e-4)
        assert constrained <= float(log_likelihood(steps, priors, free(length, 2), log_count)) + 1e-4
        assert_best(best_segmentation(steps, priors, known, log_count)[0], agreeing)
        assert_most_hits(best_boundaries(steps, priors, known, log_count)[0], agreeing)
    else:
        assert constrained < LOG_ZERO / 2


def test_all_labels_give_the_supervised_likelihood() -> None:
    length, steps_priors = 6, case(6, 3)
    steps, priors = steps_priors
    boundaries, codes = np.array([0, 0, 1, 0, 1, 0, -1]), np.array([2, 2, 0, 0, 1, 1, -1])
    known = known_of(jnp.array(length), jnp.array(boundaries), jnp.array(codes), NO_SEGMENT_CODES, 3)
    expected = 0.0
    for t, k in enumerate(codes[:length]):
        last = t + 1 == length or boundaries[t + 1] == 1
        expected += float(steps.log_policy[t, k] + (steps.log_stop if last else steps.log_go)[t, k])
    expected += float(priors.log_skill[jnp.array([2, 0, 1])].sum() + 3 * priors.log_duration[2])
    found = log_likelihood(steps, priors, known, given(3))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_longest_segment_bands_the_recursion() -> None:
    steps, priors = case(7, 2)
    short = priors._replace(log_duration=priors.log_duration[:4])
    every = enumerate_all(steps, short, 7, 3)
    assert 0 < len(every) < len(enumerate_all(steps, priors, 7, 3))
    found = log_likelihood(steps, short, free(7, 2), given(3))
    np.testing.assert_allclose(found, log_sum([p.log_prob for p in every]), rtol=1e-5, atol=1e-4)
