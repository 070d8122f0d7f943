"""Segmentation at test time: not relaxed, one segment after the other, each cut off before the next is looked for.

The recognition model sees what is left of the demonstration and nothing before it, so demonstrations may be longer, and
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
from compile_il.inference.relaxed.objective import ActionEvidence, log_actions
from compile_il.inference.relaxed.recognition import Readout, Recognition, read_attentively
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.inference.relaxed.supervision import Supervision, supervision_of_batch
from compile_il.networks.lstm import masked_passes_by_scan, project
from compile_il.networks.policies import SkillPolicies


class HardSegments(NamedTuple):
    """Segments of one demonstration, found one at a time."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; the last one is the demonstration's length. A segment may be empty once the end is reached."""
    boundary_probs: Float[Array, "M times"]
    """q(b_i = t) given the cuts before it, one where it is told; all zero for the last segment and for empty ones."""
    code_logits: Float[Array, "M codes"]


def segment(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    told: Supervision,
    readout: Readout,
) -> HardSegments:
    """Finds the most probable end of each segment, cuts, and goes on with the rest.

    Args:
      recognition: the network.
      inputs: an embedded frame for each time.
      length: steps that are real.
      told: how many segments there are, and the boundaries that are known and taken as they are. Where labels list the
        segments each of them has a step, so that some must be left for the rest.
      readout: where codes are read.
    """
    times, projected = jnp.arange(inputs.shape[0]), project(recognition.cell, inputs)[None]
    last = told.num_segments - 1

    def find(begin: Int[Array, ""], now: tuple[Int[Array, ""], Int[Array, ""]]) -> tuple[Int[Array, ""], HardSegments]:
        i, told_end = now
        # A state of zero until the segment begins is a network that starts there.
        mask = (times >= begin).astype(projected.dtype)
        [encodings] = masked_passes_by_scan(recognition.cell, projected, mask[None])
        logits = recognition.boundary_logits(encodings, length)
        latest = length - jnp.where(told.listed, last - i, 0)
        allowed = jnp.where((times > begin) & (times <= latest), logits, 2 * LOG_ZERO)
        likeliest = jnp.argmax(allowed)
        over = (i >= last) | (begin >= length)
        end = jnp.where(over, length, jnp.where(told_end == UNKNOWN, likeliest, told_end))
        if readout == "last":
            weights = (times == end - 1).astype(projected.dtype)
        else:
            inside = (times >= begin) & (times < end)
            scores = recognition.attention(encodings)
            weights = read_attentively(scores, jnp.where(inside, 0.0, LOG_ZERO), length)
        probs = jnp.where(told_end == UNKNOWN, jax.nn.softmax(allowed), times == told_end)
        return end, HardSegments(end, jnp.where(over, 0.0, probs), weights @ recognition.code_logits(encodings))

    return jax.lax.scan(find, jnp.array(0), (jnp.arange(told.ends.shape[0]), told.ends))[1]


@eqx.filter_jit
def decode_by_recognition(
    skills: RelaxedSkills, batch: Batch, log_counts: Float[Array, "B counts"], rate: float, readout: Readout
) -> BatchSegments:
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
    ) -> BatchSegments:
        codes, log_prior = codes_of(skills, hard, told)
        used = begins < length
        of_step = jnp.sum(jnp.arange(times - 1)[:, None] >= hard.ends[:-1], axis=1)
        fits = log_actions(skills.policies, seen, codes, of_step)
        real = jnp.arange(fits.shape[0]) < length
        inner = jnp.arange(most) < told.num_segments - 1
        where = jax.vmap(lambda begin, end: log_boundary_prior(rate, length, begin, end, times))(begins, hard.ends)
        return BatchSegments(
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
