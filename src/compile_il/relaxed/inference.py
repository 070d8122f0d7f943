"""Soft boundaries and codes of demonstrations, segment by segment (paper, equations of the recognition model)."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.demos import UNKNOWN
from compile_il.fused_lstm import masked_passes
from compile_il.lstm import project
from compile_il.relaxed.masks import NextSegment, end_of, next_segment
from compile_il.relaxed.recognition import Recognition, read_attentively, read_last
from compile_il.relaxed.samples import relax

Readout = Literal["last", "attentive"]
"""Where the code of a segment is read: softly at its last step, or where attention says."""


class Inference(NamedTuple):
    """What the recognition model says about one demonstration, with one sample of its boundaries."""

    boundary_logits: Float[Array, "M times"]
    """Logits of q(b_i | x); those of the last segment are not used, since it ends with the demonstration."""
    log_boundaries: Float[Array, "M times"]
    """Logs of relaxed samples of boundaries, or of told ones; the last boundary lies at the end."""
    log_open: Float[Array, "M times"]
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
    told_ends: Int[Array, "B M"],
    *,
    temperature: float | Float[Array, ""],
    readout: Readout = "last",
) -> Inference:
    """Runs the recognition model once for each segment, behind the mask that the ones before leave.

    Args:
      recognition: the network.
      inputs: an embedded frame for each time of each demonstration.
      lengths: steps that are real.
      gumbel: standard Gumbel noise for the boundary of each segment; that of the last one is not used.
      told_ends: boundaries that are known and take the place of samples, or `UNKNOWN`; the last one is always known to
        be the length (`compile_il.relaxed.told`).
      temperature: τ of the relaxed boundaries.
      readout: where codes are read.

    Returns:
      What was found, with demonstrations along the first axis of each array.
    """
    num_demos, num_segments, num_times = gumbel.shape
    projected = project(recognition.cell, inputs)
    find = functools.partial(infer_segment, recognition, temperature=temperature, readout=readout)

    def segment(
        log_open: Float[Array, "B times"], now: tuple[Float[Array, "B times"], Int[Array, " B"]]
    ) -> tuple[Float[Array, "B times"], Inference]:
        encodings = masked_passes(recognition.cell, projected, jnp.exp(log_open), lengths + 1)
        return jax.vmap(find)(encodings, log_open, *now, lengths)

    start = jnp.zeros((num_demos, num_times), gumbel.dtype)
    # On a GPU a loop would spend as long on copying what each pass keeps for its gradient as some of the networks take.
    unroll = num_segments if jax.default_backend() == "gpu" else 1
    by_segment = jax.lax.scan(segment, start, (jnp.moveaxis(gumbel, 1, 0), told_ends.T), unroll=unroll)[1]
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), by_segment)


def infer_segment(
    recognition: Recognition,
    encodings: Float[Array, "times hidden"],
    log_open: Float[Array, " times"],
    gumbel: Float[Array, " times"],
    told_end: Int[Array, ""],
    length: Int[Array, ""],
    *,
    temperature: float | Float[Array, ""],
    readout: Readout,
) -> tuple[Float[Array, " times"], Inference]:
    """Infers the next segment of one demonstration; returns what it leaves open, and all that is found out about it."""
    logits = recognition.boundary_logits(encodings, length)
    sample = relax(logits, gumbel, temperature)
    log_boundary = jnp.where(told_end == UNKNOWN, sample, end_of(told_end, sample.shape[0]).astype(sample.dtype))
    found = next_segment(log_open, log_boundary)
    code_logits = read_code(recognition, encodings, log_boundary, found, length, readout)
    return found.log_open, Inference(logits, log_boundary, log_open, found.log_probs, code_logits)


def read_code(
    recognition: Recognition,
    encodings: Float[Array, "times hidden"],
    log_boundary: Float[Array, " times"],
    found: NextSegment,
    length: Int[Array, ""],
    readout: Readout,
) -> Float[Array, " codes"]:
    """h_z of one segment: an average over the times at which it may have to be read."""
    if readout == "last":
        weights = read_last(log_boundary)
    else:
        weights = read_attentively(recognition.attention(encodings), found.log_probs, length)
    return weights @ recognition.code_logits(encodings)


def draw_gumbel(key: PRNGKeyArray, num_segments: int, num_times: int) -> Float[Array, "M times"]:
    """Standard Gumbel noise for the boundaries of one demonstration."""
    return jax.random.gumbel(key, (num_segments, num_times))
