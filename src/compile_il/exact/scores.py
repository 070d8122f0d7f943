"""What a segment is worth: the log-probability that skill k takes over at step t' and stops after step t - 1.

With Markov policies and a termination rule the value of a segment is a difference of running sums (`docs/exact.md`):

    l_k(t) = log π_k(a_t | s_t)                 ψ_k(t) = P(skill k stops on arriving from step t)
    C_k(t) = Σ_{j<t} [ l_k(j) + log(1 - ψ_k(j)) ]
    E_k(t) = C_k(t) - log(1 - ψ_k(t-1)) + log ψ_k(t-1)
    S_k(t', t) = E_k(t) - C_k(t') + log p(k) + log p(t - t')

where p(k) is the prior over skills and p(t - t') a factor for the segment's length. What is known about a demonstration
(labels) removes segments that contradict it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LOG_ZERO = -1e30
"""Log of an impossible event: far below any real score, yet finite, so that sums and gradients stay numbers."""


class StepScores(NamedTuple):
    """What the networks say about each step of one demonstration, for each skill."""

    log_policy: Float[Array, "T K"]
    """l_k(t): how well skill k explains action t."""
    log_stop: Float[Array, "T K"]
    """log ψ_k(t)."""
    log_go: Float[Array, "T K"]
    """log(1 - ψ_k(t))."""


class Priors(NamedTuple):
    """Factors that do not look at the demonstration."""

    log_skill: Float[Array, " K"]
    log_duration: Float[Array, " lengths"]
    """Entry d is the factor of a segment of d steps; entry 0 is never used."""


class Known(NamedTuple):
    """What is known about one demonstration, as sums that tell in O(1) whether a segment contradicts it."""

    length: Int[Array, ""]
    """Steps that are real; the rest is padding."""
    may_cut: Bool[Array, " times"]
    """Whether a segment may end (and the next begin) before step t."""
    num_cuts: Int[Array, " times"]
    """Boundaries known to lie at steps 1..t; a segment over one of them is impossible."""
    num_refused: Int[Array, "times K"]
    """Steps before t that are known not to be skill k."""


UNKNOWN = -1


def nothing_known(length: Int[Array, ""], num_steps: int, num_skills: int) -> Known:
    """No labels: every segmentation is possible."""
    return Known(
        length=length,
        may_cut=jnp.ones((num_steps + 1,), bool),
        num_cuts=jnp.zeros((num_steps + 1,), jnp.int32),
        num_refused=jnp.zeros((num_steps + 1, num_skills), jnp.int32),
    )


def known_from_labels(
    length: Int[Array, ""], boundaries: Int[Array, " T"], codes: Int[Array, " T"], num_skills: int
) -> Known:
    """Partial labels of each step: boundaries in {1, 0, -1}, codes in {0.., -1}, where -1 is unknown."""
    cut = jnp.append(boundaries == 1, False).at[0].set(False)
    refused = (codes[:, None] != UNKNOWN) & (codes[:, None] != jnp.arange(num_skills))
    return Known(
        length=length,
        may_cut=jnp.append(boundaries != 0, True).at[0].set(True),
        num_cuts=jnp.cumsum(cut.astype(jnp.int32)),
        num_refused=jnp.pad(jnp.cumsum(refused.astype(jnp.int32), axis=0), ((1, 0), (0, 0))),
    )


class RunningSums(NamedTuple):
    """C_k(t) and E_k(t) for t = 0..T; E_k(0) is never used."""

    before: Float[Array, "times K"]
    ended: Float[Array, "times K"]


def running_sums(steps: StepScores) -> RunningSums:
    """The sums from which every segment's value follows."""
    before = jnp.pad(jnp.cumsum(steps.log_policy + steps.log_go, axis=0), ((1, 0), (0, 0)))
    ended = before[1:] - steps.log_go + steps.log_stop
    return RunningSums(before, jnp.pad(ended, ((1, 0), (0, 0))))


class Centred(NamedTuple):
    """Step scores with the best skill of each step at zero, and what that took from every whole segmentation."""

    steps: StepScores
    taken: Float[Array, ""]


def centre(steps: StepScores, length: Int[Array, ""]) -> Centred:
    """Takes the same constant out of all skills at each step.

    Every segmentation covers every step once, so all lose the same, and the running sums of the skills that matter stay
    small: their differences are exact in float32 even after thousands of steps. Padding is set to zero.
    """
    real = (jnp.arange(steps.log_policy.shape[0]) < length)[:, None]
    best = jnp.max(steps.log_policy, axis=1, keepdims=True)
    cleaned = StepScores(*(jnp.where(real, score, 0.0) for score in steps))
    return Centred(
        cleaned._replace(log_policy=jnp.where(real, steps.log_policy - best, 0.0)), jnp.sum(best, where=real)
    )


def starts_of(end: Int[Array, ""], sums: RunningSums, priors: Priors, known: Known) -> Float[Array, "times K"]:
    """S_k(t', t) for one end t and all starts t': a row that streaming computes and forgets."""
    times = jnp.arange(sums.before.shape[0])
    values = sums.ended[end] - sums.before + priors.log_skill + _log_duration(end - times, priors)[:, None]
    return jnp.where(_possible(times, end, known), values, LOG_ZERO)


def ends_of(start: Int[Array, ""], sums: RunningSums, priors: Priors, known: Known) -> Float[Array, "times K"]:
    """S_k(t', t) for one start t' and all ends t."""
    times = jnp.arange(sums.before.shape[0])
    values = sums.ended - sums.before[start] + priors.log_skill + _log_duration(times - start, priors)[:, None]
    return jnp.where(jax.vmap(_possible, in_axes=(None, 0, None))(start, times, known), values, LOG_ZERO)


def segment_values(steps: StepScores, priors: Priors, known: Known) -> Float[Array, "times times K"]:
    """S_k(t', t) for all starts t', ends t and skills: the dense table, for short demonstrations."""
    sums = running_sums(steps)
    times = jnp.arange(sums.before.shape[0])
    return jax.vmap(starts_of, in_axes=(0, None, None, None), out_axes=1)(times, sums, priors, known)


def _log_duration(duration: Int[Array, " times"], priors: Priors) -> Float[Array, " times"]:
    longest = priors.log_duration.shape[0] - 1
    factor = priors.log_duration[jnp.clip(duration, 0, longest)]
    return jnp.where((duration >= 1) & (duration <= longest), factor, LOG_ZERO)


def _possible(start: Int[Array, "*times"], end: Int[Array, ""], known: Known) -> Bool[Array, "*times K"]:
    """Whether a segment [start, end) of each skill contradicts nothing that is known."""
    # Inside the segment no boundary is known: none at the steps start + 1 .. end - 1.
    uncut = known.num_cuts[jnp.maximum(end - 1, 0)] <= known.num_cuts[start]
    cut_well = known.may_cut[start] & (known.may_cut[end] | (end == known.length))
    real = (start < end) & (end <= known.length)
    allowed = known.num_refused[end] == known.num_refused[start]
    return (uncut & cut_well & real)[..., None] & allowed
