"""From sums over all segmentations to a single one: the most probable, the one to be right most often, or a draw.

Functions of one demonstration that hold all starts and ends at once; `compile_il.exact.streaming_decode` gives the same
row by row for long ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.exact.known import Known, counts_left, named, sketch_of
from compile_il.exact.recursion import backward, exactly, forward, table_of, tables_of
from compile_il.exact.scores import Centred, Priors, StepScores, centre, segment_values
from compile_il.log_space import LOG_ZERO


class Segmentation(NamedTuple):
    """One way to cut a demonstration, padded to the largest number of segments."""

    num_segments: Int[Array, ""]
    ends: Int[Array, " M"]
    """b_1 .. b_M, the last one the demonstration's length; repeated beyond `num_segments`."""
    skills: Int[Array, " M"]
    """z_1 .. z_M; -1 beyond `num_segments`."""
    log_prob: Float[Array, ""]
    """log p(a, b, z | s, M), or with a prior over M also log p(M)."""


class LastSegment(NamedTuple):
    """Where the segment that ends at a given time started, and what it did."""

    start: Int[Array, ""]
    skill: Int[Array, ""]
    log_prob: Float[Array, ""]


class Walk(NamedTuple):
    """Segments put together from the last one to the first, padded to the largest number of segments."""

    ends: Int[Array, " M"]
    skills: Int[Array, " M"]
    log_prob: Float[Array, ""]
    """Sum over the segments."""


def walk_back(
    last_segment: Callable[[Int[Array, ""], Int[Array, ""]], LastSegment],
    length: Int[Array, ""],
    num_segments: Int[Array, ""],
    max_segments: int,
) -> Walk:
    """Goes from the end of a demonstration to its start, one segment at a time.

    Args:
      last_segment: of the index of a segment (from 0) and its end.
      length: where the last segment ends.
      num_segments: how many to go back.
      max_segments: what to pad to.
    """

    def step_back(end: Int[Array, ""], i: Int[Array, ""]) -> tuple[Int[Array, ""], Walk]:
        used, last = i < num_segments, last_segment(i, end)
        entry = Walk(end, jnp.where(used, last.skill, -1), jnp.where(used, last.log_prob, 0.0))
        return jnp.where(used, last.start, end), entry

    _, walk = jax.lax.scan(step_back, length, jnp.arange(max_segments), reverse=True)
    return walk._replace(log_prob=jnp.sum(walk.log_prob))


def best_segmentation(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The most probable boundaries, skills and number of segments, jointly (Viterbi)."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    sketch, log_count = sketch_of(known, log_count.shape[0] - 1), counts_left(log_count, known)
    values = tables_of(by_skill, jnp.max(by_skill, axis=-1), sketch)
    nothing = jnp.zeros((log_count.shape[0], by_skill.shape[0]))
    return _best_path(values, nothing, by_skill, known, log_count, centred)


def best_boundaries(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The boundaries of which most can be expected to be right, for the most probable number of segments.

        max_b Σ_i P(b_i | a, s),    P(b_i = t | a, s) = exp[ α_i(t) + β_i(t) - log p(a | s) ]

    and for each segment its most probable skill. `best_segmentation` finds the single best path; where many paths share
    a boundary and differ in others or in skills, none of them has to be that path.
    """
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    sketch, log_count = sketch_of(known, max_segments), counts_left(log_count, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), sketch)
    alphas = forward(values, max_segments)
    totals = alphas[:, known.length] + log_count
    only = exactly(jnp.argmax(totals), max_segments)
    betas = backward(values, known.length, only)
    end_probs = jnp.exp(jnp.minimum(alphas + betas - jnp.max(totals - log_count + only), 0.0))
    possible = jnp.where(values > LOG_ZERO / 2, 0.0, LOG_ZERO)
    return _best_path(possible, end_probs, by_skill, known, only, centred)


def _best_path(
    values: Float[Array, "tables times times"],
    bonus: Float[Array, "counts times"],
    by_skill: Float[Array, "times times K"],
    known: Known,
    log_count: Float[Array, " counts"],
    centred: Centred,
) -> Segmentation:
    """The segmentation with the largest sum of its segments' values, and of `bonus[i, t]` where the i-th ends at t."""
    max_segments = log_count.shape[0] - 1
    sketch = sketch_of(known, max_segments)
    start = jnp.where(jnp.arange(by_skill.shape[0]) == 0, 0.0, LOG_ZERO)

    def extend(
        best: Float[Array, " times"], i: Int[Array, ""]
    ) -> tuple[Float[Array, " times"], tuple[Float[Array, " times"], Int[Array, " times"]]]:
        options = best[:, None] + table_of(values, i)
        longer = jnp.max(options, axis=0) + bonus[i + 1]
        return longer, (longer, jnp.argmax(options, axis=0))

    _, (bests, origins) = jax.lax.scan(extend, start, jnp.arange(max_segments))
    num_segments = jnp.argmax(bests[:, known.length] + log_count[1:]) + 1

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        begin = origins[i, end]
        skill = named(jnp.argmax(by_skill[begin, end]), i, sketch)
        return LastSegment(begin, skill, by_skill[begin, end, skill])

    walk = walk_back(last_segment, known.length, num_segments, max_segments)
    log_prob = walk.log_prob + log_count[num_segments] + centred.taken
    return Segmentation(num_segments, walk.ends, walk.skills, log_prob)


def sample_segmentation(
    key: PRNGKeyArray, steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """One draw from the posterior over number, boundaries and skills, walking backwards from the end."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    sketch, log_count = sketch_of(known, max_segments), counts_left(log_count, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), sketch)
    alphas = forward(values, max_segments)
    count_key, walk_key = jax.random.split(key)
    num_segments = jax.random.categorical(count_key, alphas[:, known.length] + log_count)
    keys = jax.random.split(walk_key, (max_segments, 2))

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        begin = jax.random.categorical(keys[i, 0], alphas[i] + table_of(values, i)[:, end])
        skill = named(jax.random.categorical(keys[i, 1], by_skill[begin, end]), i, sketch)
        return LastSegment(begin, skill, by_skill[begin, end, skill])

    walk = walk_back(last_segment, known.length, num_segments, max_segments)
    return Segmentation(num_segments, walk.ends, walk.skills, walk.log_prob + log_count[num_segments] + centred.taken)
