"""Any number of demonstrations, of any lengths, segmented part by part: few programs, and bounded memory.

From networks and a batch to segmentations: by summing over all of them, or by the paper's recognition model.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped
from numpy.typing import NDArray

from compile_il.config import Best
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.batch import Batch, Cost, alike_in_length, rounded_batch, rows_filled_up
from compile_il.data.segments import Segments, join_segments
from compile_il.inference.exact.decode import Segmentation
from compile_il.inference.exact.objective import DENSE, recursion_for, score_batch
from compile_il.inference.exact.recursion import Posterior
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.exact.skills import Skills
from compile_il.inference.log_space import is_impossible
from compile_il.inference.relaxed.decode import HardSegments, segment
from compile_il.inference.relaxed.distributions import gaussian_kl, log_boundary_prior, prior_mean
from compile_il.inference.relaxed.objective import ActionEvidence, log_actions
from compile_il.inference.relaxed.recognition import Readout
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.inference.relaxed.supervision import Supervision, supervision_of_batch
from compile_il.networks.policies import SkillPolicies


class Found(NamedTuple):
    """What a decoder finds in each demonstration of a batch."""

    num_segments: Int[Array, " B"]
    ends: Int[Array, "B M"]
    """Ends of the segments, b_1 .. b_M."""
    skills: Shaped[Array, "B M ..."]
    """The skill of each segment, or its code where codes are vectors."""
    boundary_probs: Float[Array, "B T"]
    """P(a segment starts at step t)."""
    count_probs: Float[Array, "B counts"]
    """P(there are M segments)."""
    log_likelihood: Float[Array, " B"]


@eqx.filter_jit
def decode_exactly(
    skills: Skills | RelaxedSkills,
    batch: Batch,
    priors: Priors,
    log_counts: Float[Array, "B counts"],
    best: Best = "boundaries",
) -> Found:
    """Segments a batch by sums over all segmentations, with log p(M) of each demonstration."""
    steps, known = score_batch(skills, batch)
    recursion = recursion_for(steps.log_policy.shape[1])
    find = recursion.best_boundaries if best == "boundaries" else recursion.best_segmentation
    each = functools.partial(jax.vmap, in_axes=(0, None, 0, 0))
    path = each(find)(steps, priors, known, log_counts)
    return _found(path, each(recursion.posterior)(steps, priors, known, log_counts))


@eqx.filter_jit
def draw_exactly(
    skills: Skills | RelaxedSkills,
    batch: Batch,
    priors: Priors,
    log_counts: Float[Array, "B counts"],
    keys: Key[Array, " B"],
) -> Found:
    """Draws one segmentation of each demonstration from the posterior over all of them."""
    steps, known = score_batch(skills, batch)
    recursion = recursion_for(steps.log_policy.shape[1])
    draw = jax.vmap(recursion.sample_segmentation, in_axes=(0, 0, None, 0, 0))
    path = draw(keys, steps, priors, known, log_counts)
    posterior = jax.vmap(recursion.posterior, in_axes=(0, None, 0, 0))(steps, priors, known, log_counts)
    return _found(path, posterior)


def _found(path: Segmentation, posterior: Posterior) -> Found:
    return Found(
        num_segments=path.num_segments,
        ends=path.ends,
        skills=path.skills,
        boundary_probs=posterior.boundary_probs,
        count_probs=posterior.count_probs,
        log_likelihood=posterior.log_likelihood,
    )


@eqx.filter_jit
def decode_by_recognition(
    skills: RelaxedSkills, batch: Batch, log_counts: Float[Array, "B counts"], rate: float, readout: Readout
) -> Found:
    """Finds one segment at a time, as many as told; what is empty is left out (`compile_il.inference.relaxed.decode`).

    Boundary probabilities are those of the recognition model, each given the cuts before it. The log-likelihood is that
    of the actions together with the segmentation found, a lower bound to that of the actions; where codes are Gaussian
    and not told, with the divergence of the code from its prior in place of its log-probability.
    """
    frames, counts, most = skills.read(batch), jnp.argmax(log_counts, axis=-1), log_counts.shape[1] - 1
    lengths, told, times = jnp.asarray(batch.lengths), supervision_of_batch(batch, counts, most), frames.inputs.shape[1]

    def cut(inputs: Float[Array, "times input"], length: Int[Array, ""], told: Supervision) -> HardSegments:
        return segment(skills.recognition, inputs, length, told, readout)

    hard = jax.vmap(cut)(frames.inputs, lengths, told)
    begins = jnp.pad(hard.ends[:, :-1], ((0, 0), (1, 0)))
    behind = (jnp.arange(times) >= begins[..., None]).astype(frames.inputs.dtype)
    evidence = skills.in_segments(frames, behind, lengths)[:, :, :-1]

    def judge(
        hard: HardSegments, seen: ActionEvidence, begins: Int[Array, " M"], length: Int[Array, ""], told: Supervision
    ) -> Found:
        codes, log_prior = codes_of(skills, hard, told)
        used = begins < length
        of_step = jnp.sum(jnp.arange(times - 1)[:, None] >= hard.ends[:-1], axis=1)
        fits = log_actions(skills.policies, seen, codes, of_step)
        real = jnp.arange(fits.shape[0]) < length
        inner = jnp.arange(most) < told.num_segments - 1
        where = jax.vmap(lambda begin, end: log_boundary_prior(rate, length, begin, end, times))(begins, hard.ends)
        return Found(
            num_segments=jnp.sum(used),
            ends=hard.ends,
            skills=codes,
            boundary_probs=jnp.minimum(jnp.sum(hard.boundary_probs, axis=0), 1.0)[:-1],
            count_probs=jax.nn.one_hot(jnp.sum(used), most + 1),
            log_likelihood=jnp.sum(jnp.where(real, fits, 0.0))
            + jnp.sum(jnp.where(inner, where, 0.0))
            + jnp.sum(jnp.where(jnp.arange(most) < told.num_segments, log_prior, 0.0)),
        )

    return jax.vmap(judge)(hard, ActionEvidence(evidence, frames.actions[:, :-1]), begins, lengths, told)


class ChosenCodes(NamedTuple):
    """The code chosen for each segment of one demonstration, and its log-probability under the prior."""

    codes: Shaped[Array, "M ..."]
    log_prior: Float[Array, " M"]


def codes_of(skills: RelaxedSkills, hard: HardSegments, told: Supervision) -> ChosenCodes:
    """Chooses the code of each segment: the told one, or else the most probable."""
    if isinstance(skills.policies, SkillPolicies):
        codes = jnp.where(told.codes >= 0, told.codes, jnp.argmax(hard.code_logits, axis=-1))
        return ChosenCodes(codes, jnp.full(codes.shape, -jnp.log(skills.num_skills)))
    mean, log_variance = jnp.split(hard.code_logits, 2, axis=-1)
    expected = prior_mean(told.codes, mean.shape[-1])
    log_prior = -jax.vmap(gaussian_kl)(mean - expected, log_variance)
    return ChosenCodes(jnp.where(told.codes[:, None] >= 0, expected, mean), log_prior)


_DEMOS_PER_CALL, _STEPS_PER_CALL = 256, 1 << 16


_SUMS_PER_CALL = 1 << 28
"""Most values, by start, end and skill, that the dense recursion sums in one call: a few gigabytes."""


Find = Callable[[Batch, Float[Array, "B counts"], NDArray[np.intp]], Found]
"""A function that segments a batch, given log p(M) of its demonstrations and their places among all of them."""


class DivergedError(DemonstrationError):
    """A model whose weights are not numbers any more."""


def segment_in_chunks(
    find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], cost: Cost, num_skills: int
) -> Segments:
    """Segments all demonstrations in parts; those of usual lengths and the long ones are looked at apart.

    Args:
      find: the function that segments one part.
      demos: all demonstrations.
      log_counts: log p(M) of each demonstration.
      cost: the function that gives the cost of a demonstration by its length.
      num_skills: the number of skills of the model.
    """
    places, parts = [], []
    for alike in alike_in_length(demos.lengths, cost):
        num_rows = _rows_per_call(len(alike), int(demos.lengths[alike].max()), num_skills)
        for first in range(0, len(alike), num_rows):
            some = alike[first : first + num_rows]
            places.append(some)
            parts.append(_find_in(find, demos[some], log_counts[some], some, num_rows))
    found = join_segments(parts, np.concatenate(places))
    if np.isnan(found.log_likelihood).any():
        raise DivergedError(
            "The model's scores are not numbers: its training diverged. Train again with a lower learning_rate."
        )
    impossible = np.flatnonzero(is_impossible(jnp.asarray(found.log_likelihood)))
    if len(impossible):
        raise DemonstrationError(
            f"Demonstration {impossible[0]} has no segmentation into that many segments that agrees with its "
            "labels and the longest segment: change the labels, num_segments or longest_segment."
        )
    return found


def _find_in(
    find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], places: NDArray[np.intp], num_rows: int
) -> Segments:
    rows = rows_filled_up(len(demos), num_rows)
    batch = rounded_batch(demos, rows, demos.max_length)
    found = jax.tree.map(np.asarray, find(batch, jnp.asarray(log_counts[rows]), places[rows]))
    counts = found.num_segments
    return Segments(
        boundaries=[found.ends[i, : counts[i] - 1].astype(np.int32) for i in range(len(demos))],
        skills=[found.skills[i, : counts[i]] for i in range(len(demos))],
        boundary_probs=[found.boundary_probs[i, :n] for i, n in enumerate(demos.lengths)],
        count_probs=list(found.count_probs[: len(demos)]),
        log_likelihood=found.log_likelihood[: len(demos)],
    )


def _rows_per_call(num_demos: int, max_length: int, num_skills: int) -> int:
    """How many demonstrations one call takes: a power of two, to compile few programs, and fewer of long ones."""
    room = _STEPS_PER_CALL // max_length
    if recursion_for(max_length) is DENSE:
        room = min(room, _SUMS_PER_CALL // (max_length**2 * num_skills))
    most = min(_DEMOS_PER_CALL, 1 << max(room, 1).bit_length() - 1)
    return min(most, 1 << (num_demos - 1).bit_length())
