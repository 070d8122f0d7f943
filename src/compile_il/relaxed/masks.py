"""Soft segments from soft boundaries (paper, "Soft segment masks" and "RNN state masking").

A demonstration of T steps has T + 1 times at which a boundary may lie, the first step of the next segment; the last
one, T, is its end. With F_i(t) = P(b_i <= t), the cumulative sum of q(b_i),

    P(t ∈ C_i) = [1 - F_i(t)] Π_{j<i} F_j(t)          mask_i(t) = Π_{j<i} F_j(t),      F_0 = 1, F_M(t) = 0 for t < T

All of it is computed in logs: 1 - F is a sum over later times rather than a difference of nearly equal numbers, and
products of many boundaries of a long demonstration do not underflow.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.log_space import LOG_ZERO


class NextSegment(NamedTuple):
    """One segment, log P(t ∈ C_i), and the mask that it leaves to those after it."""

    log_probs: Float[Array, " times"]
    log_open: Float[Array, " times"]
    """Log of the mask of the segment that follows, mask_{i+1}(t)."""


def log_reached(log_boundary: Float[Array, " times"]) -> Float[Array, " times"]:
    """Log F(t), the probability that the boundary lies at t or before."""
    return jnp.minimum(jax.lax.cumlogsumexp(log_boundary), 0.0)


def log_ahead(log_boundary: Float[Array, " times"]) -> Float[Array, " times"]:
    """Log [1 - F(t)], the probability that the boundary lies after t."""
    from_here = jnp.minimum(jax.lax.cumlogsumexp(log_boundary, reverse=True), 0.0)
    return jnp.append(from_here[1:], LOG_ZERO)


def next_segment(log_open: Float[Array, " times"], log_boundary: Float[Array, " times"]) -> NextSegment:
    """The segment that ends at a soft boundary, where earlier segments leave `log_open`."""
    log_probs = jnp.maximum(log_open + log_ahead(log_boundary), LOG_ZERO)
    return NextSegment(log_probs, jnp.maximum(log_open + log_reached(log_boundary), LOG_ZERO))


def end_of(length: Int[Array, ""], num_times: int) -> Float[Array, " times"]:
    """Log-probabilities of a boundary that is known: all mass on that time."""
    return jnp.where(jnp.arange(num_times) == length, 0.0, LOG_ZERO)
