"""Sums over all segmentations of one demonstration, by dynamic programming.

    α_0(0) = 0,    α_i(t) = log Σ_{t' < t} exp[ α_{i-1}(t') + S^i(t', t) ],    S^i(t', t) = log Σ_k exp S_k(t', t)

so that α_M(T) = log p(a | s, M), the double sum in the paper's generative model that it calls potentially intractable.
With max in place of log-sum-exp the same recursion finds the best segmentation; its gradient is the posterior. Where
the skill of the i-th segment is known, S^i has that one term only; else S^i is the same for all i.

These functions hold all starts and ends at once, which is fastest for demonstrations of some hundred steps;
`compile_il.exact.streaming` computes the same row by row for long ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.exact.known import LOG_ZERO, Known, by_segment, counts_left, named, sketch_of
from compile_il.exact.scores import Priors, StepScores, centre, segment_values


class Segmentation(NamedTuple):
    """One way to cut a demonstration, padded to the largest number of segments."""

    num_segments: Int[Array, ""]
    ends: Int[Array, " M"]
    """b_1 .. b_M, the last one the demonstration's length; repeated beyond `num_segments`."""
    skills: Int[Array, " M"]
    """z_1 .. z_M; -1 beyond `num_segments`."""
    log_prob: Float[Array, ""]
    """log p(a, b, z | s, M), or with a prior over M also log p(M)."""


class Posterior(NamedTuple):
    """What is known about a demonstration's segments after seeing it."""

    log_likelihood: Float[Array, ""]
    boundary_probs: Float[Array, " T"]
    """P(a segment starts at step t), for t >= 1; entry 0 is zero."""
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
        longer = logsumexp(alpha[:, None] + _table(values, i), axis=0)
        return longer, longer

    _, alphas = jax.lax.scan(extend, start, jnp.arange(max_segments))
    return jnp.concatenate([start[None], alphas])


def _table(values: Float[Array, "tables times times"], i: Int[Array, ""]) -> Float[Array, "times times"]:
    return values[0] if values.shape[0] == 1 else values[i]


def _tables(
    by_skill: Float[Array, "times times K"], over_skills: Float[Array, "times times"], sketch: Int[Array, " sketch"]
) -> Float[Array, "tables times times"]:
    return jnp.moveaxis(by_segment(by_skill, over_skills, sketch), -1, 0)


def exactly(num_segments: int | Int[Array, ""], max_segments: int) -> Float[Array, " counts"]:
    """The prior over the number of segments that knows it: all mass on one number."""
    return jnp.where(jnp.arange(max_segments + 1) == num_segments, 0.0, LOG_ZERO)


def log_likelihood(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
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
    alphas = forward(_tables(by_skill, logsumexp(by_skill, axis=-1), sketch_of(known, max_segments)), max_segments)
    return logsumexp(alphas[:, known.length] + counts_left(log_count, known)) + centred.taken


def posterior(steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]) -> Posterior:
    """Exact posteriors, as gradients of the likelihood."""
    return posterior_by(log_likelihood, steps, priors, known, log_count)


def posterior_by(
    likelihood: Callable[[StepScores, Priors, Known, Float[Array, " counts"]], Float[Array, ""]],
    steps: StepScores,
    priors: Priors,
    known: Known,
    log_count: Float[Array, " counts"],
) -> Posterior:
    """Posteriors from any way to compute the likelihood.

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
    max_segments = log_count.shape[0] - 1
    sketch = sketch_of(known, max_segments)
    values, skills = _tables(by_skill, jnp.max(by_skill, axis=-1), sketch), jnp.argmax(by_skill, axis=-1)
    start = jnp.where(jnp.arange(skills.shape[0]) == 0, 0.0, LOG_ZERO)

    def extend(
        best: Float[Array, " times"], i: Int[Array, ""]
    ) -> tuple[Float[Array, " times"], tuple[Float[Array, " times"], Int[Array, " times"]]]:
        options = best[:, None] + _table(values, i)
        longer = jnp.max(options, axis=0)
        return longer, (longer, jnp.argmax(options, axis=0))

    _, (bests, origins) = jax.lax.scan(extend, start, jnp.arange(max_segments))
    totals = bests[:, known.length] + counts_left(log_count, known)[1:]
    num_segments = jnp.argmax(totals) + 1

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        begin = origins[i, end]
        return LastSegment(begin, named(skills[begin, end], i, sketch), jnp.zeros(()))

    walk = walk_back(last_segment, known.length, num_segments, max_segments)
    return Segmentation(num_segments, walk.ends, walk.skills, jnp.max(totals) + centred.taken)


def sample_segmentation(
    key: PRNGKeyArray, steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """One draw from the posterior over number, boundaries and skills, walking backwards from the end."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    sketch, log_count = sketch_of(known, max_segments), counts_left(log_count, known)
    values = _tables(by_skill, logsumexp(by_skill, axis=-1), sketch)
    alphas = forward(values, max_segments)
    count_key, walk_key = jax.random.split(key)
    num_segments = jax.random.categorical(count_key, alphas[:, known.length] + log_count)
    keys = jax.random.split(walk_key, (max_segments, 2))

    def last_segment(i: Int[Array, ""], end: Int[Array, ""]) -> LastSegment:
        begin = jax.random.categorical(keys[i, 0], alphas[i] + _table(values, i)[:, end])
        skill = named(jax.random.categorical(keys[i, 1], by_skill[begin, end]), i, sketch)
        return LastSegment(begin, skill, by_skill[begin, end, skill])

    walk = walk_back(last_segment, known.length, num_segments, max_segments)
    return Segmentation(num_segments, walk.ends, walk.skills, walk.log_prob + log_count[num_segments] + centred.taken)
