"""What relaxed training minimises: the paper's loss, and that of the termination policy.

One sample of boundaries and codes is drawn; where labels tell them, they are taken as told, and the recognition model
learns to say them. The termination policy is trained along with the rest, on the boundaries that are found.

The paper's objective: masked reconstruction, and what boundaries and codes cost (appendices "ELBO", "KL term").

    loss = - Σ_i Σ_t P(t ∈ C_i) log Σ_k z_ik π_k(a_t | s_t)  +  β_z Σ_i KL(q(z_i) || p(z))  +  β_b · boundary term

A relaxed code mixes the probabilities of the skills' policies, not their logits.
"""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, Key, Shaped

from compile_il.data.batch import Batch
from compile_il.inference.records import LOG_ZERO, Loss, sum_of
from compile_il.inference.relaxed.distributions import (
    categorical_kl,
    first_boundary_kl,
    gaussian_code_losses,
    relax,
    shift,
    soft_length_cost,
    told_vector,
)
from compile_il.inference.relaxed.recognition import Inference, Readout, draw_gumbel, infer_all
from compile_il.inference.relaxed.skills import Frames, RelaxedSkills, termination_loss
from compile_il.inference.relaxed.supervision import Supervision, counts_of_batch, supervision_of_batch
from compile_il.networks.policies import CodePolicy, SkillPolicies

BoundaryTerm = Literal["first", "lengths"]
"""What boundaries cost: M times the KL of the first one, or a prior on the soft length of each segment."""


def mixed_log_policy(log_codes: Float[Array, "M K"], log_policy: Float[Array, "*rows T K"]) -> Float[Array, "M T"]:
    """Log Σ_k z_ik π_k(a_t | s_t), for each segment and step; policies may be the same in all segments."""
    return logsumexp(log_codes[:, None] + log_policy, axis=-1)


def reconstruction(
    log_segments: Float[Array, "M times"], mixed: Float[Array, "M T"], length: Int[Array, ""]
) -> Float[Array, ""]:
    """- Σ_i Σ_t P(t ∈ C_i) log p(a_t | s_t, z_i), over the steps that are real (paper, "Loss masking")."""
    num_steps = mixed.shape[1]
    real = jnp.arange(num_steps) < length
    return -jnp.sum(jnp.where(real, jnp.exp(log_segments[:, :num_steps]) * mixed, 0.0))


def boundary_cost(
    found: Inference, rate: float, length: Int[Array, ""], count: Int[Array, ""], term: BoundaryTerm
) -> Float[Array, ""]:
    """What the boundaries of `count` segments cost; nothing for a single one, since its end is known."""
    if term == "first":
        return jnp.where(count > 1, count * first_boundary_kl(found.boundary_logits[0], rate, length), 0.0)
    each = jax.vmap(soft_length_cost, in_axes=(0, 0, None, None))
    costs = each(found.boundary_logits[:-1], jnp.exp(found.log_segments[:-1]), rate, length)
    return jnp.sum(jnp.where(jnp.arange(costs.shape[0]) < count - 1, costs, 0.0))


def told_boundaries_loss(found: Inference, ends: Int[Array, " M"], count: Int[Array, ""]) -> Float[Array, ""]:
    """- Σ_{i<M} log q(b_i), where boundaries are told and q is to learn them, for as many segments as there are."""
    log_q = jax.nn.log_softmax(found.boundary_logits[:-1])
    said = jnp.take_along_axis(log_q, jnp.maximum(ends[:-1, None], 0), axis=1)[:, 0]
    return -jnp.sum(jnp.where(jnp.arange(said.shape[0]) < count - 1, said, 0.0))


def code_losses(code_logits: Float[Array, "M K"], codes: Int[Array, " M"], beta: float) -> Float[Array, " M"]:
    """For each segment - log q(z_i) where the code is told, and β KL(q(z_i) || p(z)) where it is not."""
    told = -jnp.take_along_axis(jax.nn.log_softmax(code_logits), jnp.maximum(codes[:, None], 0), axis=1)[:, 0]
    return jnp.where(codes >= 0, told, beta * jax.vmap(categorical_kl)(code_logits))


