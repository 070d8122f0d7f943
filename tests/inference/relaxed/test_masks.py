"""Soft segments against enumeration of all boundaries, and what must hold whatever they are."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_il.inference.records import LOG_ZERO
from compile_il.inference.relaxed.recognition import hard_boundary, soft_segment
from tests.inference.relaxed.single import soft_segments

NUM_TIMES = 7
segments_of = jax.jit(soft_segments)


def random_boundaries(num_inner: int, length: int, seed: int, spread: float = 2.0) -> np.ndarray:
    """Distributions over 1 .. length, as a recognition model gives them."""
    logits = np.random.default_rng([num_inner, length, seed]).normal(0, spread, (num_inner, NUM_TIMES))
    logits[:, 0] = logits[:, length + 1 :] = LOG_ZERO
    return np.asarray(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32)))


@pytest.mark.parametrize("num_inner", [0, 1, 2, 3])
@pytest.mark.parametrize("length", [1, 3, 6])
def test_segment_probabilities_are_those_of_independent_boundaries(num_inner: int, length: int) -> None:
    """P(max_{j<i} b_j <= t < b_i), summed over all positions of all boundaries (paper, "Soft segment masks")."""
    log_boundaries = random_boundaries(num_inner, length, seed=0)
    expected, open_ = np.zeros((num_inner + 1, NUM_TIMES)), np.zeros((num_inner + 1, NUM_TIMES))
    for positions in itertools.product(range(NUM_TIMES), repeat=num_inner):
        weight = np.exp(sum(log_boundaries[i, t] for i, t in enumerate(positions)))
        ends = (*positions, length)
        for i, end in enumerate(ends):
            begin = max((0, *ends[:i]))
            expected[i, begin:end] += weight
            open_[i, begin:] += weight
    found = segments_of(jnp.asarray(log_boundaries), jnp.array(length))
    np.testing.assert_allclose(np.exp(found.log_probs), expected, atol=1e-6)
    np.testing.assert_allclose(np.exp(found.log_mask), open_, atol=1e-6)


@given(st.integers(0, 5), st.integers(1, NUM_TIMES - 1), st.integers(0, 10**6), st.sampled_from([0.5, 5.0, 50.0]))
@settings(max_examples=60)
def test_segments_share_each_step_and_nothing_else(num_inner: int, length: int, seed: int, spread: float) -> None:
    found = soft_segments(jnp.asarray(random_boundaries(num_inner, length, seed, spread)), jnp.array(length))
    total = np.exp(found.log_probs).sum(axis=0)
    np.testing.assert_allclose(total[:length], 1.0, atol=1e-5)
    np.testing.assert_array_equal(total[length:], 0.0)


def test_segments_share_each_step_of_long_demonstrations() -> None:
    """Products of twenty sums over thousands of times neither vanish nor drift."""
    num_times, num_inner, length = 4001, 19, 3900
    logits = np.random.default_rng(0).normal(0, 5, (num_inner, num_times))
    logits[:, 0] = logits[:, length + 1 :] = LOG_ZERO
    found = segments_of(jax.nn.log_softmax(jnp.asarray(logits, jnp.float32)), jnp.array(length))
    np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=0)[:length], 1.0, atol=1e-5)
    assert np.isfinite(found.log_probs).all()


def test_certain_boundaries_give_hard_segments() -> None:
    boundaries = jnp.stack([hard_boundary(jnp.array(t), NUM_TIMES) for t in (2, 3)])
    found = np.exp(segments_of(boundaries, jnp.array(6)).log_probs)
    np.testing.assert_array_equal(found[:, :6].argmax(axis=0), [0, 0, 1, 2, 2, 2])
    np.testing.assert_array_equal(found[:, :6].max(axis=0), 1.0)


def test_a_boundary_before_an_earlier_one_leaves_its_segment_empty() -> None:
    boundaries = jnp.stack([hard_boundary(jnp.array(t), NUM_TIMES) for t in (4, 2)])
    found = np.exp(segments_of(boundaries, jnp.array(6)).log_probs)
    np.testing.assert_array_equal(found[1], 0.0)
    np.testing.assert_array_equal(found[:, :6].argmax(axis=0), [0, 0, 0, 0, 2, 2])


def test_small_probabilities_survive() -> None:
    """One minus a cumulative sum in float32 would be zero here, and its gradient too."""
    logits = jnp.where(jnp.arange(5000) == 1, 0.0, -30.0).at[0].set(LOG_ZERO)

    def late(logits: jax.Array) -> jax.Array:
        return soft_segment(jnp.zeros(5000), jax.nn.log_softmax(logits)).log_probs[4000]

    value, gradient = jax.jit(jax.value_and_grad(late))(logits)
    np.testing.assert_allclose(value, -30 + np.log(999), rtol=1e-5)
    assert np.isfinite(gradient).all()
    assert float(jnp.abs(gradient).sum()) > 0.5
    reached = soft_segment(jnp.zeros(5000), jax.nn.log_softmax(logits)).next_log_mask
    assert float(reached[0]) < LOG_ZERO / 2
    np.testing.assert_allclose(reached[-1], 0.0, atol=1e-6)
