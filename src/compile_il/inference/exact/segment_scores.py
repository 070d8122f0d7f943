"""Scores segments: the log-probability that skill k takes over at step t' and stops after step t - 1.

With Markov policies and a termination rule the value of a segment is a difference of running sums (`docs/exact.md`):

    l_k(t) = log π_k(a_t | s_t)                 ψ_k(t) = P(skill k stops on arriving from step t)
    C_k(t) = Σ_{j<t} [ l_k(j) + log(1 - ψ_k(j)) ]
    E_k(t) = C_k(t) - log(1 - ψ_k(t-1)) + log ψ_k(t-1)
    S_k(t', t) = E_k(t) - C_k(t') + log p(k) + log p(t - t')

where p(k) is the prior over skills and p(t - t') a factor for the segment's length. Segments that contradict the
demonstration's labels (`compile_il.inference.exact.constraints`) are impossible.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped
from numpy.typing import NDArray

from compile_il.data.labels import UNKNOWN
from compile_il.inference.exact.constraints import Constraints, feasible_counts, with_max_segments
from compile_il.inference.records import LOG_ZERO, StepScores


class Priors(NamedTuple):
    """Log-factors of a segment's skill and of its length."""

    log_skill: Float[Array, " K"]
    log_duration: Float[Array, " lengths"]
    """Log-factor of a segment of d steps at entry d; entry 0 is never used, longer segments are impossible."""


def point_mass(num_segments: int | Int[Array, ""], max_segments: int) -> Float[Array, " counts"]:
    """Returns log p(M) for M = 0 .. max_segments, with all mass on one number."""
    return jnp.where(jnp.arange(max_segments + 1) == num_segments, 0.0, LOG_ZERO)


def unknown_count(most: int, cost: float = 0.0) -> Float[Array, " counts"]:
    """Returns log p(M) of an unknown number of segments up to `most`: each further segment has a `cost`."""
    counts = jnp.arange(most + 1)
    costs = jnp.where(counts == 0, LOG_ZERO, -cost * counts)
    return jnp.where(counts == 0, LOG_ZERO, jax.nn.log_softmax(costs))


def log_counts_of(counts: NDArray[np.integer], most: int, cost: float) -> NDArray[np.float32]:
    """Returns log p(M) of each demonstration as a row: all mass on its number, or where `UNKNOWN`, `unknown_count`."""
    is_unknown = counts == UNKNOWN
    largest = max(int(counts.max()), most if is_unknown.any() else 0)
    rows = np.where(np.arange(largest + 1) == counts[:, None], 0.0, LOG_ZERO)
    rows[is_unknown, : most + 1] = unknown_count(most, cost)[: largest + 1]
    return rows.astype(np.float32)


FAR = -1000.0
"""Threshold of scores: the part of a score that lies below it is summed separately (`RunningSums`)."""


class RunningSums(NamedTuple):
    """C_k(t) and E_k(t) for t = 0..T, each as a sum of two; E_k(0) is never used.

    A step that a skill explains hopelessly badly must not cost its sums the digits that later segments need. So what
    lies below `FAR` is summed apart: between two times without such a step, the difference of that sum is exactly zero.
    """

    before: Float[Array, "times K"]
    ended: Float[Array, "times K"]
    far_before: Float[Array, "times K"]
    far_ended: Float[Array, "times K"]


class SegmentScores(NamedTuple):
    """Inputs of sums over the segmentations of one demonstration."""

    sums: RunningSums
    priors: Priors
    constraints: Constraints
    log_count: Float[Array, " counts"]
    """Log p(M) for M = 0 .. largest."""
    offset: Float[Array, ""]
    """Log-probability that centring took from every segmentation."""


def score_segments(
    steps: StepScores, priors: Priors, constraints: Constraints, log_count: Float[Array, " counts"]
) -> SegmentScores:
    """Prepares the scores of segments of one demonstration.

    Scores are centred: the largest log-policy of each step is taken out of those of all skills. Every segmentation
    covers every step once, so all lose the same, and the running sums of the skills that matter stay small: their
    differences are exact in float32 even after thousands of steps. Padding is set to zero.
    """
    real = (jnp.arange(steps.log_policy.shape[0]) < constraints.length)[:, None]
    steps = StepScores(*(jnp.maximum(score, LOG_ZERO) for score in steps))  # a probability of zero has no logarithm
    best = jnp.max(steps.log_policy, axis=1, keepdims=True)
    cleaned = StepScores(*(jnp.where(real, score, 0.0) for score in steps))
    centred = cleaned._replace(log_policy=jnp.where(real, steps.log_policy - best, 0.0))
    near = StepScores(*(jnp.maximum(score, FAR) for score in centred))
    far = StepScores(*(jnp.minimum(score - FAR, 0.0) for score in centred))
    return SegmentScores(
        sums=RunningSums(*_sums(near), *_sums(far)),
        priors=priors,
        constraints=with_max_segments(constraints, log_count.shape[0] - 1),
        log_count=feasible_counts(log_count, constraints),
        offset=jnp.sum(best, where=real),
    )


