"""A factor for the length of segments: the paper's Poisson, of at least one step, with a weight.

    p(d) = λ^d e^{-λ} / d! / (1 - e^{-λ}),    d = 1, 2, ..        (paper, Eq. for p(b_i | b_{i-1}))

Deviation: the paper truncates at the sequence's end, so its normaliser depends on where a segment starts; as a factor
of a likelihood that also has a termination model, one normaliser for all segments of all demonstrations is enough, and
the weight tempers it.

One of its two numbers can be learned. Where the number of segments is known, so is their mean length, and the weight w
says how much they vary, which is the data's affair: it is a parameter of p(d)^w / Σ_d p(d)^w, between 0, where any
length is as good as any other, and 1, the paper's prior. Where the number is not known, the rate λ is a parameter.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from compile_il.data import UNKNOWN
from compile_il.inference.records import LOG_ZERO, log_poisson


def point_mass(num_segments: int | Int[Array, ""], max_segments: int) -> Float[Array, " counts"]:
    """Log-prior over the number of segments, 0 .. max_segments, that has all mass on one number."""
    return jnp.where(jnp.arange(max_segments + 1) == num_segments, 0.0, LOG_ZERO)


def unknown_count(most: int, cost: float = 0.0) -> Float[Array, " counts"]:
    """Log p(M) where the number of segments is not known, for M from 0 to `most`: each further segment has a `cost`."""
    counts = jnp.arange(most + 1)
    costs = jnp.where(counts == 0, LOG_ZERO, -cost * counts)
    return jnp.where(counts == 0, LOG_ZERO, jax.nn.log_softmax(costs))


def log_counts_of(counts: NDArray[np.integer], most: int, cost: float) -> NDArray[np.float32]:
    """Log p(M) of each demonstration as a row: all mass on its number, or where that is `UNKNOWN`, `unknown_count`.

    Args:
      counts: the number of segments of each demonstration, or `UNKNOWN`.
      most: the most segments there may be where their number is unknown.
      cost: log-probability that each further segment costs there.
    """
    is_unknown = counts == UNKNOWN
    largest = max(int(counts.max()), most if is_unknown.any() else 0)
    rows = np.where(np.arange(largest + 1) == counts[:, None], 0.0, LOG_ZERO)
    rows[is_unknown, : most + 1] = unknown_count(most, cost)[: largest + 1]
    return rows.astype(np.float32)


FIRST_WEIGHT = 0.3
"""Weight w of the Poisson before training; too small to do harm while nothing is known about lengths."""
STRIDE = 10.0
"""What the parameter of the weight is multiplied by, since steps of an optimiser that suit networks are small."""
RATE_STRIDE = 5.0
"""As `STRIDE`, for the rate: a larger one lets it run ahead of the policies, up to one segment for everything."""
NORMED = 8.0
"""Number of expected lengths λ up to which p(d)^w is normalised; with w = 0 the sum over all lengths has no end."""


def poisson_log_duration(rate: Float[Array, ""] | float, weight: float, longest: int) -> Float[Array, " lengths"]:
    """Weight * log p(d) for d = 0 .. longest; entry 0 is never used.

    Args:
      rate: λ, the expected length of segments in steps.
      weight: 1 is the prior itself, 0 takes it away.
      longest: segments longer than this are impossible.
    """
    return weight * (log_poisson(jnp.arange(longest + 1), rate) - jnp.log1p(-jnp.exp(-rate)))


class FixedWeight(eqx.Module):
    """Weight of the Poisson over lengths, where neither it nor the rate is learned."""

    weight: float = eqx.field(static=True)

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w for d = 0 .. longest; entry 0 is never used, and `allowed` has no influence."""
        del allowed
        return poisson_log_duration(rate, self.weight, longest)

    def rate(self, first: float) -> float:
        """Rate λ, as it was before training."""
        return first


class LearnedWeight(eqx.Module):
    """Weight w of the Poisson over lengths, as a parameter that is learned."""

    position: Float[Array, ""]
    """Logit of the weight, divided by `STRIDE`."""

    def __init__(self) -> None:
        # Of a type of its own: one that gives way to others, as a Python number's, would change in the first steps of
        # training, and each would be compiled anew.
        self.position = jnp.full((), math.log(FIRST_WEIGHT / (1 - FIRST_WEIGHT)) / STRIDE, jnp.result_type(float))

    @property
    def weight(self) -> Float[Array, ""]:
        """Weight w of the Poisson, between 0 and 1."""
        return jax.nn.sigmoid(STRIDE * self.position)

    def rate(self, first: float) -> float:
        """Rate λ, as it was before training."""
        return first

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w / Σ_d p(d)^w for d = 0 .. longest; entry 0 is never used.

        Args:
          rate: λ, the expected length of segments in steps.
          longest: the last entry.
          allowed: longer segments are impossible, if not None. The sum goes up to this or to `NORMED` times λ, if that
            is less, and never depends on `longest`: what a demonstration is worth must not depend on its padding.
        """
        normed = math.ceil(NORMED * rate)
        normed = normed if allowed is None else min(normed, allowed)
        tempered = self.weight * poisson_log_duration(rate, 1.0, max(longest, normed))
        return tempered[: longest + 1] - logsumexp(tempered[1 : normed + 1])


class LearnedRate(eqx.Module):
    """Rate λ of the Poisson over lengths, as a parameter that is learned while its weight stays."""

    position: Float[Array, ""]
    """Log of the rate over the one before training, divided by `RATE_STRIDE`."""
    weight: float = eqx.field(static=True)
    """Weight of the Poisson; 1 is the prior itself."""

    def __init__(self, weight: float) -> None:
        self.position = jnp.zeros((), jnp.result_type(float))
        self.weight = weight

    def rate(self, first: float) -> Float[Array, ""]:
        """Rate λ that has been learned, in steps, where training began with `first`."""
        return first * jnp.exp(RATE_STRIDE * self.position)

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w for d = 0 .. longest; entry 0 is never used.

        Args:
          rate: the rate λ before training.
          longest: the last entry.
          allowed: has no influence here, since p sums to one over lengths of any size.
        """
        del allowed
        return poisson_log_duration(self.rate(rate), self.weight, longest)


Durations = FixedWeight | LearnedWeight | LearnedRate
"""A factor for the lengths of segments, of which one number may be learned."""
