"""Sums over all segmentations of one demonstration by dynamic programming.

    α_0(0) = 0,    α_i(t) = log Σ_{t' < t} exp[ α_{i-1}(t') + S^i(t', t) ],    S^i(t', t) = log Σ_k exp S_k(t', t)

so that α_M(T) = log p(a | s, M), the double sum in the paper's generative model that it calls potentially intractable.
Where the skill of the i-th segment is labelled, S^i has that one term only; else S^i is the same for all i.

Short demonstrations are trained with the dense recursion, which holds S_k(t', t) for all starts, ends and skills, T x T
x K numbers, and leaves its gradient to JAX. The recursion by rows holds one row at a time, in memory O(T (K + M)). With
a longest segment of L steps a row is a window of L times, and time is O(T L (K + M)). Going forward, a row has one end
t and all starts; going backward, it has one start t' and all ends:

    β_i(T) = log p(M = i),    β_i(t') = log Σ_{t > t'} exp[ S^{i+1}(t', t) + β_{i+1}(t) ]

    γ_k(t', t) = exp[ log Σ_i exp(α_i(t') + β_{i+1}(t)) + S_k(t', t) - log p(a | s) ],    i over segments that may be k

γ_k(t', t) is the probability of the segment [t', t) with skill k, and the derivative of log p(a | s) by S_k(t', t):
sums of it over the row are all that the gradient needs, so that the pass backward computes them and forgets the row.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.data.labels import UNKNOWN
from compile_il.inference.exact.constraints import by_segment
from compile_il.inference.exact.segment_scores import (
    Priors,
    RunningSums,
    SegmentScores,
    Window,
    all_segments,
    ends_of,
    starts_of,
)
from compile_il.inference.records import LOG_ZERO

LONGEST_DENSE = 256
"""Largest number of steps for which the dense recursion, faster and hungrier for memory, is used."""


def log_likelihood(scores: SegmentScores) -> Float[Array, ""]:
    """Calculates log Σ_M p(M) p(a | s, M): all boundaries, skills and numbers of segments summed out."""
    is_short = scores.sums.before.shape[0] - 1 <= LONGEST_DENSE
    return dense_log_likelihood(scores) if is_short else log_likelihood_by_rows(scores)


def dense_log_likelihood(scores: SegmentScores) -> Float[Array, ""]:
    """Calculates the log-likelihood from the table of all segments, with the gradient of JAX."""
    by_skill, codes = all_segments(scores), scores.constraints.segment_codes
    tables = jnp.moveaxis(by_segment(by_skill, logsumexp(by_skill, axis=-1), codes), -1, 0)
    start = jnp.where(jnp.arange(by_skill.shape[0]) == 0, 0.0, LOG_ZERO)

    def extend(
        alpha: Float[Array, " times"], i: Int[Array, ""]
    ) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
        longer = logsumexp(alpha[:, None] + (tables[0] if tables.shape[0] == 1 else tables[i]), axis=0)
        return longer, longer

    _, alphas = jax.lax.scan(extend, start, jnp.arange(scores.log_count.shape[0] - 1))
    alphas = jnp.concatenate([start[None], alphas])
    return logsumexp(alphas[:, scores.constraints.length] + scores.log_count) + scores.offset


@jax.custom_vjp
def log_likelihood_by_rows(scores: SegmentScores) -> Float[Array, ""]:
    """Calculates the log-likelihood and its gradient row by row."""
    return _total(scores, forward(scores)) + scores.offset


def no_segments(scores: SegmentScores) -> Float[Array, "times counts"]:
    """Returns the table α before the recursion: log 1 for no segments at time 0, `LOG_ZERO` elsewhere."""
    return jnp.full((scores.sums.before.shape[0], scores.log_count.shape[0]), LOG_ZERO).at[0, 0].set(0.0)


def forward(scores: SegmentScores) -> Float[Array, "times counts"]:
    """Calculates α_i(t) at row t and column i."""

    def extend(alphas: Float[Array, "times counts"], end: Int[Array, ""]) -> tuple[Float[Array, "times counts"], None]:
        window, by_skill = starts_of(scores, end)
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), scores.constraints.segment_codes)
        longer = logsumexp(window.of(alphas)[:, :-1] + values, axis=0)
        return alphas.at[end, 1:].set(longer), None

    start = no_segments(scores)
    return jax.lax.scan(extend, start, jnp.arange(1, start.shape[0]))[0]


def end_probs(
    scores: SegmentScores, alphas: Float[Array, "times counts"], log_count: Float[Array, " counts"]
) -> Float[Array, "times counts"]:
    """Calculates P(b_i = t | a, s) = exp[ α_i(t) + β_i(t) - log p(a | s) ] at row t and column i, under p(M)."""
    scores = scores._replace(log_count=log_count)
    betas = _backward(scores, alphas)[0].betas
    return jnp.exp(jnp.minimum(alphas + betas - _total(scores, alphas), 0.0))


def _total(scores: SegmentScores, alphas: Float[Array, "times counts"]) -> Float[Array, ""]:
    return logsumexp(alphas[scores.constraints.length] + scores.log_count)


class _Gradient(NamedTuple):
    """β and sums of γ over the rows so far."""

    betas: Float[Array, "times counts"]
    ended: Float[Array, "times K"]
    log_duration: Float[Array, " lengths"]


def _backward(scores: SegmentScores, alphas: Float[Array, "times counts"]) -> tuple[_Gradient, Float[Array, "times K"]]:
    """Returns β with the gradient, and P(a segment of skill k starts at time t') = Σ_t γ_k(t', t) at row t'."""
    num_times, num_skills = scores.sums.before.shape
    start = _Gradient(
        betas=jnp.full_like(alphas, LOG_ZERO).at[scores.constraints.length].set(scores.log_count),
        ended=jnp.zeros((num_times, num_skills)),
        log_duration=jnp.zeros_like(scores.priors.log_duration),
    )
    add_row = functools.partial(_add_row, scores, alphas, _total(scores, alphas))
    return jax.lax.scan(add_row, start, jnp.arange(num_times), reverse=True)


