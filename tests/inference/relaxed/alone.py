"""What training does for many demonstrations at once, and in pieces, for one and as a whole."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.inference.relaxed.recognition import Inference, Readout, Recognition, end_of, infer_all, next_segment
from compile_il.inference.relaxed.supervision import no_supervision
from compile_il.networks.lstm import LSTMState, lstm_step, project, state_dtype, zero_state


class SoftSegments(NamedTuple):
    """How much each time belongs to each segment."""

    log_probs: Float[Array, "M times"]
    """log P(t ∈ C_i)."""
    log_open: Float[Array, "M times"]
    """log mask_i(t): that no earlier segment explains time t."""


def soft_segments(log_boundaries: Float[Array, "inner times"], length: Int[Array, ""]) -> SoftSegments:
    """Soft segments of M - 1 inner boundaries; the last segment ends with the demonstration."""
    num_times = log_boundaries.shape[1]
    every = jnp.concatenate([log_boundaries, end_of(length, num_times)[None]])

    def extend(
        log_open: Float[Array, " times"], log_boundary: Float[Array, " times"]
    ) -> tuple[Float[Array, " times"], SoftSegments]:
        found = next_segment(log_open, log_boundary)
        return found.log_open, SoftSegments(found.log_probs, log_open)

    return jax.lax.scan(extend, jnp.zeros((num_times,), every.dtype), every)[1]


def infer(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    gumbel: Float[Array, "M times"],
    *,
    temperature: float | Float[Array, ""],
    readout: Readout = "last",
) -> Inference:
    """`infer_all`, of one demonstration."""
    ends = no_supervision(length, gumbel.shape[0]).ends
    rows = inputs[None], length[None], gumbel[None], ends[None]
    alone = infer_all(recognition, *rows, temperature=temperature, readout=readout)
    return jax.tree.map(lambda leaf: leaf[0], alone)


def encode(
    cell: eqx.nn.LSTMCell, inputs: Float[Array, "times input"], mask: Float[Array, " times"]
) -> Float[Array, "times hidden"]:
    """One masked pass over inputs as they are."""
    return masked_pass(cell, project(cell, inputs), mask)


def masked_pass(
    cell: eqx.nn.LSTMCell, projected: Float[Array, "times gates"], mask: Float[Array, " times"]
) -> Float[Array, "times hidden"]:
    """The recurrence as it is written, one row at a time and with the gradient that JAX derives."""

    def step(state: LSTMState, now: tuple[Float[Array, " gates"], Float[Array, ""]]) -> tuple[LSTMState, Array]:
        seen, open_ = now
        new = lstm_step(cell, state, seen)
        state = LSTMState(open_ * new.hidden, open_ * new.cell)
        return state, state.hidden

    start = jax.tree.map(lambda leaf: leaf.astype(state_dtype(projected)), zero_state(cell))
    return jax.lax.scan(step, start, (projected, mask))[1].astype(projected.dtype)
