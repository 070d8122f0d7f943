"""Relaxed and reparameterised samples, and what they cost (paper, "Continuous relaxation" and appendix "KL term")."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def relax(
    logits: Float[Array, "*shape"], gumbel: Float[Array, "*shape"], temperature: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """Log of a concrete sample: log softmax[(logits + gumbel) / τ], where gumbel is standard Gumbel noise."""
    return jax.nn.log_softmax((logits + gumbel) / temperature)


def categorical_kl(logits: Float[Array, " K"]) -> Float[Array, ""]:
    """KL(q || uniform) = Σ_k q_k log q_k + log K, of the categorical distribution that is not relaxed."""
    log_q = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_q) * log_q) + jnp.log(logits.shape[0])


def shift(
    mean: Float[Array, "*shape"], log_variance: Float[Array, "*shape"], noise: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A Gaussian sample, mean + standard deviation * noise."""
    return mean + jnp.exp(log_variance / 2) * noise


def gaussian_kl(mean: Float[Array, " D"], log_variance: Float[Array, " D"]) -> Float[Array, ""]:
    """KL(N(mean, variance) || N(0, 1)) = ½ Σ (mean² + variance - 1 - log variance)."""
    return 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance)
