"""Calculates the paper's loss and that of the termination policy (paper, appendices "ELBO" and "KL term").

    loss = - Σ_i Σ_t P(t ∈ C_i) log Σ_k z_ik π_k(a_t | s_t)  +  β_z Σ_i KL(q(z_i) || p(z))  +  β_b · boundary term

One sample of boundaries and codes is drawn; where there are labels, they take the place of samples, and the recognition
model learns to predict them. A relaxed code mixes the probabilities of the skills' policies, not their logits. The
termination policy learns the most probable boundaries along with the rest.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, Key

from compile_il.config import Config
from compile_il.data.batch import Batch
from compile_il.inference.records import LOG_ZERO, Loss
from compile_il.inference.relaxed.distributions import (
    categorical_kl,
    first_boundary_kl,
    gaussian_code_losses,
    gaussian_label,
    relax,
    shift,
    soft_length_cost,
)
from compile_il.inference.relaxed.recognition import Inference, infer_all
from compile_il.inference.relaxed.skills import Frames, RelaxedSkills
from compile_il.inference.relaxed.supervision import Supervision, supervision_of_batch
from compile_il.networks.policies import CodePolicy, SkillPolicies


class CodeSample(NamedTuple):
    """Terms of the loss of one sample of all segments' codes."""

    log_actions: Float[Array, "B M T"]
    """log p(a_t | s_t, z_i), for each segment and step."""
    costs: Float[Array, "B M"]
    """β KL(q(z_i) || p(z)), or where there is a label, the loss of predicting it."""


class LossTerms(NamedTuple):
    """Weighted terms of the loss of recognition model and policies for one demonstration."""

    reconstruction: Float[Array, ""]
    codes: Float[Array, ""]
    boundaries: Float[Array, ""]


def relaxed_losses(
    skills: RelaxedSkills,
    batch: Batch,
    keys: Key[Array, " B"],
    temperature: float | Float[Array, ""],
    config: Config,
    rate: float,
) -> Loss:
    """Calculates the loss of each demonstration of a batch, with a key for the samples of each.

    The Poisson prior has the given rate λ, the expected length of a segment in steps.
    """
    assert config.num_segments is not None, "settings are checked"
    frames, lengths = skills.read(batch), jnp.asarray(batch.lengths)
    boundary_keys, code_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    noise_shape = config.num_segments, frames.inputs.shape[1]
    supervision = supervision_of_batch(batch, config.num_segments)
    inference = infer_all(
        skills.recognition,
        frames.inputs,
        lengths,
        jax.vmap(lambda key: jax.random.gumbel(key, noise_shape))(boundary_keys),
        supervision.ends,
        temperature=temperature,
        readout=config.readout,
    )
    evidence = skills.in_segments(frames, jnp.exp(inference.log_masks), lengths)[:, :, :-1]
    draw = inference, supervision.codes, code_keys, config.beta_codes
    if isinstance(skills.policies, SkillPolicies):
        codes = _categorical_codes(evidence, *draw, temperature)
    else:
        codes = _gaussian_codes(skills.policies, evidence, frames.actions[:, :-1], *draw)
    each = jax.vmap(functools.partial(loss_terms, config=config, rate=rate))
    terms = each(inference, codes, supervision, lengths)._asdict()
    terms["termination"] = termination_losses(skills, frames, inference, supervision, lengths)
    return Loss(sum(terms.values(), jnp.zeros(())), terms)


def loss_terms(
    inference: Inference,
    codes: CodeSample,
    supervision: Supervision,
    length: Int[Array, ""],
    config: Config,
    rate: float,
) -> LossTerms:
    """Calculates the terms of one demonstration; labelled boundaries are learned, and not held to the prior."""
    count = supervision.num_segments
    used = jnp.arange(codes.costs.shape[0]) < count
    cost = config.beta_boundaries * boundary_cost(inference, rate, length, count, config.boundary_term)
    label_loss = boundary_label_loss(inference, supervision.ends, count)
    return LossTerms(
        reconstruction=reconstruction(inference.log_segments, codes.log_actions, length),
        codes=jnp.sum(jnp.where(used, codes.costs, 0.0)),
        boundaries=jnp.where(supervision.has_boundaries, label_loss, cost),
    )


def reconstruction(
    log_segments: Float[Array, "M times"], log_actions: Float[Array, "M T"], length: Int[Array, ""]
) -> Float[Array, ""]:
    """Calculates - Σ_i Σ_t P(t ∈ C_i) log p(a_t | s_t, z_i), over real steps (paper, "Loss masking")."""
    num_steps = log_actions.shape[1]
    real = jnp.arange(num_steps) < length
    return -jnp.sum(jnp.where(real, jnp.exp(log_segments[:, :num_steps]) * log_actions, 0.0))


def boundary_cost(
    inference: Inference, rate: float, length: Int[Array, ""], count: Int[Array, ""], term: str
) -> Float[Array, ""]:
    """Calculates the cost of the inner boundaries of `count` segments.

    The term "first" is M times the KL of the first one; "lengths" is a prior on the soft length of each segment.
    """
    if term == "first":
        return jnp.where(count > 1, count * first_boundary_kl(inference.boundary_logits[0], rate, length), 0.0)
    each = jax.vmap(soft_length_cost, in_axes=(0, 0, None, None))
    costs = each(inference.boundary_logits[:-1], jnp.exp(inference.log_segments[:-1]), rate, length)
    return jnp.sum(jnp.where(jnp.arange(costs.shape[0]) < count - 1, costs, 0.0))


