"""Relaxed and reparameterised samples, and what they cost (paper, "Continuous relaxation" and appendix "KL term").

The prior over boundaries: a Poisson on segment lengths, truncated to the demonstration and renormalised.

    p(b_i = t | b_{i-1} = t') ∝ λ^d e^{-λ} / d!,    d = t - t',   t' <= t <= T       (paper, prior over b)

Positions beyond t' are not known while boundaries are soft, so the paper evaluates the KL of the first boundary only,
for which t' = 0, and multiplies it by M; or it puts the prior on the soft length Σ_t P(t ∈ C_i) of every segment
(appendix "KL term").
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from compile_il.inference.records import LOG_ZERO, log_poisson


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


def first_boundary_prior(rate: float, length: Int[Array, ""], num_times: int) -> Float[Array, " times"]:
    """Log p(b_1 = t), for t = 0 .. T; impossible on padding."""
    times = jnp.arange(num_times, dtype=float)
    values = jnp.where(times <= length, log_poisson(times, rate), LOG_ZERO)
    return jnp.where(times <= length, values - logsumexp(values), LOG_ZERO)


def log_boundary_prior(
    rate: float, length: Int[Array, ""], begin: Int[Array, ""], end: Int[Array, ""], num_times: int
) -> Float[Array, ""]:
    """Log p(b_i = end | b_{i-1} = begin), truncated to begin .. T: that of the first boundary of what is left.

    The normaliser is a sum of logs: the Poisson's cumulative distribution underflows where the rate is large.
    """
    return first_boundary_prior(rate, jnp.maximum(length - begin, 0), num_times)[end - begin]


def first_boundary_kl(logits: Float[Array, " times"], rate: float, length: Int[Array, ""]) -> Float[Array, ""]:
    """KL(q(b_1) || p(b_1)), of the categorical distribution that is not relaxed; to be multiplied by M."""
    log_q = jax.nn.log_softmax(logits)
    log_p = first_boundary_prior(rate, length, logits.shape[0])
    return jnp.sum(jnp.where(log_q > LOG_ZERO / 2, jnp.exp(log_q) * (log_q - log_p), 0.0))


def soft_length_cost(
    logits: Float[Array, " times"], segment_probs: Float[Array, " times"], rate: float, length: Int[Array, ""]
) -> Float[Array, ""]:
    """-H[q(b_i)] - log p(soft length), one segment's contribution in the paper's other form.

    The soft length L_i = Σ_t P(t ∈ C_i) need not be whole: the Poisson is continued by the gamma function, and
    normalised over the whole lengths 0 .. T.
    """
    log_q = jax.nn.log_softmax(logits)
    negative_entropy = jnp.sum(jnp.where(log_q > LOG_ZERO / 2, jnp.exp(log_q) * log_q, 0.0))
    times = jnp.arange(logits.shape[0], dtype=float)
    log_total = logsumexp(jnp.where(times <= length, log_poisson(times, rate), LOG_ZERO))
    return negative_entropy - (log_poisson(jnp.sum(segment_probs), rate) - log_total)