class RelaxedSettings(NamedTuple):
    """Settings that the relaxed loss depends on besides the networks."""

    num_segments: int
    rate: float
    """λ of the Poisson prior, the expected length of a segment in steps."""
    beta_codes: float
    beta_boundaries: float
    readout: Readout
    boundary_term: BoundaryTerm


class LossTerms(NamedTuple):
    """Weighted terms of the loss of recognition model and policies for one demonstration."""

    reconstruction: Float[Array, ""]
    codes: Float[Array, ""]
    boundaries: Float[Array, ""]


class ActionEvidence(NamedTuple):
    """What policies need to score actions, for one demonstration, or for a batch along an axis before these."""

    evidence: Float[Array, "*axes T outputs"]
    """As from `RelaxedSkills.in_segments`: a row of times for each segment, or a single one for all of them."""
    actions: Shaped[Array, "..."]
    """The action taken at each time."""


class Codes(NamedTuple):
    """What the loss needs of one sample of all segments' codes."""

    log_actions: Float[Array, "B M T"]
    """log p(a_t | s_t, z_i), for each segment and step."""
    costs: Float[Array, "B M"]
    """β KL(q(z_i) || p(z)), or where a code is told, the loss of saying it."""


def relaxed_losses(
    skills: RelaxedSkills,
    batch: Batch,
    keys: Key[Array, " B"],
    temperature: float | Float[Array, ""],
    settings: RelaxedSettings,
) -> Loss:
    """The loss of each demonstration of a batch; each has a key for what is drawn for it."""
    frames, lengths = skills.read(batch), jnp.asarray(batch.lengths)
    num_times = frames.inputs.shape[1]
    boundary_keys, code_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    gumbel = jax.vmap(lambda key: draw_gumbel(key, settings.num_segments, num_times))(boundary_keys)
    told = supervision_of_batch(batch, counts_of_batch(batch, settings.num_segments), settings.num_segments)
    found = infer_all(
        skills.recognition,
        frames.inputs,
        lengths,
        gumbel,
        told.ends,
        temperature=temperature,
        readout=settings.readout,
    )
    evidence = skills.in_segments(frames, jnp.exp(found.log_open), lengths)[:, :, :-1]
    if isinstance(skills.policies, SkillPolicies):
        codes = categorical_codes(evidence, found, told, code_keys, temperature, settings.beta_codes)
    else:
        seen = ActionEvidence(evidence, frames.actions[:, :-1])
        codes = gaussian_codes(skills.policies, seen, found, told, code_keys, settings.beta_codes)
    terms = jax.vmap(functools.partial(loss_terms, settings=settings))(found, codes, told, lengths)
    return sum_of({**terms._asdict(), "termination": stopping_losses(skills, frames, found, told, lengths)})


def loss_terms(
    found: Inference, codes: Codes, told: Supervision, length: Int[Array, ""], settings: RelaxedSettings
) -> LossTerms:
    """Loss terms of one demonstration; boundaries that are told are learned in place of being held to their prior."""
    count = told.num_segments
    cost = settings.beta_boundaries * boundary_cost(found, settings.rate, length, count, settings.boundary_term)
    return LossTerms(
        reconstruction=reconstruction(found.log_segments, codes.log_actions, length),
        codes=jnp.sum(jnp.where(jnp.arange(settings.num_segments) < count, codes.costs, 0.0)),
        boundaries=jnp.where(told.boundaries_told, told_boundaries_loss(found, told.ends, count), cost),
    )


