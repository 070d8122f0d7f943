"""The same sums as in `compile_il.inference.exact.recursion`, row by row, for long demonstrations.

Dense recursion holds S_k(t', t) for all starts, ends and skills: T x T x K numbers. Here one row of it exists at a
time, and memory is O(T (K + M)). With a longest segment of L steps a row is a window of L times, so that time is
O(T L (K + M)). Going forward, a row has one end t and all starts (α_i as in `recursion`); going backward, it has one
start t' and all ends:

    β_i(T) = log p(M = i),    β_i(t') = log Σ_{t > t'} exp[ S^{i+1}(t', t) + β_{i+1}(t) ]

    γ_k(t', t) = exp[ log Σ_i exp(α_i(t') + β_{i+1}(t)) + S_k(t', t) - log p(a | s) ],    i over segments that may be k

γ_k(t', t) is the probability of the segment [t', t) with skill k, and the derivative of log p(a | s) by S_k(t', t):
sums of it over the row are all that the gradient needs, so that the pass backward computes them and forgets the row.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.data.labels import UNKNOWN
from compile_il.inference.exact.constraints import Constraints, by_segment, feasible_counts, segment_codes_of
from compile_il.inference.exact.recursion import Posterior, posterior_by
from compile_il.inference.exact.segment_scores import (
    Priors,
    RunningSums,
    Window,
    centre,
    ends_of,
    running_sums,
    starts_of,
    window_after,
    window_before,
)
from compile_il.inference.records import LOG_ZERO, StepScores


def log_likelihood(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Float[Array, ""]:
    """Log Σ_M p(M) p(a | s, M), as `recursion.log_likelihood`."""
    centred = centre(steps, known.length)
    return _log_total(running_sums(centred.steps), priors, known, feasible_counts(log_count, known)) + centred.taken


def posterior(steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]) -> Posterior:
    """Exact posteriors, as `recursion.posterior`."""
    return posterior_by(log_likelihood, steps, priors, known, log_count)


def no_segments(num_times: int, num_counts: int) -> Float[Array, "times counts"]:
    """Table α at its start, when only time 0 is filled in: log 1 for no segments there, `LOG_ZERO` elsewhere."""
    return jnp.full((num_times, num_counts), LOG_ZERO).at[0, 0].set(0.0)


def forward(sums: RunningSums, priors: Priors, known: Constraints, max_segments: int) -> Float[Array, "times counts"]:
    """α_i(t) at row t and column i = 0 .. max_segments."""
    num_times = sums.before.shape[0]
    segment_codes = segment_codes_of(known, max_segments)

    def extend(alphas: Float[Array, "times counts"], end: Int[Array, ""]) -> tuple[Float[Array, "times counts"], None]:
        window = window_before(end, num_times, priors)
        by_skill = starts_of(end, window, sums, priors, known)
        values = by_segment(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
        longer = logsumexp(window.of(alphas)[:, :-1] + values, axis=0)
        return alphas.at[end, 1:].set(longer), None

    alphas, _ = jax.lax.scan(extend, no_segments(num_times, max_segments + 1), jnp.arange(1, num_times))
    return alphas


@jax.custom_vjp
def _log_total(
    sums: RunningSums, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Float[Array, ""]:
    """Log-likelihood of centred scores, with a gradient that goes row by row."""
    return logsumexp(forward(sums, priors, known, log_count.shape[0] - 1)[known.length] + log_count)


class _Saved(NamedTuple):
    """Values of the pass forward that the pass backward needs."""

    sums: RunningSums
    priors: Priors
    known: Constraints
    log_count: Float[Array, " counts"]
    alphas: Float[Array, "times counts"]
    total: Float[Array, ""]


class _Gradient(NamedTuple):
    """β and sums of γ over the rows that the pass backward has been through so far."""

    betas: Float[Array, "times counts"]
    ended: Float[Array, "times K"]
    log_duration: Float[Array, " lengths"]


def _log_total_forward(
    sums: RunningSums, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> tuple[Float[Array, ""], _Saved]:
    alphas = forward(sums, priors, known, log_count.shape[0] - 1)
    total = logsumexp(alphas[known.length] + log_count)
    return total, _Saved(sums, priors, known, log_count, alphas, total)


class _Backward(NamedTuple):
    """Result of the pass backward."""

    gradient: _Gradient
    begun: Float[Array, "times K"]
    """P(a segment of skill k starts at time t') = Σ_t γ_k(t', t), at row t'."""


