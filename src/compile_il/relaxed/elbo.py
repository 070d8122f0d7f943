"""The paper's objective: masked reconstruction, and what boundaries and codes cost (appendices "ELBO", "KL term").

    loss = - Σ_i Σ_t P(t ∈ C_i) log Σ_k z_ik π_k(a_t | s_t)  +  β_z Σ_i KL(q(z_i) || p(z))  +  β_b · boundary term

A relaxed code mixes the probabilities of the skills' policies, not their logits.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.relaxed.inference import Inference
from compile_il.relaxed.prior import first_boundary_kl, soft_length_cost
from compile_il.relaxed.samples import categorical_kl

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
