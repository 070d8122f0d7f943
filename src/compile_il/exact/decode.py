"""From sums over all segmentations to a single one: the most probable, the one to be right most often, or a draw.

Functions of one demonstration that hold all starts and ends at once; `compile_il.exact.streaming_decode` gives the same
row by row for long ones.
"""

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.exact.known import Known, counts_left, named, segment_codes_of
from compile_il.exact.recursion import end_probs, forward, table_of, tables_of
from compile_il.exact.scores import Centred, Priors, StepScores, centre, segment_values
from compile_il.exact.walks import Candidates, LastSegment, Segmentation, sample_back, walk_back
from compile_il.log_space import LOG_ZERO


def best_segmentation(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The most probable boundaries, skills and number of segments, jointly (Viterbi)."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    segment_codes, log_count = segment_codes_of(known, log_count.shape[0] - 1), counts_left(log_count, known)
    values = tables_of(by_skill, jnp.max(by_skill, axis=-1), segment_codes)
    nothing = jnp.zeros((log_count.shape[0], by_skill.shape[0]))
    return _best_path(values, nothing, by_skill, known, log_count, centred)


def best_boundaries(
    steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """The boundaries of which most can be expected to be right, for the most probable number of segments.

        max_b Σ_i P(b_i | a, s)

    and for each segment its most probable skill. `best_segmentation` finds the single best path; where many paths share
    a boundary and differ in others or in skills, none of them has to be that path.
    """
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    segment_codes, log_count = segment_codes_of(known, max_segments), counts_left(log_count, known)
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
    known: Known,
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
        skill = named(jnp.argmax(by_skill[begin, end]), i, segment_codes)
        return LastSegment(begin, skill, by_skill[begin, end, skill])

    return walk_back(last_segment, known.length, num_segments, log_count, centred.taken)


def sample_segmentation(
    key: PRNGKeyArray, steps: StepScores, priors: Priors, known: Known, log_count: Float[Array, " counts"]
) -> Segmentation:
    """One draw from the posterior over number of segments, boundaries and skills, made backwards from the end."""
    centred = centre(steps, known.length)
    by_skill = segment_values(centred.steps, priors, known)
    max_segments = log_count.shape[0] - 1
    segment_codes, log_count = segment_codes_of(known, max_segments), counts_left(log_count, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), segment_codes)
    alphas = forward(values, max_segments)

    def candidates(i: Int[Array, ""], end: Int[Array, ""]) -> Candidates:
        return Candidates(jnp.array(0), alphas[i] + table_of(values, i)[:, end], by_skill[:, end])

    return sample_back(key, candidates, known.length, alphas[:, known.length], segment_codes, log_count, centred.taken)
