"""Does for one demonstration, and as a whole, what training does for many at once and in pieces."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.config import Config
from compile_il.data import UNKNOWN
from compile_il.inference.relaxed.objective import (
    CodeSample,
    LossTerms,
    categorical_code_losses,
    loss_terms,
    mixed_log_policy,
)
from compile_il.inference.relaxed.recognition import (
    Inference,
    Readout,
    Recognition,
    hard_boundary,
    infer_all,
    soft_segment,
)
from compile_il.inference.relaxed.supervision import Supervision
from compile_il.networks.lstm import LSTMState, lstm_step, project, state_dtype, zero_state


class SoftSegments(NamedTuple):
    """How much each time belongs to each segment."""

    log_probs: Float[Array, "M times"]
    """log P(t ∈ C_i)."""
    log_mask: Float[Array, "M times"]
    """log mask_i(t): that no earlier segment explains time t."""


def soft_segments(log_boundaries: Float[Array, "inner times"], length: Int[Array, ""]) -> SoftSegments:
    """Soft segments of M - 1 inner boundaries; the last segment ends with the demonstration."""
    num_times = log_boundaries.shape[1]
    every = jnp.concatenate([log_boundaries, hard_boundary(length, num_times)[None]])

    def extend(
        log_mask: Float[Array, " times"], log_boundary: Float[Array, " times"]
    ) -> tuple[Float[Array, " times"], SoftSegments]:
        found = soft_segment(log_mask, log_boundary)
        return found.next_log_mask, SoftSegments(found.log_probs, log_mask)

    return jax.lax.scan(extend, jnp.zeros((num_times,), every.dtype), every)[1]


def no_supervision(length: Int[Array, ""], num_segments: int) -> Supervision:
    """That many segments, of which all but the last may end anywhere."""
    unknown = jnp.full((num_segments,), UNKNOWN)
    return Supervision(unknown.at[-1].set(length), unknown, jnp.array(num_segments), jnp.array(False))


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


def unlabelled_terms(
    found: Inference, log_codes: Any, log_policy: Any, length: jax.Array, **settings: Any
) -> LossTerms:
    """What training adds up, with weights of one unless others are given."""
    num_segments = found.code_logits.shape[0]
    rate, weights = settings.pop("rate", 3.0), {"beta_codes": 1.0, "beta_boundaries": 1.0}
    config = Config(inference="relaxed", num_segments=num_segments, **(weights | settings))
    supervision = no_supervision(length, num_segments)
    costs = categorical_code_losses(found.code_logits, supervision.codes, config.beta_codes)
    codes = CodeSample(mixed_log_policy(log_codes, log_policy), costs)
    return loss_terms(found, codes, supervision, length, config, rate)
