"""Runs LSTMs: single steps, and masked passes over sequences.

A pass for a segment hides what came before it (paper, "RNN state masking"): hidden and cell state are multiplied by a
soft mask after each update, and gradients pass into the mask.
"""

import contextlib
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from compile_il.networks.embeddings import ALIGNED


class LSTMState(NamedTuple):
    """Hidden and cell state of an LSTM."""

    hidden: Float[Array, " hidden"]
    cell: Float[Array, " hidden"]


def zero_state(cell: eqx.nn.LSTMCell) -> LSTMState:
    """Returns the state of an LSTM that has read nothing yet."""
    return LSTMState(jnp.zeros((cell.hidden_size,)), jnp.zeros((cell.hidden_size,)))


def state_dtype(inputs: Float[Array, "..."]) -> DTypeLike:
    """Returns the type of states and logits, which stay in single precision where networks compute in half."""
    return jnp.promote_types(inputs.dtype, jnp.float32)


def project(cell: eqx.nn.LSTMCell, inputs: Float[Array, "*times input"]) -> Float[Array, "*times gates"]:
    """Computes what inputs add to the gates: the same in every pass over a demonstration, so once for all.

    The bias is a column of the matrix: its gradient as a sum, apart from the product, reads as much as the product.
    """
    assert cell.bias is not None, "cells are made with a bias"
    bias = jnp.pad(cell.bias[:, None], ((0, 0), (0, ALIGNED - 1)))
    one = jnp.broadcast_to(jnp.eye(1, ALIGNED, dtype=inputs.dtype)[0], (*inputs.shape[:-1], ALIGNED))
    return jnp.concatenate([inputs, one], axis=-1) @ jnp.concatenate([cell.weight_ih, bias], axis=1).T


def lstm_step(cell: eqx.nn.LSTMCell, state: LSTMState, projected: Float[Array, " gates"]) -> LSTMState:
    """Updates the state by one step, with gates in the order input, forget, candidate, output."""
    gates = projected + cell.weight_hh @ state.hidden
    into, keep, candidate, out = jnp.split(gates, 4)
    memory = jax.nn.sigmoid(keep) * state.cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
    return LSTMState(jax.nn.sigmoid(out) * jnp.tanh(memory), memory)


def masked_passes(
    cell: eqx.nn.LSTMCell,
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    num_real: Int[Array, " B"],
) -> Float[Array, "B times hidden"]:
    """Computes the outputs of `masked_passes_by_scan`, by a GPU kernel where there is one for this device and cell.

    Outputs beyond the first `num_real` times of a row are finite and mean nothing, and their gradients must be zero.
    """
    if on_hopper():
        with contextlib.suppress(ImportError):  # of an experimental part of JAX, which not every version has
            from compile_il.networks import lstm_kernel

            if lstm_kernel.suits(cell):
                return lstm_kernel.masked_passes_by_kernel(cell, projected, mask, num_real)
    return masked_passes_by_scan(cell, projected, mask)


def on_hopper() -> bool:
    """Returns whether the default device is a Hopper GPU."""
    return jax.default_backend() == "gpu" and str(jax.devices()[0].compute_capability).startswith("9.")


def masked_passes_by_scan(
    cell: eqx.nn.LSTMCell, projected: Float[Array, "B times gates"], mask: Float[Array, "B times"]
) -> Float[Array, "B times hidden"]:
    """Computes the outputs of each row, with hidden and cell state multiplied by the mask after each update.

    The gradient is written out: what automatic differentiation does at every step, the gradient of the weights, is one
    product at the end, and nothing is saved twice. On processors that takes up to half of the time away.
    """
    states = state_dtype(projected)
    return _scan(cell.weight_hh.astype(states), projected.astype(states), mask).astype(projected.dtype)


@jax.custom_vjp
def _scan(weight: Array, projected: Array, mask: Array) -> Array:
    return _scan_and_save(weight, projected, mask)[0]


def _scan_and_save(weight: Array, projected: Array, mask: Array) -> tuple[Array, tuple[Array, ...]]:
    def step(state: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        seen, open_ = now
        into, keep, candidate, out = jnp.split(seen + state[0] @ weight.T, 4, axis=1)
        into, keep, out = map(jax.nn.sigmoid, (into, keep, out))
        candidate = jnp.tanh(candidate)
        memory = keep * state[1] + into * candidate
        hidden, kept = open_[:, None] * out * jnp.tanh(memory), open_[:, None] * memory
        return (hidden, kept), (hidden, kept, jnp.concatenate([into, keep, candidate, out], axis=1))

    mask = mask.T
    blank = jnp.zeros((projected.shape[0], weight.shape[1]), projected.dtype)
    _, (hidden, kept, gates) = jax.lax.scan(step, (blank, blank), (jnp.swapaxes(projected, 0, 1), mask))
    return jnp.swapaxes(hidden, 0, 1), (weight, mask, hidden, kept, gates)


def _scan_back(saved: tuple[Array, ...], d_hidden: Array) -> tuple[Array, Array, Array]:
    weight, mask, hidden, kept, all_gates = saved

    def step(d_state: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        d_out, open_, before, gates = now
        into, keep, candidate, out = jnp.split(gates, 4, axis=1)
        memory = keep * before + into * candidate
        shown = jnp.tanh(memory)
        d_hidden, d_kept = d_state[0] + d_out, d_state[1]
        d_mask = jnp.sum(d_hidden * out * shown + d_kept * memory, axis=1)
        d_shown = open_[:, None] * d_hidden
        d_memory = open_[:, None] * d_kept + d_shown * out * (1 - shown**2)
        d_into, d_keep = d_memory * candidate * into * (1 - into), d_memory * before * keep * (1 - keep)
        d_candidate, d_leave = d_memory * into * (1 - candidate**2), d_shown * shown * out * (1 - out)
        d_sums = jnp.concatenate([d_into, d_keep, d_candidate, d_leave], axis=1)
        return (d_sums @ weight, d_memory * keep), (d_sums, d_mask)

    hidden_tm1, cell_tm1 = (jnp.pad(states[:-1], ((1, 0), (0, 0), (0, 0))) for states in (hidden, kept))
    blank = jnp.zeros_like(cell_tm1[0])
    moments = jnp.swapaxes(d_hidden, 0, 1), mask, cell_tm1, all_gates
    _, (d_sums, d_mask) = jax.lax.scan(step, (blank, blank), moments, reverse=True)
    return jnp.einsum("tbg,tbh->gh", d_sums, hidden_tm1), jnp.swapaxes(d_sums, 0, 1), d_mask.T


_scan.defvjp(_scan_and_save, _scan_back)
