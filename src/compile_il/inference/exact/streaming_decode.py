"""The same segmentations as in `compile_il.inference.exact.decode`, row by row, for long demonstrations."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.inference.exact.constraints import Constraints, by_segment, feasible_counts, known_or, segment_codes_of
from compile_il.inference.exact.decode import Candidates, LastSegment, Segmentation, sample_back, walk_back
from compile_il.inference.exact.segment_scores import (
    Priors,
    RunningSums,
    centre,
    running_sums,
    starts_of,
    window_before,
)
from compile_il.inference.exact.streaming import end_probs, forward, no_segments
from compile_il.inference.records import LOG_ZERO, StepScores


class _Best(NamedTuple):
    """Last segment of the best way to each time, for each number of segments from 1 on."""

    start: Int[Array, "times counts-1"]
    skill: Int[Array, "times counts-1"]
    value: Float[Array, "times counts-1"]
    """Value S_k of the last segment."""


def best_segmentation(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The most probable segmentation (Viterbi), as `decode.best_segmentation`."""
    centred = centre(steps, known.length)
    sums, log_count = running_sums(centred.steps), feasible_counts(log_count, known)
    segment_codes = segment_codes_of(known, log_count.shape[0] - 1)

    def value(by_skill: Float[Array, "width K"]) -> Float[Array, "width columns"]:
        return by_segment(by_skill, jnp.max(by_skill, axis=-1), segment_codes)

    nothing = jnp.zeros((sums.before.shape[0], log_count.shape[0]))
    return _best_path(value, nothing, sums, priors, known, log_count, centred.taken)


def best_boundaries(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The boundaries of which most can be expected to be right, as `decode.best_boundaries`."""
    centred = centre(steps, known.length)
    sums, log_count = running_sums(centred.steps), feasible_counts(log_count, known)
    max_segments = log_count.shape[0] - 1
    segment_codes = segment_codes_of(known, max_segments)
    alphas = forward(sums, priors, known, max_segments)
    likeliest = jnp.argmax(alphas[known.length] + log_count)
    only = jnp.where(jnp.arange(max_segments + 1) == likeliest, log_count, LOG_ZERO)

    def value(by_skill: Float[Array, "width K"]) -> Float[Array, "width columns"]:
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
        return jnp.where(values > LOG_ZERO / 2, 0.0, LOG_ZERO)

    bonus = end_probs(alphas, sums, priors, known, only)
    return _best_path(value, bonus, sums, priors, known, only, centred.taken)


def _best_path(
    value: Callable[[Float[Array, "width K"]], Float[Array, "width columns"]],
    bonus: Float[Array, "times counts"],
    sums: RunningSums,
    priors: Priors,
    known: Constraints,
    log_count: Float[Array, " counts"],
    taken: Float[Array, ""],
) -> Segmentation:
    """The segmentation with the largest sum of its segments' values, and of `bonus[t, i]` where the i-th ends at t."""
    num_times, max_segments = sums.before.shape[0], log_count.shape[0] - 1
    segment_codes = segment_codes_of(known, max_segments)

    def extend(bests: Float[Array, "times counts"], end: Int[Array, ""]) -> tuple[Float[Array, "times counts"], _Best]:
        window = window_before(end, num_times, priors)
        by_skill = starts_of(end, window, sums, priors, known)
        options = window.of(bests)[:, :-1] + value(by_skill)
        origin = jnp.argmax(options, axis=0)
        skill = jax.vmap(lambda i, row: known_or(jnp.argmax(row), i, segment_codes))(
            jnp.arange(max_segments), by_skill[origin]
        )
        last = _Best(window.first + origin, skill, jnp.take_along_axis(by_skill[origin], skill[:, None], axis=1)[:, 0])
        return bests.at[end, 1:].set(jnp.max(options, axis=0) + bonus[end, 1:]), last

    bests, last = jax.lax.scan(extend, no_segments(num_times, max_segments + 1), jnp.arange(1, num_times))
    num_segments = jnp.argmax(bests[known.length, 1:] + log_count[1:]) + 1

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        return LastSegment(last.start[end - 1, i], last.skill[end - 1, i], last.value[end - 1, i])

    return walk_back(last_segment, known.length, num_segments, log_count, taken)


def sample_segmentation(
    key: PRNGKeyArray, steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Segmentation:
    """One draw from the posterior, as `decode.sample_segmentation` but with other random numbers.

    Only α is kept; the rows that the walk backwards meets, one for each segment, are computed again.
    """
    centred = centre(steps, known.length)
    sums = running_sums(centred.steps)
    num_times, max_segments = sums.before.shape[0], log_count.shape[0] - 1
    segment_codes, log_count = segment_codes_of(known, max_segments), feasible_counts(log_count, known)
    alphas = forward(sums, priors, known, max_segments)

    def candidates(i: Int[Array, ""], end: Int[Array, ""]) -> Candidates:
        window = window_before(end, num_times, priors)
        by_skill = starts_of(end, window, sums, priors, known)
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
        column = values[:, 0] if values.shape[1] == 1 else values[:, i]
        return Candidates(window.first, window.of(alphas)[:, i] + column, by_skill)

    return sample_back(key, candidates, known.length, alphas[known.length], segment_codes, log_count, centred.taken)
