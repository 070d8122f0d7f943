"""The recognition model q(b, z | x): one recurrent network, run once for each segment behind a soft mask.

Paper, "Recognition model", "RNN state masking" and "Soft RNN readout". Inputs are embedded frames, T + 1 of them: the
last one is where the demonstration ended, so that there is a place to put a boundary at its end.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.log_space import LOG_ZERO


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
        """h_b^t; neither the first step, which would leave a segment empty, nor padding can be a boundary."""
        times = jnp.arange(encodings.shape[0])
        allowed = (times > 0) & (times <= length)
        return jnp.where(allowed, jax.vmap(self.boundary_head)(encodings), LOG_ZERO)


class _State(NamedTuple):
    hidden: Float[Array, " hidden"]
    cell: Float[Array, " hidden"]


def encode(
    cell: eqx.nn.LSTMCell, inputs: Float[Array, "times input"], mask: Float[Array, " times"]
) -> Float[Array, "times hidden"]:
    """LSTM outputs, with hidden and cell state multiplied by the mask after each update.

    What lies before the segment is hidden from it, and gradients still pass into the mask.
    """

    def step(state: _State, now: tuple[Float[Array, " input"], Float[Array, ""]]) -> tuple[_State, Array]:
        seen, open_ = now
        hidden, memory = cell(seen, (state.hidden, state.cell))
        state = _State(open_ * hidden, open_ * memory)
        return state, state.hidden

    nothing = jnp.zeros((cell.hidden_size,), inputs.dtype)
    _, encodings = jax.lax.scan(step, _State(nothing, nothing), (inputs, mask))
    return encodings


def read_last(log_boundary: Float[Array, " times"]) -> Float[Array, " times"]:
    """Weights of a soft readout at a segment's last step: Σ_t q(b_i = t + 1) h^t."""
    return jnp.append(jnp.exp(log_boundary[1:]), 0.0)


def read_attentively(scores: Float[Array, " times"], log_segment: Float[Array, " times"]) -> Float[Array, " times"]:
    """Weights of the attentive readout: softmax_t [ a_i^t + log P(t ∈ C_i) ]."""
    return jax.nn.softmax(scores + log_segment)
