"""The same sums as in `compile_il.exact.recursion`, row by row, for long demonstrations.

Dense recursion holds S_k(t', t) for all starts, ends and skills: T x T x K numbers. Here one row of it exists at a
time, and memory is O(T (K + M)). Going forward, a row has one end t and all starts (α_i as in `recursion`); going
backward, it has one start t' and all ends:

    β_i(T) = log p(M = i),    β_i(t') = log Σ_{t > t'} exp[ S(t', t) + β_{i+1}(t) ]

    γ_k(t', t) = exp[ log Σ_i exp(α_i(t') + β_{i+1}(t)) + S_k(t', t) - log p(a | s) ]

γ_k(t', t) is the probability of the segment [t', t) with skill k, and the derivative of log p(a | s) by S_k(t', t):
sums of it over the row are all that the gradient needs, so that the pass backward computes them and forgets the row.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.exact.recursion import Posterior, Segmentation, posterior_by
from compile_il.exact.scores import (
    LOG_ZERO,
    Known,
    Priors,
    RunningSums,
    StepScores,
    centre,
    ends_of,
    running_sums,
    starts_of,
)


def log_likelihood(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Float[Array, ""]:
    """Log Σ_M p(M) p(a | s, M), as `recursion.log_likelihood`."""
    centred = centre(steps, known.length)
    return _log_total(running_sums(centred.steps), priors, known, log_count) + centred.taken


def posterior(steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]) -> Posterior:
    """Exact posteriors, as `recursion.posterior`."""
    return posterior_by(log_likelihood, steps, priors, known, log_count)


def _start(num_times: int, num_counts: int) -> Float[Array, "times counts"]:
    """Before anything is known of later times: no segments at time 0, and nothing else."""
    return jnp.full((num_times, num_counts), LOG_ZERO).at[0, 0].set(0.0)


def _forward(
    sums: RunningSums, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Float[Array, "times counts"]:
    """α_i(t) at row t and column i."""
    num_times = sums.before.shape[0]

    def extend(alphas: Float[Array, "times counts"], end: Int[Array, ""]) -> tuple[Float[Array, "times counts"], None]:
        values = logsumexp(starts_of(end, sums, priors, known), axis=-1)
        longer = logsumexp(alphas[:, :-1] + values[:, None], axis=0)
        return alphas.at[end, 1:].set(longer), None

    alphas, _ = jax.lax.scan(extend, _start(num_times, log_count.shape[0]), jnp.arange(1, num_times))
    return alphas


@jax.custom_vjp
def _log_total(sums: RunningSums, priors: Priors, known: Known, log_count: Float[Array, " counts"]) -> Float[Array, ""]:
    """The likelihood of centred scores."""
    return logsumexp(_forward(sums, priors, known, log_count)[known.length] + log_count)


class _Saved(NamedTuple):
    """What the pass backward needs of the pass forward."""

    sums: RunningSums
    priors: Priors
    known: Known
    log_count: Float[Array, " counts"]
    alphas: Float[Array, "times counts"]
    total: Float[Array, ""]


class _Gradient(NamedTuple):
    """Sums of γ, gathered while the pass backward goes along."""

    betas: Float[Array, "times counts"]
    ended: Float[Array, "times K"]
    log_duration: Float[Array, " lengths"]


def _log_total_forward(
    sums: RunningSums, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> tuple[Float[Array, ""], _Saved]:
    alphas = _forward(sums, priors, known, log_count)
    total = logsumexp(alphas[known.length] + log_count)
    return total, _Saved(sums, priors, known, log_count, alphas, total)


def _log_total_backward(saved: _Saved, upstream: Float[Array, ""]) -> tuple[Any, ...]:
    num_times, num_skills = saved.sums.before.shape
    start = _Gradient(
        betas=jnp.full_like(saved.alphas, LOG_ZERO).at[saved.known.length].set(saved.log_count),
        ended=jnp.zeros((num_times, num_skills)),
        log_duration=jnp.zeros_like(saved.priors.log_duration),
    )

    def step_back(so_far: _Gradient, begin: Int[Array, ""]) -> tuple[_Gradient, Float[Array, " K"]]:
        return _gather_row(saved, so_far, begin)

    gradient, begun = jax.lax.scan(step_back, start, jnp.arange(num_times), reverse=True)
    counts = jnp.exp(saved.alphas[saved.known.length] + saved.log_count - saved.total)
    sums = RunningSums(before=-begun * upstream, ended=gradient.ended * upstream)
    priors = Priors(jnp.sum(begun, axis=0) * upstream, gradient.log_duration * upstream)
    return sums, priors, None, counts * upstream


def _gather_row(saved: _Saved, so_far: _Gradient, begin: Int[Array, ""]) -> tuple[_Gradient, Float[Array, " K"]]:
    """β of one start, and its segments' share of the gradient; returns Σ_t γ_k(begin, t) beside."""
    num_times = saved.alphas.shape[0]
    by_skill = ends_of(begin, saved.sums, saved.priors, saved.known)
    values, later = logsumexp(by_skill, axis=-1), so_far.betas[:, 1:]
    earlier = logsumexp(values[:, None] + later, axis=0)
    betas = so_far.betas.at[begin, :-1].set(jnp.where(begin == saved.known.length, saved.log_count[:-1], earlier))

    around = logsumexp(saved.alphas[begin, :-1] + later, axis=-1)
    # A probability: rounding must not lift it above one, where everything is impossible least of all.
    shares = jnp.exp(jnp.minimum(around[:, None] + by_skill - saved.total, 0.0))
    longest = so_far.log_duration.shape[0] - 1
    durations = jnp.clip(jnp.arange(num_times) - begin, 0, longest)
    log_duration = so_far.log_duration.at[durations].add(jnp.sum(shares, axis=-1))
    return _Gradient(betas, so_far.ended + shares, log_duration), jnp.sum(shares, axis=0)


_log_total.defvjp(_log_total_forward, _log_total_backward)


class _Best(NamedTuple):
    """For each time and number of segments, the last segment of the best way to get there."""

    start: Int[Array, "times counts-1"]
    skill: Int[Array, "times counts-1"]


def best_segmentation(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The most probable segmentation (Viterbi), as `recursion.best_segmentation`."""
    centred = centre(steps, known.length)
    sums = running_sums(centred.steps)
    num_times, max_segments = sums.before.shape[0], log_count.shape[0] - 1

    def extend(bests: Float[Array, "times counts"], end: Int[Array, ""]) -> tuple[Float[Array, "times counts"], _Best]:
        by_skill = starts_of(end, sums, priors, known)
        options = bests[:, :-1] + jnp.max(by_skill, axis=-1)[:, None]
        origin = jnp.argmax(options, axis=0)
        return bests.at[end, 1:].set(jnp.max(options, axis=0)), _Best(origin, jnp.argmax(by_skill[origin], axis=-1))

    bests, last = jax.lax.scan(extend, _start(num_times, max_segments + 1), jnp.arange(1, num_times))
    totals = bests[known.length, 1:] + log_count[1:]
    num_segments = jnp.argmax(totals) + 1

    def step_back(
        end: Int[Array, ""], i: Int[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[Int[Array, ""], Int[Array, ""]]]:
        used = i < num_segments
        begin, skill = last.start[end - 1, i], last.skill[end - 1, i]
        return jnp.where(used, begin, end), (end, jnp.where(used, skill, -1))

    _, (ends, skills) = jax.lax.scan(step_back, known.length, jnp.arange(max_segments), reverse=True)
    return Segmentation(num_segments, ends, skills, jnp.max(totals) + centred.taken)
