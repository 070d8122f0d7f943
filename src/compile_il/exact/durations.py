"""A factor for the length of segments: the paper's Poisson, of at least one step, with a weight.

    p(d) = λ^d e^{-λ} / d! / (1 - e^{-λ}),    d = 1, 2, ..        (paper, Eq. for p(b_i | b_{i-1}))

Deviation: the paper truncates at the sequence's end, so its normaliser depends on where a segment starts; as a factor
of a likelihood that also has a termination model, one normaliser for all segments of all demonstrations is enough, and
the weight tempers it.
"""

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float


def poisson_log_duration(rate: float, weight: float, longest: int) -> Float[Array, " lengths"]:
    """Weight * log p(d) for d = 0 .. longest; entry 0 is never used.

    Args:
      rate: λ, the length that segments are expected to have.
      weight: 1 is the prior itself, 0 takes it away.
      longest: segments longer than this are impossible.
    """
    durations = jnp.arange(longest + 1)
    log_poisson = durations * jnp.log(rate) - rate - gammaln(durations + 1.0)
    return weight * (log_poisson - jnp.log1p(-jnp.exp(-rate)))
