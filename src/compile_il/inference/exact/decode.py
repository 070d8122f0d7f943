"""Decodes one demonstration: the most probable segmentation, the one with most right boundaries, or a sample.

All go row by row through the values of segments, as in `compile_il.inference.exact.likelihood`: forward to the last
segment before each time, then back from the end of the demonstration, one segment at a time.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.inference.exact.constraints import by_segment, label_or
from compile_il.inference.exact.likelihood import end_probs, forward, no_segments
from compile_il.inference.exact.segment_scores import SegmentScores, starts_of
from compile_il.inference.records import LOG_ZERO


class Segmentation(NamedTuple):
    """One segmentation of a demonstration, padded to the largest number of segments."""

    num_segments: Int[Array, ""]
    ends: Int[Array, " M"]
    """Time at which each segment ends, b_1 .. b_M; from the last segment on, the demonstration's length."""
    skills: Int[Array, " M"]
    """Skill of each segment, z_1 .. z_M; -1 beyond `num_segments`."""
    log_prob: Float[Array, ""]
    """Log-probability of the segmentation: log p(a, b, z | s, M), with a prior over M also log p(M)."""


class Posterior(NamedTuple):
    """Exact posteriors of boundaries and of the number of segments of one demonstration."""

    log_likelihood: Float[Array, ""]
    boundary_probs: Float[Array, " T"]
    """P(a segment starts at step t), for t >= 1; entry 0 and padding are zero."""
    count_probs: Float[Array, " counts"]
    """P(there are M segments), for M = 0 .. largest."""


def best_boundaries(scores: SegmentScores) -> tuple[Segmentation, Posterior]:
    """Returns the boundaries with the largest expected number of right ones, max_b Σ_i P(b_i | a, s).

    There are as many segments as is most probable, each with its most probable skill.
    """
    alphas, log_count = forward(scores), scores.log_count
    likeliest = jnp.argmax(alphas[scores.constraints.length] + log_count)
    only = jnp.where(jnp.arange(log_count.shape[0]) == likeliest, log_count, LOG_ZERO)
    either = jnp.stack([log_count, only])
    ends, ends_of_likeliest = jax.vmap(functools.partial(end_probs, scores, alphas))(either)

    def possible(by_skill: Float[Array, "width K"]) -> Float[Array, "width columns"]:
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), scores.constraints.segment_codes)
        return jnp.where(values > LOG_ZERO / 2, 0.0, LOG_ZERO)

    path = _best_path(scores._replace(log_count=only), possible, ends_of_likeliest)
    return path, _posterior(scores, alphas, ends)


def best_segmentation(scores: SegmentScores) -> tuple[Segmentation, Posterior]:
    """Returns the most probable boundaries, skills and number of segments, jointly (Viterbi)."""

    def value(by_skill: Float[Array, "width K"]) -> Float[Array, "width columns"]:
        return by_segment(by_skill, jnp.max(by_skill, axis=-1), scores.constraints.segment_codes)

    path, alphas = _best_path(scores, value, jnp.zeros_like(no_segments(scores))), forward(scores)
    return path, _posterior(scores, alphas, end_probs(scores, alphas, scores.log_count))


def sample_segmentation(scores: SegmentScores, key: PRNGKeyArray) -> tuple[Segmentation, Posterior]:
    """Draws from the posterior: the number of segments, then from the end each segment's start and its skill.

    Only α is kept; the rows that the walk backwards meets, one for each segment, are computed again.
    """
    alphas, codes = forward(scores), scores.constraints.segment_codes
    count_key, walk_key = jax.random.split(key)
    num_segments = jax.random.categorical(count_key, alphas[scores.constraints.length] + scores.log_count)
    keys = jax.random.split(walk_key, (alphas.shape[1] - 1, 2))

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> _LastSegment:
        window, by_skill = starts_of(scores, end)
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), codes)
        value = values[:, 0] if values.shape[1] == 1 else values[:, i]
        origin = jax.random.categorical(keys[i, 0], window.of(alphas)[:, i] + value)
        skill = label_or(jax.random.categorical(keys[i, 1], by_skill[origin]), i, codes)
        return _LastSegment(window.first + origin, skill, by_skill[origin, skill])

    ends = end_probs(scores, alphas, scores.log_count)
    return _walk_back(scores, last_segment, num_segments), _posterior(scores, alphas, ends)


