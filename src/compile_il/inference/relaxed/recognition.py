"""Infers soft boundaries and codes, segment by segment: the recognition model q(b, z | x) and its soft masks.

One recurrent network runs once for each segment, given a soft mask (paper, "Recognition model", "Soft segment masks",
"RNN state masking" and "Soft RNN readout"). Inputs are embedded frames, T + 1 of them: a boundary may lie at any of
these times, as the first step of the next segment, and the last one, T, is the demonstration's end. With F_i(t) =
P(b_i <= t), the cumulative sum of q(b_i),

    P(t ∈ C_i) = [1 - F_i(t)] Π_{j<i} F_j(t)          mask_i(t) = Π_{j<i} F_j(t),      F_0 = 1, F_M(t) = 0 for t < T

All of it is computed in logs: 1 - F is a sum over later times rather than a difference of nearly equal numbers, and
products of many boundaries of a long demonstration do not underflow.
"""

import functools
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.data import UNKNOWN
from compile_il.inference.records import LOG_ZERO
from compile_il.inference.relaxed.distributions import relax
from compile_il.networks.lstm import masked_passes, project, state_dtype

Readout = Literal["last", "attentive"]
"""Where the code of a segment is read: softly at its last step, or where attention says."""


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
        """Computes h_b^t; neither the first step, which would leave a segment empty, nor padding can be a boundary."""
        times = jnp.arange(encodings.shape[0])
        allowed = (times > 0) & (times <= length)
        logits = jax.vmap(self.boundary_head)(encodings).astype(state_dtype(encodings))
        return jnp.where(allowed, logits, LOG_ZERO)

    def code_logits(self, encodings: Float[Array, "times hidden"]) -> Float[Array, "times codes"]:
        """Computes h_z^t, for a code that is read at time t."""
        return jax.vmap(self.code_head)(encodings).astype(state_dtype(encodings))

    def attention(self, encodings: Float[Array, "times hidden"]) -> Float[Array, " times"]:
        """Computes the scores a^t, whether or not time t belongs to the segment."""
        return jax.vmap(self.attention_head)(encodings).astype(state_dtype(encodings))


def read_last(log_boundary: Float[Array, " times"]) -> Float[Array, " times"]:
    """Returns the weights of a soft readout at a segment's last step: Σ_t q(b_i = t + 1) h^t."""
    return jnp.append(jnp.exp(log_boundary[1:]), 0.0)


def read_attentively(
    scores: Float[Array, " times"], log_segment: Float[Array, " times"], length: Int[Array, ""]
) -> Float[Array, " times"]:
    """Returns the weights of the attentive readout: softmax_t [ a_i^t + log P(t ∈ C_i) ], over real steps.

    An empty segment has no step to attend to; its readout is the same everywhere, and never of padding.
    """
    real = jnp.arange(scores.shape[0]) < length
    return jax.nn.softmax(jnp.where(real, scores + log_segment, 2 * LOG_ZERO))


class SoftSegment(NamedTuple):
    """One segment, and the mask of those after it."""

    log_probs: Float[Array, " times"]
    """log P(t ∈ C_i)."""
    next_log_mask: Float[Array, " times"]
    """log mask_{i+1}(t)."""


def soft_segment(log_mask: Float[Array, " times"], log_boundary: Float[Array, " times"]) -> SoftSegment:
    """Returns the segment that ends at a soft boundary, given the mask of the earlier segments."""
    log_cdf = jnp.minimum(jax.lax.cumlogsumexp(log_boundary), 0.0)  # log F(t)
    log_from_t = jnp.minimum(jax.lax.cumlogsumexp(log_boundary, reverse=True), 0.0)
    log_survival = jnp.append(log_from_t[1:], LOG_ZERO)  # log [1 - F(t)]
    log_probs = jnp.maximum(log_mask + log_survival, LOG_ZERO)
    return SoftSegment(log_probs, jnp.maximum(log_mask + log_cdf, LOG_ZERO))


def hard_boundary(time: Int[Array, ""], num_times: int) -> Float[Array, " times"]:
    """Returns the log-probabilities of a boundary that lies at one time."""
    return jnp.where(jnp.arange(num_times) == time, 0.0, LOG_ZERO)


class Inference(NamedTuple):
    """Outputs of the recognition model for one demonstration, with one sample of its boundaries."""

    boundary_logits: Float[Array, "M times"]
    """Logits of q(b_i | x); those of the last segment are not used, since it ends with the demonstration."""
    log_boundaries: Float[Array, "M times"]
    """Logs of relaxed samples of boundaries, or of labels; the last boundary lies at the end."""
    log_masks: Float[Array, "M times"]
    """log mask_i(t): that no earlier segment explains time t."""
    log_segments: Float[Array, "M times"]
    """log P(t ∈ C_i), that step t belongs to segment i."""
    code_logits: Float[Array, "M codes"]
    """Logits of q(z_i | x), or means and log-variances where codes are Gaussian."""


def infer_all(
    recognition: Recognition,
    inputs: Float[Array, "B times input"],
    lengths: Int[Array, " B"],
    gumbel: Float[Array, "B M times"],
    ends: Int[Array, "B M"],
    *,
    temperature: float | Float[Array, ""],
    readout: Readout = "last",
) -> Inference:
    """Runs the recognition model once for each segment, given the mask of the earlier segments.

    Boundaries in `ends` (`Supervision.ends`) take the place of samples, which need standard Gumbel noise. Outputs have
    demonstrations along the first axis of each array.
    """
    num_demos, num_segments, num_times = gumbel.shape
    projected = project(recognition.cell, inputs)
    infer_one = functools.partial(_infer_segment, recognition, temperature=temperature, readout=readout)

    def segment(
        log_mask: Float[Array, "B times"], now: tuple[Float[Array, "B times"], Int[Array, " B"]]
    ) -> tuple[Float[Array, "B times"], Inference]:
        encodings = masked_passes(recognition.cell, projected, jnp.exp(log_mask), lengths + 1)
        return jax.vmap(infer_one)(encodings, log_mask, *now, lengths)

    start = jnp.zeros((num_demos, num_times), gumbel.dtype)
    # On a GPU, a loop takes as long to copy what each pass keeps for its gradient as some of the networks take.
    unroll = num_segments if jax.default_backend() == "gpu" else 1
    by_segment = jax.lax.scan(segment, start, (jnp.moveaxis(gumbel, 1, 0), ends.T), unroll=unroll)[1]
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), by_segment)


def _infer_segment(
    recognition: Recognition,
    encodings: Array,
    log_mask: Array,
    gumbel: Array,
    end: Array,
    length: Array,
    *,
    temperature: float | Array,
    readout: Readout,
) -> tuple[Array, Inference]:
    """Infers the next segment of one demonstration; returns the mask of the one after it first."""
    logits = recognition.boundary_logits(encodings, length)
    sample = relax(logits, gumbel, temperature)
    log_boundary = jnp.where(end == UNKNOWN, sample, hard_boundary(end, sample.shape[0]).astype(sample.dtype))
    segment = soft_segment(log_mask, log_boundary)
    if readout == "last":
        weights = read_last(log_boundary)
    else:
        weights = read_attentively(recognition.attention(encodings), segment.log_probs, length)
    code_logits = weights @ recognition.code_logits(encodings)
    return segment.next_log_mask, Inference(logits, log_boundary, log_mask, segment.log_probs, code_logits)