def _backward(saved: _Saved) -> _Backward:
    num_times, num_skills = saved.sums.before.shape
    start = _Gradient(
        betas=jnp.full_like(saved.alphas, LOG_ZERO).at[saved.known.length].set(saved.log_count),
        ended=jnp.zeros((num_times, num_skills)),
        log_duration=jnp.zeros_like(saved.priors.log_duration),
    )

    def step_back(so_far: _Gradient, begin: Int[Array, ""]) -> tuple[_Gradient, Float[Array, " K"]]:
        return _gather_row(saved, so_far, begin)

    return _Backward(*jax.lax.scan(step_back, start, jnp.arange(num_times), reverse=True))


def _log_total_backward(saved: _Saved, upstream: Float[Array, ""]) -> tuple[Any, ...]:
    gradient, begun = _backward(saved)
    counts = jnp.exp(saved.alphas[saved.known.length] + saved.log_count - saved.total)
    begins, ends = -begun * upstream, gradient.ended * upstream
    sums = RunningSums(before=begins, ended=ends, far_before=begins, far_ended=ends)
    priors = Priors(jnp.sum(begun, axis=0) * upstream, gradient.log_duration * upstream)
    return sums, priors, None, counts * upstream


def _gather_row(saved: _Saved, so_far: _Gradient, begin: Int[Array, ""]) -> tuple[_Gradient, Float[Array, " K"]]:
    """Adds β of one start and its segments' share of the gradient; returns Σ_t γ_k(begin, t) beside."""
    segment_codes = segment_codes_of(saved.known, saved.log_count.shape[0] - 1)
    window = window_after(begin, saved.alphas.shape[0], saved.priors)
    by_skill = ends_of(begin, window, saved.sums, saved.priors, saved.known)
    # β is written after these rows of it were read: without the barrier XLA copies all of it, each time.
    later = jax.lax.optimization_barrier(window.of(so_far.betas)[:, 1:])
    earlier = logsumexp(by_segment(by_skill, logsumexp(by_skill, axis=-1), segment_codes) + later, axis=0)
    betas = so_far.betas.at[begin, :-1].set(jnp.where(begin == saved.known.length, saved.log_count[:-1], earlier))

    shares = _shares(by_skill, saved.alphas[begin, :-1] + later - saved.total, segment_codes)
    by_length = _by_length(jnp.sum(shares, axis=-1), begin, window, so_far.log_duration.shape[0])
    gradient = _Gradient(betas, window.add(so_far.ended, shares), so_far.log_duration + by_length)
    return gradient, jnp.sum(shares, axis=0)


def _shares(
    by_skill: Float[Array, "width K"], around: Float[Array, "width M"], segment_codes: Int[Array, " listed"]
) -> Float[Array, "width K"]:
    """γ_k of a row, from the log-probability `around` of all that comes before and after it as the i-th segment."""
    # Probabilities: rounding must not lift them above one, where everything is impossible least of all.
    if segment_codes.shape[0] == 0:
        return jnp.exp(jnp.minimum(logsumexp(around, axis=-1)[:, None] + by_skill, 0.0))
    free = logsumexp(jnp.where(segment_codes == UNKNOWN, around, LOG_ZERO), axis=-1)
    told = around + jnp.take(by_skill, segment_codes, axis=-1, mode="fill", fill_value=LOG_ZERO)
    is_skill = jax.nn.one_hot(segment_codes, by_skill.shape[1])  # zero where the skill is unknown
    return jnp.exp(jnp.minimum(free[:, None] + by_skill, 0.0)) + jnp.exp(jnp.minimum(told, 0.0)) @ is_skill


def _by_length(
    shares: Float[Array, " width"], begin: Int[Array, ""], window: Window, num_lengths: int
) -> Float[Array, " lengths"]:
    """Shares of segments that end in a window, by their lengths 0, 1, ...: moved, which is faster than scattered."""
    padded = jnp.pad(shares, (1, num_lengths))
    return jax.lax.dynamic_slice_in_dim(padded, 1 + begin - window.first, num_lengths)


_log_total.defvjp(_log_total_forward, _log_total_backward)


def end_probs(
    alphas: Float[Array, "times counts"],
    sums: RunningSums,
    priors: Priors,
    known: Constraints,
    log_count: Float[Array, " counts"],
) -> Float[Array, "times counts"]:
    """P(b_i = t | a, s), as `recursion.end_probs`, but at row t and column i."""
    total = logsumexp(alphas[known.length] + log_count)
    betas = _backward(_Saved(sums, priors, known, log_count, alphas, total)).gradient.betas
    return jnp.exp(jnp.minimum(alphas + betas - total, 0.0))