def _posterior(
    scores: SegmentScores, alphas: Float[Array, "times counts"], ends: Float[Array, "times counts"]
) -> Posterior:
    """Returns posteriors from α and P(b_i = t | a, s): a segment starts where one ends, but for the last."""
    length = scores.constraints.length
    log_joint = alphas[length] + scores.log_count
    times = jnp.arange(alphas.shape[0])
    starts = jnp.where((times > 0) & (times < length), jnp.sum(ends, axis=1), 0.0)
    return Posterior(logsumexp(log_joint) + scores.offset, starts[:-1], jax.nn.softmax(log_joint))


class _LastSegment(NamedTuple):
    """Start, skill and value S_k of the segment that ends at a given time."""

    start: Int[Array, "*axes"]
    skill: Int[Array, "*axes"]
    value: Float[Array, "*axes"]


def _best_path(
    scores: SegmentScores,
    value: Callable[[Float[Array, "width K"]], Float[Array, "width columns"]],
    bonus: Float[Array, "times counts"],
) -> Segmentation:
    """Returns the segmentation with the largest sum of values, and of `bonus[t, i]` where the i-th segment ends at t.

    `value` is the function from S_k of segments to the value of each as the i-th segment.
    """
    length, codes = scores.constraints.length, scores.constraints.segment_codes

    def extend(
        bests: Float[Array, "times counts"], end: Int[Array, ""]
    ) -> tuple[Float[Array, "times counts"], _LastSegment]:
        window, by_skill = starts_of(scores, end)
        options = window.of(bests)[:, :-1] + value(by_skill)
        origin = jnp.argmax(options, axis=0)
        skill = jax.vmap(lambda i, row: label_or(jnp.argmax(row), i, codes))(
            jnp.arange(options.shape[1]), by_skill[origin]
        )
        values = jnp.take_along_axis(by_skill[origin], skill[:, None], axis=1)[:, 0]
        last = _LastSegment(window.first + origin, skill, values)
        return bests.at[end, 1:].set(jnp.max(options, axis=0) + bonus[end, 1:]), last

    start = no_segments(scores)
    bests, last = jax.lax.scan(extend, start, jnp.arange(1, start.shape[0]))
    num_segments = jnp.argmax(bests[length, 1:] + scores.log_count[1:]) + 1
    return _walk_back(scores, lambda i, end: jax.tree.map(lambda leaf: leaf[end - 1, i], last), num_segments)


def _walk_back(
    scores: SegmentScores,
    last_segment: Callable[[Int[Array, ""], Int[Array, ""]], _LastSegment],
    num_segments: Int[Array, ""],
) -> Segmentation:
    """Traces a segmentation back from the end; `last_segment` gives the segment of an index and an end."""

    def step_back(end: Int[Array, ""], i: Int[Array, ""]) -> tuple[Int[Array, ""], tuple[Array, Array, Array]]:
        used, last = i < num_segments, last_segment(i, end)
        entry = end, jnp.where(used, last.skill, -1), jnp.where(used, last.value, 0.0)
        return jnp.where(used, last.start, end), entry

    indices = jnp.arange(scores.log_count.shape[0] - 1)
    _, (ends, skills, values) = jax.lax.scan(step_back, scores.constraints.length, indices, reverse=True)
    log_prob = jnp.sum(values) + scores.log_count[num_segments] + scores.offset
    return Segmentation(num_segments, ends, skills, log_prob)
