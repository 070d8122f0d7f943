"""Sums over all segmentations of one demonstration, by dynamic programming.

    α_0(0) = 0,    α_i(t) = log Σ_{t' < t} exp[ α_{i-1}(t') + S^i(t', t) ],    S^i(t', t) = log Σ_k exp S_k(t', t)

so that α_M(T) = log p(a | s, M), the double sum in the paper's generative model that it calls potentially intractable.
With max in place of log-sum-exp the same recursion finds the best segmentation; its gradient is the posterior. Where
the skill of the i-th segment is known, S^i has that one term only; else S^i is the same for all i.

These functions hold all starts and ends at once, which is fastest for demonstrations of some hundred steps;
`compile_il.inference.exact.streaming` computes the same row by row for long ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.inference.exact.constraints import Constraints, by_segment, feasible_counts, segment_codes_of
from compile_il.inference.exact.segment_scores import Priors, centre, segment_values
from compile_il.inference.records import LOG_ZERO, StepScores


class Posterior(NamedTuple):
    """What is known about a demonstration's segments after seeing it."""

    log_likelihood: Float[Array, ""]
    boundary_probs: Float[Array, " T"]
    """P(a segment starts at step t), for t >= 1; entry 0 and padding are zero."""
    skill_probs: Float[Array, "T K"]
    """P(step t belongs to skill k); zero on padding."""
    count_probs: Float[Array, " counts"]
    """P(there are M segments), for M = 0 .. largest."""


def forward(values: Float[Array, "tables times times"], max_segments: int) -> Float[Array, "counts times"]:
    """α_i(t) for i = 0 .. max_segments, from one table of S^i for each segment or one for all."""
    start = jnp.where(jnp.arange(values.shape[1]) == 0, 0.0, LOG_ZERO)

    def extend(
        alpha: Float[Array, " times"], i: Int[Array, ""]
    ) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
        longer = logsumexp(alpha[:, None] + table_of(values, i), axis=0)
        return longer, longer

    _, alphas = jax.lax.scan(extend, start, jnp.arange(max_segments))
    return jnp.concatenate([start[None], alphas])


def backward(
    values: Float[Array, "tables times times"], length: Int[Array, ""], log_count: Float[Array, " counts"]
) -> Float[Array, "counts times"]:
    """β_i(t): log Σ of all that can follow i segments that end at t."""
    ended = jnp.arange(values.shape[1]) == length
    max_segments = log_count.shape[0] - 1

    def prepend(
        beta: Float[Array, " times"], i: Int[Array, ""]
    ) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
        more = logsumexp(table_of(values, i) + beta, axis=1)
        earlier = jnp.where(ended, log_count[i], more)
        return earlier, earlier

    last = jnp.where(ended, log_count[max_segments], LOG_ZERO)
    _, betas = jax.lax.scan(prepend, last, jnp.arange(max_segments), reverse=True)
    return jnp.concatenate([betas, last[None]])


def end_probs(
    alphas: Float[Array, "counts times"],
    values: Float[Array, "tables times times"],
    length: Int[Array, ""],
    log_count: Float[Array, " counts"],
) -> Float[Array, "counts times"]:
    """P(b_i = t | a, s) = exp[ α_i(t) + β_i(t) - log p(a | s) ] at row i and column t, from α of a pass forward."""
    total = logsumexp(alphas[:, length] + log_count)
    return jnp.exp(jnp.minimum(alphas + backward(values, length, log_count) - total, 0.0))


def table_of(values: Float[Array, "tables times times"], i: Int[Array, ""]) -> Float[Array, "times times"]:
    """S^i: the table of segment i (from 0), or the one table that serves all segments."""
    return values[0] if values.shape[0] == 1 else values[i]


def tables_of(
    by_skill: Float[Array, "times times K"],
    over_skills: Float[Array, "times times"],
    segment_codes: Int[Array, " listed"],
) -> Float[Array, "tables times times"]:
    """S^i(t', t) for each segment i, or one table for all where nothing is known of their skills."""
    return jnp.moveaxis(by_segment(by_skill, over_skills, segment_codes), -1, 0)


def point_mass(num_segments: int | Int[Array, ""], max_segments: int) -> Float[Array, " counts"]:
    """Log-prior over the number of segments, 0 .. max_segments, that has all mass on one number."""
    return jnp.where(jnp.arange(max_segments + 1) == num_segments, 0.0, LOG_ZERO)


def log_likelihood(
    steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]
) -> Float[Array, ""]:
    """Log Σ_M p(M) p(a | s, M): all boundaries, skills and numbers of segments summed out.

    Args:
      steps: scores of each step.
      priors: over skills and durations.
      known: the demonstration's length, and labels.
      log_count: log p(M) for M = 0 .. largest; `exactly(M, largest)` where M is given.
    """
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    alphas = forward(
        tables_of(by_skill, logsumexp(by_skill, axis=-1), segment_codes_of(known, max_segments)), max_segments
    )
    return logsumexp(alphas[:, known.length] + feasible_counts(log_count, known)) + centred.taken


def posterior(steps: StepScores, priors: Priors, known: Constraints, log_count: Float[Array, " counts"]) -> Posterior:
    """Exact posteriors of boundaries, skills and number of segments, as gradients of the log-likelihood."""
    return posterior_by(log_likelihood, steps, priors, known, log_count)


def posterior_by(
    likelihood: Callable[[StepScores, Priors, Constraints, Float[Array, " counts"]], Float[Array, ""]],
    steps: StepScores,
    priors: Priors,
    known: Constraints,
    log_count: Float[Array, " counts"],
) -> Posterior:
    """Exact posteriors, as gradients of any function that computes the log-likelihood.

    The derivative of log p(a | s) by the score of an event is the probability of that event given the demonstration.
    """
    log_cut = jnp.zeros((steps.log_policy.shape[0] + 1,))

    def tilted(
        log_policy: Float[Array, "T K"], log_cut: Float[Array, " times"], log_count: Float[Array, " counts"]
    ) -> Float[Array, ""]:
        # A term added to the log-probability of stopping before step t is added once for each segment ending there.
        stop = steps.log_stop + log_cut[1:, None]
        return likelihood(steps._replace(log_policy=log_policy, log_stop=stop), priors, known, log_count)

    total, (skills, cuts, counts) = jax.value_and_grad(tilted, argnums=(0, 1, 2))(steps.log_policy, log_cut, log_count)
    inner = (jnp.arange(log_cut.shape[0]) > 0) & (jnp.arange(log_cut.shape[0]) < known.length)
    return Posterior(total, jnp.where(inner, cuts, 0.0)[:-1], skills, counts)