def _sums(steps: StepScores) -> tuple[Float[Array, "times K"], Float[Array, "times K"]]:
    before = jnp.pad(jnp.cumsum(steps.log_policy + steps.log_go, axis=0), ((1, 0), (0, 0)))
    ended = before[:-1] + steps.log_policy + steps.log_stop
    return before, jnp.pad(ended, ((1, 0), (0, 0)))


class Window(NamedTuple):
    """Times that a row of S_k needs: as many as the longest segment has steps, at most all."""

    first: Int[Array, ""]
    width: int

    @property
    def times(self) -> Int[Array, " width"]:
        """Times in the window."""
        return self.first + jnp.arange(self.width)

    def of(self, table: Shaped[Array, "times ..."]) -> Shaped[Array, "width ..."]:
        """Returns the rows of a table at the window's times."""
        if self.width == table.shape[0]:
            return table
        return jax.lax.dynamic_slice_in_dim(table, self.first, self.width)

    def add(self, table: Float[Array, "times ..."], rows: Float[Array, "width ..."]) -> Float[Array, "times ..."]:
        """Returns a table with `rows` added at the window's times."""
        if self.width == table.shape[0]:
            return table + rows
        return jax.lax.dynamic_update_slice_in_dim(table, self.of(table) + rows, self.first, 0)


def starts_of(scores: SegmentScores, end: Int[Array, ""]) -> tuple[Window, Float[Array, "width K"]]:
    """Returns S_k(t', t) for one end t, and the window of starts t' that a segment may have."""
    num_times, width = _widths(scores)
    window = Window(jnp.clip(end - width, 0, num_times - width), width)
    return window, _values(scores, window.times, end, window.of, lambda table: table[end])


def ends_of(scores: SegmentScores, start: Int[Array, ""]) -> tuple[Window, Float[Array, "width K"]]:
    """Returns S_k(t', t) for one start t', and the window of ends t that a segment may have."""
    num_times, width = _widths(scores)
    window = Window(jnp.clip(start + 1, 0, num_times - width), width)
    return window, _values(scores, start, window.times, lambda table: table[start], window.of)


def all_segments(scores: SegmentScores) -> Float[Array, "times times K"]:
    """Returns S_k(t', t) for all starts t', ends t and skills."""
    times = jnp.arange(scores.sums.before.shape[0])
    # Broadcast rather than indexed: the gradient of indexing is a scatter, which is slow on accelerators.
    return _values(scores, times[:, None], times[None], lambda table: table[:, None], lambda table: table[None])


def _widths(scores: SegmentScores) -> tuple[int, int]:
    """Returns the number of times, and how many of them a window has."""
    num_times, longest = scores.sums.before.shape[0], scores.priors.log_duration.shape[0] - 1
    return num_times, longest if longest < num_times - 1 else num_times


def _values(
    scores: SegmentScores,
    start: Int[Array, "*starts"],
    end: Int[Array, "*ends"],
    at_start: Callable[[Array], Array],
    at_end: Callable[[Array], Array],
) -> Float[Array, "*times K"]:
    """Returns S_k(t', t) for starts and ends that broadcast against each other, as rows of tables at them do."""
    sums, priors, constraints = scores.sums, scores.priors, scores.constraints
    duration, longest = end - start, priors.log_duration.shape[0] - 1
    log_duration = priors.log_duration[jnp.clip(duration, 0, longest)]
    log_duration = jnp.where((duration >= 1) & (duration <= longest), log_duration, LOG_ZERO)
    far = at_end(sums.far_ended) - at_start(sums.far_before)
    values = at_end(sums.ended) - at_start(sums.before) + priors.log_skill + log_duration[..., None]
    values = jnp.maximum(values + far, LOG_ZERO)
    # No boundary is labelled inside the segment, at the steps start + 1 .. end - 1.
    uncut = at_end(jnp.roll(constraints.num_cuts, 1).at[0].set(0)) <= at_start(constraints.num_cuts)
    cut_well = at_start(constraints.may_cut) & (at_end(constraints.may_cut) | (end == constraints.length))
    real = (duration >= 1) & (end <= constraints.length)
    allowed = at_end(constraints.num_refused) == at_start(constraints.num_refused)
    return jnp.where((uncut & cut_well & real)[..., None] & allowed, values, LOG_ZERO)
