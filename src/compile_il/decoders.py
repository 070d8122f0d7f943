"""From networks and a batch to segmentations: by summing over all of them, or by the paper's recognition model."""

import functools
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from compile_il.batches import Batch
from compile_il.exact.decode import Segmentation
from compile_il.exact.objective import recursion_for, score_batch
from compile_il.exact.recursion import Posterior
from compile_il.exact.scores import Priors
from compile_il.policies import SkillPolicies
from compile_il.relaxed.discrete import HardSegments, segment
from compile_il.relaxed.inference import Readout
from compile_il.relaxed.objective import ActionEvidence, log_actions
from compile_il.relaxed.prior import log_boundary_prior
from compile_il.relaxed.samples import gaussian_kl, prior_mean
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.relaxed.told import Told, told_in
from compile_il.skills import Skills

Decoder = Literal["exact", "recognition"]
"""How to segment: by summing over all segmentations, or by relaxed training's recognition model, segment by segment."""
Best = Literal["boundaries", "path"]
"""What to return: boundaries of which most can be expected to be right, or the most probable path (Viterbi)."""


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
    """Finds one segment at a time, as many as told; what is empty is left out (`compile_il.relaxed.discrete`).

    Boundary probabilities are those of the recognition model, each given the cuts before it. The log-likelihood is that
    of the actions together with the segmentation found, a lower bound to that of the actions; where codes are Gaussian
    and not told, with the divergence of the code from its prior in place of its log-probability.
    """
    frames, counts, most = skills.read(batch), jnp.argmax(log_counts, axis=-1), log_counts.shape[1] - 1
    lengths, told, times = jnp.asarray(batch.lengths), told_in(batch, counts, most), frames.inputs.shape[1]

    def cut(inputs: Float[Array, "times input"], length: Int[Array, ""], told: Told) -> HardSegments:
        return segment(skills.recognition, inputs, length, told, readout)

    hard = jax.vmap(cut)(frames.inputs, lengths, told)
    begins = jnp.pad(hard.ends[:, :-1], ((0, 0), (1, 0)))
    behind = (jnp.arange(times) >= begins[..., None]).astype(frames.inputs.dtype)
    evidence = skills.in_segments(frames, behind, lengths)[:, :, :-1]

    def judge(
        hard: HardSegments, seen: ActionEvidence, begins: Int[Array, " M"], length: Int[Array, ""], told: Told
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


def codes_of(skills: RelaxedSkills, hard: HardSegments, told: Told) -> ChosenCodes:
    """Chooses the code of each segment: the told one, or else the most probable."""
    if isinstance(skills.policies, SkillPolicies):
        codes = jnp.where(told.codes >= 0, told.codes, jnp.argmax(hard.code_logits, axis=-1))
        return ChosenCodes(codes, jnp.full(codes.shape, -jnp.log(skills.num_skills)))
    mean, log_variance = jnp.split(hard.code_logits, 2, axis=-1)
    expected = prior_mean(told.codes, mean.shape[-1])
    log_prior = -jax.vmap(gaussian_kl)(mean - expected, log_variance)
    return ChosenCodes(jnp.where(told.codes[:, None] >= 0, expected, mean), log_prior)