def boundary_label_loss(inference: Inference, ends: Int[Array, " M"], count: Int[Array, ""]) -> Float[Array, ""]:
    """Calculates - Σ_{i<M} log q(b_i) of labelled boundaries, for as many segments as there are."""
    log_q = jax.nn.log_softmax(inference.boundary_logits[:-1])
    log_probs = jnp.take_along_axis(log_q, jnp.maximum(ends[:-1, None], 0), axis=1)[:, 0]
    return -jnp.sum(jnp.where(jnp.arange(log_probs.shape[0]) < count - 1, log_probs, 0.0))


def _categorical_codes(
    log_policy: Array, inference: Inference, labels: Array, keys: Array, beta: float, temperature: float | Array
) -> CodeSample:
    """Draws relaxed samples of categorical codes, which mix the policies of skills."""
    noise = jax.vmap(lambda key: jax.random.gumbel(key, inference.code_logits.shape[1:]))(keys)
    log_codes = relaxed_codes(inference.code_logits, noise, labels, temperature)
    return CodeSample(
        log_actions=jax.vmap(mixed_log_policy)(log_codes, log_policy),
        costs=jax.vmap(categorical_code_losses, in_axes=(0, 0, None))(inference.code_logits, labels, beta),
    )


def relaxed_codes(
    logits: Float[Array, "B M K"],
    gumbel: Float[Array, "B M K"],
    labels: Int[Array, "B M"],
    temperature: float | Float[Array, ""],
) -> Float[Array, "B M K"]:
    """Samples the logs of relaxed codes, or returns the labelled codes."""
    labelled = jnp.where(jnp.arange(logits.shape[-1]) == labels[..., None], 0.0, LOG_ZERO)
    return jnp.where(labels[..., None] >= 0, labelled, relax(logits, gumbel, temperature))


def mixed_log_policy(log_codes: Float[Array, "M K"], log_policy: Float[Array, "*rows T K"]) -> Float[Array, "M T"]:
    """Calculates log Σ_k z_ik π_k(a_t | s_t) of each segment and step; policies may be the same in all segments."""
    return logsumexp(log_codes[:, None] + log_policy, axis=-1)


def categorical_code_losses(
    code_logits: Float[Array, "M K"], labels: Int[Array, " M"], beta: float
) -> Float[Array, " M"]:
    """Calculates, for each segment, - log q(z_i) of its label, or without one β KL(q(z_i) || p(z))."""
    log_q = jax.nn.log_softmax(code_logits)
    label_losses = -jnp.take_along_axis(log_q, jnp.maximum(labels[:, None], 0), axis=1)[:, 0]
    return jnp.where(labels >= 0, label_losses, beta * jax.vmap(categorical_kl)(code_logits))


def _gaussian_codes(
    policy: CodePolicy, evidence: Array, actions: Array, inference: Inference, labels: Array, keys: Array, beta: float
) -> CodeSample:
    """Draws Gaussian codes, which one policy reads; in a random half of the demonstrations, it reads labels instead.

    With labels in all of them, boundaries would stay where their prior has them; with samples, which carry more than
    labels, they would come a step early (docs/decisions.md, "Labels of Gaussian codes").
    """
    mean, log_variance = jnp.split(inference.code_logits, 2, axis=-1)
    noise_keys, label_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    noise = jax.vmap(lambda key: jax.random.normal(key, mean.shape[1:]))(noise_keys)
    reads_label = jax.vmap(jax.random.bernoulli)(label_keys)[:, None] & (labels >= 0)
    samples = shift(mean, log_variance, noise)
    codes = jnp.where(reads_label[..., None], gaussian_label(labels, mean.shape[-1]), samples)
    by_time = jax.vmap(policy.log_prob, in_axes=(0, 0, None))
    by_segment = jax.vmap(by_time, in_axes=(0, None, 0))
    evidence = jnp.broadcast_to(evidence, (*codes.shape[:2], *evidence.shape[2:]))
    costs = jax.vmap(gaussian_code_losses, in_axes=(0, 0, 0, None))
    return CodeSample(jax.vmap(by_segment)(evidence, actions, codes), costs(mean, log_variance, labels, beta))


def termination_losses(
    skills: RelaxedSkills, frames: Frames, inference: Inference, supervision: Supervision, lengths: Int[Array, " B"]
) -> Float[Array, " B"]:
    """Calculates the loss of the termination policy, from which the recognition model gets no gradient."""
    masks, logits = jax.lax.stop_gradient((jnp.exp(inference.log_masks), inference.boundary_logits))
    ends = jnp.where(supervision.ends >= 0, supervision.ends, jnp.argmax(logits, axis=-1))
    stops = skills.termination.logits(frames.termination_inputs, frames.vectors, masks, lengths)
    return jax.vmap(termination_loss)(stops, ends, lengths, supervision.num_segments)


def termination_loss(
    logits: Float[Array, "M times"], ends: Int[Array, " M"], length: Int[Array, ""], count: Int[Array, ""]
) -> Float[Array, ""]:
    """Calculates the cross-entropy to stopping at b_i and nowhere else, over real times and segments."""
    segments, times = jnp.arange(logits.shape[0])[:, None], jnp.arange(logits.shape[1])
    stops = times == ends[:, None]
    losses = -jnp.where(stops, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits))
    return jnp.sum(jnp.where((times <= length) & (segments < count), losses, 0.0))