def _add_row(
    scores: SegmentScores, alphas: Array, total: Array, so_far: _Gradient, begin: Int[Array, ""]
) -> tuple[_Gradient, Float[Array, " K"]]:
    """Adds β of one start and its segments' share of the gradient; returns Σ_t γ_k(begin, t) beside."""
    codes, log_count = scores.constraints.segment_codes, scores.log_count
    window, by_skill = ends_of(scores, begin)
    # β is written after these rows of it were read: without the barrier XLA copies all of it, each time.
    later = jax.lax.optimization_barrier(window.of(so_far.betas)[:, 1:])
    earlier = logsumexp(by_segment(by_skill, logsumexp(by_skill, axis=-1), codes) + later, axis=0)
    betas = so_far.betas.at[begin, :-1].set(jnp.where(begin == scores.constraints.length, log_count[:-1], earlier))

    shares = _shares(by_skill, alphas[begin, :-1] + later - total, codes)
    by_length = _by_length(jnp.sum(shares, axis=-1), begin, window, so_far.log_duration.shape[0])
    gradient = _Gradient(betas, window.add(so_far.ended, shares), so_far.log_duration + by_length)
    return gradient, jnp.sum(shares, axis=0)


def _shares(by_skill: Array, around: Array, segment_codes: Array) -> Float[Array, "width K"]:
    """Calculates γ_k of a row; `around` is the log-probability of all before and after it as the i-th segment."""
    # Rounding must not lift probabilities above one, least of all where everything is impossible.
    if segment_codes.shape[0] == 0:
        return jnp.exp(jnp.minimum(logsumexp(around, axis=-1)[:, None] + by_skill, 0.0))
    free = logsumexp(jnp.where(segment_codes == UNKNOWN, around, LOG_ZERO), axis=-1)
    labelled = around + jnp.take(by_skill, segment_codes, axis=-1, mode="fill", fill_value=LOG_ZERO)
    is_skill = jax.nn.one_hot(segment_codes, by_skill.shape[1])  # zero without a label
    return jnp.exp(jnp.minimum(free[:, None] + by_skill, 0.0)) + jnp.exp(jnp.minimum(labelled, 0.0)) @ is_skill


def _by_length(shares: Array, begin: Array, window: Window, num_lengths: int) -> Float[Array, " lengths"]:
    """Returns shares of segments that end in a window by length 0, 1, ..., shifted (faster than a scatter)."""
    padded = jnp.pad(shares, (1, num_lengths))
    return jax.lax.dynamic_slice_in_dim(padded, 1 + begin - window.first, num_lengths)


_Saved = tuple[SegmentScores, Float[Array, "times counts"]]


def _forward_rule(scores: SegmentScores) -> tuple[Float[Array, ""], _Saved]:
    alphas = forward(scores)
    return _total(scores, alphas) + scores.offset, (scores, alphas)


def _backward_rule(saved: _Saved, upstream: Float[Array, ""]) -> tuple[SegmentScores]:
    scores, alphas = saved
    gradient, begun = _backward(scores, alphas)
    counts = jnp.exp(alphas[scores.constraints.length] + scores.log_count - _total(scores, alphas))
    begins, ends = -begun * upstream, gradient.ended * upstream
    no_gradient: Any = None
    return (
        SegmentScores(
            sums=RunningSums(before=begins, ended=ends, far_before=begins, far_ended=ends),
            priors=Priors(jnp.sum(begun, axis=0) * upstream, gradient.log_duration * upstream),
            constraints=no_gradient,
            log_count=counts * upstream,
            offset=upstream,
        ),
    )


log_likelihood_by_rows.defvjp(_forward_rule, _backward_rule)
