"""Relaxed and reparameterised samples, and what they cost (paper, "Continuous relaxation" and appendix "KL term")."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def relax(
    logits: Float[Array, "*shape"], gumbel: Float[Array, "*shape"], temperature: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """Log of a concrete sample: log softmax[(logits + gumbel) / τ], where gumbel is standard Gumbel noise.

    The largest is taken off before the division: of numbers in the hundreds the fifth digit after the point is lost,
    and XLA does not round them in the same way wherever it needs them.
    """
    noisy = logits + gumbel
    return jax.nn.log_softmax((noisy - jax.lax.stop_gradient(jnp.max(noisy, axis=-1, keepdims=True))) / temperature)


def categorical_kl(logits: Float[Array, " K"]) -> Float[Array, ""]:
    """KL(q || uniform) = Σ_k q_k log q_k + log K, of the categorical distribution that is not relaxed."""
    log_q = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_q) * log_q) + jnp.log(logits.shape[0])


def shift(
    mean: Float[Array, "*shape"], log_variance: Float[Array, "*shape"], noise: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A Gaussian sample, mean + standard deviation * noise."""
    return mean + jnp.exp(log_variance / 2) * noise


def told_vector(code: Int[Array, "*shape"], dim: int) -> Float[Array, "*shape D"]:
    """A told code as a Gaussian one: √D in its own entry, 0 in all others, as long as samples of the prior are."""
    return math.sqrt(dim) * jax.nn.one_hot(code, dim)


def gaussian_code_losses(
    mean: Float[Array, "M D"], log_variance: Float[Array, "M D"], codes: Int[Array, " M"], beta: float
) -> Float[Array, " M"]:
    """For each segment KL(q(z_i) || N(told, 1)) where a code is told, and β KL(q(z_i) || N(0, 1)) where none is."""
    costs = jax.vmap(gaussian_kl)(mean - prior_mean(codes, mean.shape[-1]), log_variance)
    return jnp.where(codes >= 0, costs, beta * costs)


def prior_mean(code: Int[Array, "*shape"], dim: int) -> Float[Array, "*shape D"]:
    """Mean of a Gaussian code's prior: the told code as a vector, or zero where none is told."""
    return jnp.where(code[..., None] >= 0, told_vector(code, dim), 0.0)


def gaussian_kl(mean: Float[Array, " D"], log_variance: Float[Array, " D"]) -> Float[Array, ""]:
    """KL(N(mean, variance) || N(0, 1)) = ½ Σ (mean² + variance - 1 - log variance)."""
    return 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance)
