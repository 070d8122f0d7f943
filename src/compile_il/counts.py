"""What is known beforehand about the number of segments: a row of log p(M), M = 0, 1, 2, ..."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from compile_il.config import Config
from compile_il.log_space import LOG_ZERO


def unknown_count(config: Config) -> Float[Array, " counts"]:
    """Log p(M) where it is not known, up to `max_segments`: each further segment costs `segment_cost`."""
    counts = jnp.arange(config.max_segments + 1)
    costs = jnp.where(counts == 0, LOG_ZERO, -config.segment_cost * counts)
    return jnp.where(counts == 0, LOG_ZERO, jax.nn.log_softmax(costs))
