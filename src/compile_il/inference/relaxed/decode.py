"""Segments demonstrations by the recognition model, one segment after the other, each cut off before the next.

The recognition model reads the rest of the demonstration and nothing before it, so demonstrations may be longer, and
have more segments, than any that it was trained on (paper, "Recognition model").
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from compile_il.data import UNKNOWN
from compile_il.data.batch import Batch
from compile_il.inference.records import LOG_ZERO, BatchSegments
from compile_il.inference.relaxed.distributions import gaussian_kl, log_boundary_prior, prior_mean
from compile_il.inference.relaxed.recognition import Readout, Recognition, read_attentively
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.inference.relaxed.supervision import Supervision, supervision_of_batch
from compile_il.networks.lstm import masked_passes_by_scan, project
from compile_il.networks.policies import SkillPolicies


class HardSegments(NamedTuple):
    """Segments of one demonstration."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; the last one is the demonstration's length. A segment may be empty once the end is reached."""
    boundary_probs: Float[Array, "M times"]
    """q(b_i = t) given the cuts before it, one for a label; all zero for the last segment and for empty ones."""
    code_logits: Float[Array, "M codes"]


def cut_segments(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    supervision: Supervision,
    readout: Readout,
) -> HardSegments:
    """Cuts at the most probable end of each segment, or at its label, and continues with the rest.

    Where labels list the segments, each of them has a step, so that some steps are left for the rest.
    """
    times, projected = jnp.arange(inputs.shape[0]), project(recognition.cell, inputs)[None]
    last = supervision.num_segments - 1

    def cut(begin: Int[Array, ""], now: tuple[Int[Array, ""], Int[Array, ""]]) -> tuple[Int[Array, ""], HardSegments]:
        i, label = now
        # A state of zero until the segment begins is a network that starts there.
        mask = (times >= begin).astype(projected.dtype)
        [encodings] = masked_passes_by_scan(recognition.cell, projected, mask[None])
        logits = recognition.boundary_logits(encodings, length)
        latest = length - jnp.where(supervision.listed, last - i, 0)
        allowed = jnp.where((times > begin) & (times <= latest), logits, 2 * LOG_ZERO)
        over = (i >= last) | (begin >= length)
        end = jnp.where(over, length, jnp.where(label == UNKNOWN, jnp.argmax(allowed), label))
        if readout == "last":
            weights = (times == end - 1).astype(projected.dtype)
        else:
            inside = (times >= begin) & (times < end)
            scores = recognition.attention(encodings)
            weights = read_attentively(scores, jnp.where(inside, 0.0, LOG_ZERO), length)
        probs = jnp.where(label == UNKNOWN, jax.nn.softmax(allowed), times == label)
        return end, HardSegments(end, jnp.where(over, 0.0, probs), weights @ recognition.code_logits(encodings))

    return jax.lax.scan(cut, jnp.array(0), (jnp.arange(supervision.ends.shape[0]), supervision.ends))[1]


@eqx.filter_jit
def decode_by_recognition(
    skills: RelaxedSkills, batch: Batch, log_counts: Float[Array, "B counts"], rate: float, readout: Readout
) -> BatchSegments:
    """Segments a batch by `cut_segments`, with the most probable number of segments; empty ones are left out.

    Boundary probabilities are those of the recognition model, each given the cuts before it. The log-likelihood is that
    of the actions together with the segmentation, a lower bound to that of the actions; where codes are Gaussian and
    have no labels, with the divergence of the code from its prior in place of its log-probability.
    """
    frames, lengths = skills.read(batch), jnp.asarray(batch.lengths)
    num_times, num_segments = frames.inputs.shape[1], log_counts.shape[1] - 1
    supervision = supervision_of_batch(batch, num_segments, jnp.argmax(log_counts, axis=-1))
    cut = jax.vmap(cut_segments, in_axes=(None, 0, 0, 0, None))
    hard = cut(skills.recognition, frames.inputs, lengths, supervision, readout)
    begins = jnp.pad(hard.ends[:, :-1], ((0, 0), (1, 0)))
    masks = (jnp.arange(num_times) >= begins[..., None]).astype(frames.inputs.dtype)
    evidence = skills.in_segments(frames, masks, lengths)[:, :, :-1]

    def score(
        hard: HardSegments, evidence: Array, actions: Array, begins: Array, length: Array, supervision: Supervision
    ) -> BatchSegments:
        codes, log_prior = choose_codes(skills, hard, supervision)
        steps, segments, count = jnp.arange(num_times - 1), jnp.arange(num_segments), supervision.num_segments
        segment_of_step = jnp.sum(steps[:, None] >= hard.ends[:-1], axis=1)
        own_evidence = evidence[jnp.minimum(segment_of_step, evidence.shape[0] - 1), steps]
        log_actions = jax.vmap(skills.policies.log_prob)(own_evidence, actions, codes[segment_of_step])
        log_boundary = jax.vmap(lambda begin, end: log_boundary_prior(rate, length, begin, end, num_times))
        used = begins < length
        return BatchSegments(
            num_segments=jnp.sum(used),
            ends=hard.ends,
            skills=codes,
            boundary_probs=jnp.minimum(jnp.sum(hard.boundary_probs, axis=0), 1.0)[:-1],
            count_probs=jax.nn.one_hot(jnp.sum(used), num_segments + 1),
            log_likelihood=jnp.sum(jnp.where(steps < length, log_actions, 0.0))
            + jnp.sum(jnp.where(segments < count - 1, log_boundary(begins, hard.ends), 0.0))
            + jnp.sum(jnp.where(segments < count, log_prior, 0.0)),
        )

    return jax.vmap(score)(hard, evidence, frames.actions[:, :-1], begins, lengths, supervision)


def choose_codes(
    skills: RelaxedSkills, hard: HardSegments, supervision: Supervision
) -> tuple[Shaped[Array, "M ..."], Float[Array, " M"]]:
    """Returns the code of each segment, its label or else the most probable one, and its log-probability a priori."""
    labels = supervision.codes
    if isinstance(skills.policies, SkillPolicies):
        codes = jnp.where(labels >= 0, labels, jnp.argmax(hard.code_logits, axis=-1))
        return codes, jnp.full(codes.shape, -jnp.log(skills.num_skills))
    mean, log_variance = jnp.split(hard.code_logits, 2, axis=-1)
    expected = prior_mean(labels, mean.shape[-1])
    log_prior = -jax.vmap(gaussian_kl)(mean - expected, log_variance)
    return jnp.where(labels[:, None] >= 0, expected, mean), log_prior
