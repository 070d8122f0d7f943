"""The one constant that sums in log space share."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

LOG_ZERO = -1e30
"""Log of an impossible event: far below any real score, yet finite, so that sums and gradients stay numbers."""


def is_impossible(log_prob: Float[Array, "*axes"]) -> Bool[Array, "*axes"]:
    """Whether a log-probability sums impossible events only; NaN and infinities are something else, and False."""
    return jnp.isfinite(log_prob) & (log_prob < LOG_ZERO / 2)
