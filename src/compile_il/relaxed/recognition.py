"""The recognition model q(b, z | x): one recurrent network, run once for each segment behind a soft mask.

Paper, "Recognition model", "RNN state masking" and "Soft RNN readout". Inputs are embedded frames, T + 1 of them: the
last one is where the demonstration ended, so that there is a place to put a boundary at its end.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.log_space import LOG_ZERO
from compile_il.lstm import state_dtype


class Recognition(eqx.Module):
    """An LSTM with a head for boundaries (one hidden layer), one for codes (linear) and one for attention (linear)."""

    cell: eqx.nn.LSTMCell
    boundary_head: eqx.nn.MLP
    code_head: eqx.nn.Linear
    attention_head: eqx.nn.Linear

    def __init__(self, input_dim: int, hidden_dim: int, code_dim: int, *, key: PRNGKeyArray):
        cell_key, boundary_key, code_key, attention_key = jax.random.split(key, 4)
        self.cell = eqx.nn.LSTMCell(input_dim, hidden_dim, key=cell_key)
        self.boundary_head = eqx.nn.MLP(hidden_dim, "scalar", hidden_dim, depth=1, key=boundary_key)
        self.code_head = eqx.nn.Linear(hidden_dim, code_dim, key=code_key)
        self.attention_head = eqx.nn.Linear(hidden_dim, "scalar", key=attention_key)

    def boundary_logits(
        self, encodings: Float[Array, "times hidden"], length: Int[Array, ""]
    ) -> Float[Array, " times"]:
        """Logits h_b^t; neither the first step, which would leave a segment empty, nor padding can be a boundary."""
        times = jnp.arange(encodings.shape[0])
        allowed = (times > 0) & (times <= length)
        logits = jax.vmap(self.boundary_head)(encodings).astype(state_dtype(encodings))
        return jnp.where(allowed, logits, LOG_ZERO)

    def code_logits(self, encodings: Float[Array, "times hidden"]) -> Float[Array, "times codes"]:
        """Logits h_z^t, for a code that is read at time t."""
        return jax.vmap(self.code_head)(encodings).astype(state_dtype(encodings))

    def attention(self, encodings: Float[Array, "times hidden"]) -> Float[Array, " times"]:
        """Scores a^t, before it is known which times belong to the segment."""
        return jax.vmap(self.attention_head)(encodings).astype(state_dtype(encodings))


def read_last(log_boundary: Float[Array, " times"]) -> Float[Array, " times"]:
    """Weights of a soft readout at a segment's last step: Σ_t q(b_i = t + 1) h^t."""
    return jnp.append(jnp.exp(log_boundary[1:]), 0.0)


def read_attentively(
    scores: Float[Array, " times"], log_segment: Float[Array, " times"], length: Int[Array, ""]
) -> Float[Array, " times"]:
    """Weights of the attentive readout: softmax_t [ a_i^t + log P(t ∈ C_i) ], over the steps that are real.

    An empty segment has no step to attend to; its readout is the same everywhere, and never of padding.
    """
    real = jnp.arange(scores.shape[0]) < length
    return jax.nn.softmax(jnp.where(real, scores + log_segment, 2 * LOG_ZERO))
