"""LSTMs in pieces: one step, and passes over a sequence behind a mask (paper, "RNN state masking")."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float


class LSTMState(NamedTuple):
    """What an LSTM hands from step to step."""

    hidden: Float[Array, " hidden"]
    cell: Float[Array, " hidden"]


def blank_state(cell: eqx.nn.LSTMCell) -> LSTMState:
    """Nothing read yet."""
    return LSTMState(jnp.zeros((cell.hidden_size,)), jnp.zeros((cell.hidden_size,)))


def project(cell: eqx.nn.LSTMCell, inputs: Float[Array, "times input"]) -> Float[Array, "times gates"]:
    """What the inputs add to the gates: the same in every pass over a demonstration, so computed once for all."""
    return (inputs @ cell.weight_ih.T + bias_of(cell)).astype(state_dtype(inputs))


def state_dtype(inputs: Float[Array, "..."]) -> DTypeLike:
    """Of gates, states and logits, which stay in single precision where networks compute in half."""
    return jnp.promote_types(inputs.dtype, jnp.float32)


def bias_of(cell: eqx.nn.LSTMCell) -> Float[Array, " gates"]:
    """What is added to the gates at every step."""
    assert cell.bias is not None, "cells are made with a bias"
    return cell.bias


def lstm_step(cell: eqx.nn.LSTMCell, state: LSTMState, projected: Float[Array, " gates"]) -> LSTMState:
    """One update, with gates in the order input, forget, candidate, output."""
    gates = projected + cell.weight_hh @ state.hidden
    into, keep, candidate, out = jnp.split(gates, 4)
    memory = jax.nn.sigmoid(keep) * state.cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
    return LSTMState(jax.nn.sigmoid(out) * jnp.tanh(memory), memory)


def encode(
    cell: eqx.nn.LSTMCell, inputs: Float[Array, "times input"], mask: Float[Array, " times"]
) -> Float[Array, "times hidden"]:
    """LSTM outputs, with hidden and cell state multiplied by the mask after each update.

    What lies before the segment is hidden from it, and gradients still pass into the mask.
    """
    return encode_projected(cell, project(cell, inputs), mask)


def encode_projected(
    cell: eqx.nn.LSTMCell, projected: Float[Array, "times gates"], mask: Float[Array, " times"]
) -> Float[Array, "times hidden"]:
    """`encode`, of inputs that have been brought to the gates."""

    def step(state: LSTMState, now: tuple[Float[Array, " gates"], Float[Array, ""]]) -> tuple[LSTMState, Array]:
        seen, open_ = now
        new = lstm_step(cell, state, seen)
        state = LSTMState(open_ * new.hidden, open_ * new.cell)
        return state, state.hidden

    start = jax.tree.map(lambda leaf: leaf.astype(projected.dtype), blank_state(cell))
    return jax.lax.scan(step, start, (projected, mask))[1]
