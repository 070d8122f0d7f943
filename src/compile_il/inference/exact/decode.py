"""From sums over all segmentations to a single one: the most probable, the one to be right most often, or a draw.

Functions of one demonstration that hold all starts and ends at once; `streaming_decode` does the same row by row.

Segmentations are put together from the end of a demonstration to its start, one segment at a time.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.inference.exact.constraints import Constraints, feasible_counts, known_or, segment_codes_of
from compile_il.inference.exact.recursion import end_probs, forward, table_of, tables_of
from compile_il.inference.exact.segment_scores import Centred, Priors, centre, segment_values
from compile_il.inference.records import LOG_ZERO, StepScores


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
        skill = known_or(jax.random.categorical(keys[i, 1], by_skill[origin]), i, segment_codes)
        return LastSegment(first + origin, skill, by_skill[origin, skill])

    return walk_back(last_segment, length, num_segments, log_count, taken)


def best_segmentation(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The most probable boundaries, skills and number of segments, jointly (Viterbi)."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    segment_codes, log_count = segment_codes_of(known, log_count.shape[0] - 1), feasible_counts(log_count, known)
    values = tables_of(by_skill, jnp.max(by_skill, axis=-1), segment_codes)
    nothing = jnp.zeros((log_count.shape[0], by_skill.shape[0]))
    return _best_path(values, nothing, by_skill, known, log_count, centred)


def best_boundaries(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The boundaries of which most can be expected to be right, for the most probable number of segments.

        max_b Σ_i P(b_i | a, s)

    and for each segment its most probable skill. `best_segmentation` finds the single best path; where many paths share
    a boundary and differ in others or in skills, none of them has to be that path.
    """
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    segment_codes, log_count = segment_codes_of(known, max_segments), feasible_counts(log_count, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
    alphas = forward(values, max_segments)
    likeliest = jnp.argmax(alphas[:, known.length] + log_count)
    only = jnp.where(jnp.arange(max_segments + 1) == likeliest, log_count, LOG_ZERO)
    possible = jnp.where(values > LOG_ZERO / 2, 0.0, LOG_ZERO)
    return _best_path(possible, end_probs(alphas, values, known.length, only), by_skill, known, only, centred)


def _best_path(
    values: Float[Array, "tables times times"],
    bonus: Float[Array, "counts times"],
    by_skill: Float[Array, "times times K"],
    known: Constraints,
    log_count: Float[Array, " counts"],
    centred: Centred,
) -> Segmentation:
    """The segmentation with the largest sum of its segments' values, and of `bonus[i, t]` where the i-th ends at t."""
    max_segments = log_count.shape[0] - 1
    segment_codes = segment_codes_of(known, max_segments)
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
        skill = known_or(jnp.argmax(by_skill[begin, end]), i, segment_codes)
        return LastSegment(begin, skill, by_skill[begin, end, skill])

    return walk_back(last_segment, known.length, num_segments, log_count, centred.taken)


def sample_segmentation(
    key: PRNGKeyArray, steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """One draw from the posterior over number of segments, boundaries and skills, made backwards from the end."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    segment_codes, log_count = segment_codes_of(known, max_segments), feasible_counts(log_count, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
    alphas = forward(values, max_segments)

    def candidates(i: Int[Array, ""], end: Int[Array, ""]) -> Candidates:
        return Candidates(jnp.array(0), alphas[i] + table_of(values, i)[:, end], by_skill[:, end])

    return sample_back(key, candidates, known.length, alphas[:, known.length], segment_codes, log_count, centred.taken)
