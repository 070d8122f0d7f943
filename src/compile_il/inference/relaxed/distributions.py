"""Samples relaxed boundaries and codes, and calculates their cost (paper, appendix "KL term").

Samples are reparameterised (paper, "Continuous relaxation"). The prior over boundaries is a Poisson on the lengths of
segments, truncated to the demonstration and renormalised:

    p(b_i = t | b_{i-1} = t') ∝ λ^d e^{-λ} / d!,    d = t - t',   t' <= t <= T       (paper, prior over b)

A soft boundary has no single place t' from which the next length counts, so the paper evaluates the KL of the first
boundary only, for which t' = 0, and multiplies it by M; or it puts the prior on the soft length Σ_t P(t ∈ C_i) of every
segment.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp
from jaxtyping import Array, Float, Int, Shaped

from compile_il.inference.records import LOG_ZERO


def log_poisson(durations: Shaped[Array, "*shape"], rate: Float[Array, ""] | float) -> Float[Array, "*shape"]:
    """Calculates the log of λ^d e^{-λ} / d!, for any d >= 0, whole or not."""
    return durations * jnp.log(rate) - rate - gammaln(durations + 1.0)


def relax(
    logits: Float[Array, "*shape"], gumbel: Float[Array, "*shape"], temperature: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """Samples a concrete variable: log softmax[(logits + gumbel) / τ], where gumbel is standard Gumbel noise.

    The largest is subtracted before the division: numbers in the hundreds lose the fifth digit after the point, and XLA
    does not round them in the same way everywhere.
    """
    noisy = logits + gumbel
    return jax.nn.log_softmax((noisy - jax.lax.stop_gradient(jnp.max(noisy, axis=-1, keepdims=True))) / temperature)


def shift(
    mean: Float[Array, "*shape"], log_variance: Float[Array, "*shape"], noise: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Samples a Gaussian: mean + standard deviation * noise."""
    return mean + jnp.exp(log_variance / 2) * noise


def categorical_kl(logits: Float[Array, " K"]) -> Float[Array, ""]:
    """Calculates KL(q || uniform) = Σ_k q_k log q_k + log K, of the categorical distribution that is not relaxed."""
    log_q = jax.nn.log_softmax(logits)
    return jnp.sum(jnp.exp(log_q) * log_q) + jnp.log(logits.shape[0])


def gaussian_kl(mean: Float[Array, " D"], log_variance: Float[Array, " D"]) -> Float[Array, ""]:
    """Calculates KL(N(mean, variance) || N(0, 1)) = ½ Σ (mean² + variance - 1 - log variance)."""
    return 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance)


def gaussian_label(code: Int[Array, "*shape"], dim: int) -> Float[Array, "*shape D"]:
    """Returns the vector of a labelled code, as long as samples of the prior are: √D in its own entry, 0 elsewhere."""
    return math.sqrt(dim) * jax.nn.one_hot(code, dim)


def prior_mean(code: Int[Array, "*shape"], dim: int) -> Float[Array, "*shape D"]:
    """Returns the mean of a Gaussian code's prior: the vector of its label, or zero without a label."""
    return jnp.where(code[..., None] >= 0, gaussian_label(code, dim), 0.0)


def gaussian_code_losses(
    mean: Float[Array, "M D"], log_variance: Float[Array, "M D"], codes: Int[Array, " M"], beta: float
) -> Float[Array, " M"]:
    """Calculates, for each segment, KL(q(z_i) || N(label, 1)), or without a label β KL(q(z_i) || N(0, 1))."""
    costs = jax.vmap(gaussian_kl)(mean - prior_mean(codes, mean.shape[-1]), log_variance)
    return jnp.where(codes >= 0, costs, beta * costs)


def first_boundary_prior(rate: float, length: Int[Array, ""], num_times: int) -> Float[Array, " times"]:
    """Calculates log p(b_1 = t), for t = 0 .. T; impossible on padding."""
    times = jnp.arange(num_times, dtype=float)
    values = jnp.where(times <= length, log_poisson(times, rate), LOG_ZERO)
    return jnp.where(times <= length, values - logsumexp(values), LOG_ZERO)


def log_boundary_prior(
    rate: float, length: Int[Array, ""], begin: Int[Array, ""], end: Int[Array, ""], num_times: int
) -> Float[Array, ""]:
    """Calculates log p(b_i = end | b_{i-1} = begin), that of the first boundary of what is left from `begin` on."""
    return first_boundary_prior(rate, jnp.maximum(length - begin, 0), num_times)[end - begin]


def first_boundary_kl(logits: Float[Array, " times"], rate: float, length: Int[Array, ""]) -> Float[Array, ""]:
    """Calculates KL(q(b_1) || p(b_1)), of the categorical distribution that is not relaxed; to be multiplied by M."""
    log_q = jax.nn.log_softmax(logits)
    log_p = first_boundary_prior(rate, length, logits.shape[0])
    return jnp.sum(jnp.where(log_q > LOG_ZERO / 2, jnp.exp(log_q) * (log_q - log_p), 0.0))


def soft_length_cost(
    logits: Float[Array, " times"], segment_probs: Float[Array, " times"], rate: float, length: Int[Array, ""]
) -> Float[Array, ""]:
    """Calculates -H[q(b_i)] - log p(soft length), one segment's contribution in the paper's other form.

    The soft length L_i = Σ_t P(t ∈ C_i) need not be whole: the Poisson is continued by the gamma function, and
    normalised over the whole lengths 0 .. T.
    """
    log_q = jax.nn.log_softmax(logits)
    negative_entropy = jnp.sum(jnp.where(log_q > LOG_ZERO / 2, jnp.exp(log_q) * log_q, 0.0))
    times = jnp.arange(logits.shape[0], dtype=float)
    log_total = logsumexp(jnp.where(times <= length, log_poisson(times, rate), LOG_ZERO))
    return negative_entropy - (log_poisson(jnp.sum(segment_probs), rate) - log_total)