def categorical_codes(
    log_policy: Float[Array, "B rows T K"],
    found: Inference,
    told: Supervision,
    keys: Key[Array, " B"],
    temperature: float | Float[Array, ""],
    beta: float,
) -> Codes:
    """Relaxed samples of categorical codes, which mix the policies of skills."""
    noise = jax.vmap(lambda key: jax.random.gumbel(key, found.code_logits.shape[1:]))(keys)
    log_codes = relaxed_codes(found.code_logits, noise, told.codes, temperature)
    return Codes(
        log_actions=jax.vmap(mixed_log_policy)(log_codes, log_policy),
        costs=jax.vmap(code_losses, in_axes=(0, 0, None))(found.code_logits, told.codes, beta),
    )


def gaussian_codes(
    policy: CodePolicy, seen: ActionEvidence, found: Inference, told: Supervision, keys: Key[Array, " B"], beta: float
) -> Codes:
    """Samples of Gaussian codes, which one policy reads; in a random half of the demonstrations, told codes themselves.

    Were told codes read in all of them, boundaries would stay where their prior has them; were samples, which say more
    than the label does, boundaries would come a step early (docs/decisions.md, "Labels of Gaussian codes").
    """
    mean, log_variance = jnp.split(found.code_logits, 2, axis=-1)
    noise_keys, told_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    noise = jax.vmap(lambda key: jax.random.normal(key, mean.shape[1:]))(noise_keys)
    reads_told = jax.vmap(jax.random.bernoulli)(told_keys)[:, None] & (told.codes >= 0)
    known = told_vector(told.codes, mean.shape[-1])
    sample = jnp.where(reads_told[..., None], known, shift(mean, log_variance, noise))
    costs = jax.vmap(gaussian_code_losses, in_axes=(0, 0, 0, None))
    return Codes(read_with_codes(policy, seen, sample), costs(mean, log_variance, told.codes, beta))


def relaxed_codes(
    logits: Float[Array, "B M K"],
    gumbel: Float[Array, "B M K"],
    told: Int[Array, "B M"],
    temperature: float | Float[Array, ""],
) -> Float[Array, "B M K"]:
    """Logs of relaxed samples of codes, or of the codes themselves where they are told."""
    known = jnp.where(jnp.arange(logits.shape[-1]) == told[..., None], 0.0, LOG_ZERO)
    return jnp.where(told[..., None] >= 0, known, relax(logits, gumbel, temperature))


def read_with_codes(policy: CodePolicy, seen: ActionEvidence, codes: Float[Array, "B M D"]) -> Float[Array, "B M T"]:
    """Log π(a_t | s_t, z_i) of each step under the Gaussian code of each segment."""
    by_time = jax.vmap(policy.log_prob, in_axes=(0, 0, None))
    by_segment = jax.vmap(by_time, in_axes=(0, None, 0))
    evidence = jnp.broadcast_to(seen.evidence, (*codes.shape[:2], *seen.evidence.shape[2:]))
    return jax.vmap(by_segment)(evidence, seen.actions, codes)


def log_actions(
    policies: SkillPolicies | CodePolicy,
    seen: ActionEvidence,
    codes: Shaped[Array, "M ..."],
    segments: Int[Array, " T"],
) -> Float[Array, " T"]:
    """Log π(a_t | s_t, z) of each step of one demonstration, with the code of the segment that it is in."""
    num_rows, num_steps = seen.evidence.shape[:2]
    own = seen.evidence[jnp.minimum(segments, num_rows - 1), jnp.arange(num_steps)]
    return jax.vmap(policies.log_prob)(own, seen.actions, codes[segments])


def stopping_losses(
    skills: RelaxedSkills, frames: Frames, found: Inference, told: Supervision, lengths: Int[Array, " B"]
) -> Float[Array, " B"]:
    """Loss of the termination policy, which learns what the recognition model finds; that gets no gradient from it."""
    masks, logits = jax.lax.stop_gradient((jnp.exp(found.log_open), found.boundary_logits))
    ends = jnp.where(told.ends >= 0, told.ends, jnp.argmax(logits, axis=-1))
    stops = skills.termination.logits(frames.arrived, frames.vectors, masks, lengths)
    return jax.vmap(termination_loss)(stops, ends, lengths, told.num_segments)
