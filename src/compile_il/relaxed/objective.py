"""What relaxed training minimises: the paper's loss, and that of the termination policy.

One sample of boundaries and codes is drawn; where labels tell them, they are taken as told, and the recognition model
learns to say them. The termination policy is trained along with the rest, on the boundaries that are found.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from compile_il.batches import Batch
from compile_il.log_space import LOG_ZERO
from compile_il.loss import Loss, sum_of
from compile_il.policies import CodePolicy, SkillPolicies
from compile_il.relaxed.elbo import (
    BoundaryTerm,
    boundary_cost,
    code_losses,
    mixed_log_policy,
    reconstruction,
    told_boundaries_loss,
)
from compile_il.relaxed.inference import Inference, Readout, draw_gumbel, infer_all
from compile_il.relaxed.samples import gaussian_code_losses, relax, shift, told_vector
from compile_il.relaxed.skills import Frames, RelaxedSkills
from compile_il.relaxed.termination import termination_loss
from compile_il.relaxed.told import Told, counts_in, told_in


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
    told = told_in(batch, counts_in(batch, settings.num_segments), settings.num_segments)
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
    found: Inference, codes: Codes, told: Told, length: Int[Array, ""], settings: RelaxedSettings
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
    told: Told,
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
    policy: CodePolicy, seen: ActionEvidence, found: Inference, told: Told, keys: Key[Array, " B"], beta: float
) -> Codes:
    """Samples of Gaussian codes, which one policy reads; in a random half of the demonstrations, told codes themselves.

    Were told codes read in all of them, boundaries would stay where their prior has them; were samples, which say more
    than the label does, boundaries would come a step early (docs/decisions.md, "Told Gaussian codes").
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
    skills: RelaxedSkills, frames: Frames, found: Inference, told: Told, lengths: Int[Array, " B"]
) -> Float[Array, " B"]:
    """Loss of the termination policy, which learns what the recognition model finds; that gets no gradient from it."""
    masks, logits = jax.lax.stop_gradient((jnp.exp(found.log_open), found.boundary_logits))
    ends = jnp.where(told.ends >= 0, told.ends, jnp.argmax(logits, axis=-1))
    stops = skills.termination.logits(frames.arrived, frames.vectors, masks, lengths)
    return jax.vmap(termination_loss)(stops, ends, lengths, told.num_segments)
