"""Segmentations put together from the end of a demonstration to its start, one segment at a time.

Shared by `compile_il.exact.decode` and `compile_il.exact.streaming_decode`, which differ in how they find a segment.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.exact.known import named


class Segmentation(NamedTuple):
    """One way to cut a demonstration, padded to the largest number of segments."""

    num_segments: Int[Array, ""]
    ends: Int[Array, " M"]
    """Time at which each segment ends, b_1 .. b_M; from the last segment on, the demonstration's length."""
    skills: Int[Array, " M"]
    """Skill of each segment, z_1 .. z_M; -1 beyond `num_segments`."""
    log_prob: Float[Array, ""]
    """Log-probability of the segmentation: log p(a, b, z | s, M), with a prior over M also log p(M)."""


class LastSegment(NamedTuple):
    """Start, skill and value S_k of the segment that ends at a given time."""

    start: Int[Array, ""]
    skill: Int[Array, ""]
    log_prob: Float[Array, ""]


class Candidates(NamedTuple):
    """Neighbouring times t' at which the segment that ends at a given time t may start, with their weights."""

    first: Int[Array, ""]
    """Earliest time of the candidates."""
    log_weight: Float[Array, " width"]
    """Log-weight of each start t', α_{i-1}(t') + S^i(t', t)."""
    by_skill: Float[Array, "width K"]
    """Value of the segment for each start t' and skill k, S_k(t', t)."""


class _Entry(NamedTuple):
    end: Int[Array, ""]
    skill: Int[Array, ""]
    log_prob: Float[Array, ""]


def walk_back(
    last_segment: Callable[[Int[Array, ""], Int[Array, ""]], LastSegment],
    length: Int[Array, ""],
    num_segments: Int[Array, ""],
    log_count: Float[Array, " counts"],
    taken: Float[Array, ""],
) -> Segmentation:
    """Puts a segmentation together, one segment at a time, from the end of a demonstration to its start.

    Args:
      last_segment: function from a segment's index (from 0) and its end to its start, skill and value.
      length: where the last segment ends.
      num_segments: number of segments to go back.
      log_count: log p(M) for M = 0 .. largest.
      taken: what centring took from the log-probability of every segmentation.
    """

    def step_back(end: Int[Array, ""], i: Int[Array, ""]) -> tuple[Int[Array, ""], _Entry]:
        used, last = i < num_segments, last_segment(i, end)
        entry = _Entry(end, jnp.where(used, last.skill, -1), jnp.where(used, last.log_prob, 0.0))
        return jnp.where(used, last.start, end), entry

    _, walk = jax.lax.scan(step_back, length, jnp.arange(log_count.shape[0] - 1), reverse=True)
    return Segmentation(num_segments, walk.end, walk.skill, jnp.sum(walk.log_prob) + log_count[num_segments] + taken)


def sample_back(
    key: PRNGKeyArray,
    candidates: Callable[[Int[Array, ""], Int[Array, ""]], Candidates],
    length: Int[Array, ""],
    log_totals: Float[Array, " counts"],
    segment_codes: Int[Array, " listed"],
    log_count: Float[Array, " counts"],
    taken: Float[Array, ""],
) -> Segmentation:
    """Draws the number of segments, then from the end each segment's start and its skill.

    Args:
      key: random key of the draw.
      candidates: function from a segment's index (from 0) and its end to the times at which it may start.
      length: where the last segment ends.
      log_totals: α_M(T) for M = 0 .. largest.
      segment_codes: skill of each segment or `UNKNOWN`; empty if none is known.
      log_count: log p(M) for M = 0 .. largest.
      taken: as in `walk_back`.
    """
    count_key, walk_key = jax.random.split(key)
    num_segments = jax.random.categorical(count_key, log_totals + log_count)
    keys = jax.random.split(walk_key, (log_count.shape[0] - 1, 2))

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        first, log_weight, by_skill = candidates(i, end)
        origin = jax.random.categorical(keys[i, 0], log_weight)
        skill = named(jax.random.categorical(keys[i, 1], by_skill[origin]), i, segment_codes)
        return LastSegment(first + origin, skill, by_skill[origin, skill])

    return walk_back(last_segment, length, num_segments, log_count, taken)
