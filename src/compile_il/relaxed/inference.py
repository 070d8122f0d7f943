"""Soft boundaries and codes of one demonstration, segment by segment (paper, equations of the recognition model)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.relaxed.masks import end_of, next_segment
from compile_il.relaxed.recognition import Recognition, encode, read_attentively, read_last
from compile_il.relaxed.samples import relax

Readout = Literal["last", "attentive"]
"""Where the code of a segment is read: softly at its last step, or where attention says."""


class Inference(NamedTuple):
    """What the recognition model says about one demonstration, with one sample of its boundaries."""

    boundary_logits: Float[Array, "M times"]
    """Of q(b_i | x); those of the last segment are not used, since it ends with the demonstration."""
    log_boundaries: Float[Array, "M times"]
    """Logs of relaxed samples; the last one lies at the end."""
    log_segments: Float[Array, "M times"]
    """log P(t ∈ C_i)."""
    code_logits: Float[Array, "M codes"]
    """Of q(z_i | x), or means and log-variances where codes are Gaussian."""


def infer(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    gumbel: Float[Array, "M times"],
    *,
    temperature: float | Float[Array, ""],
    readout: Readout = "last",
) -> Inference:
    """Runs the recognition model once for each segment, behind the mask that the ones before leave.

    Args:
      recognition: the network.
      inputs: an embedded frame for each time.
      length: steps that are real.
      gumbel: standard Gumbel noise for the boundary of each segment; that of the last one is not used.
      temperature: τ of the relaxed boundaries.
      readout: where codes are read.
    """
    num_segments, num_times = gumbel.shape
    the_end = end_of(length, num_times).astype(inputs.dtype)

    def segment(
        log_open: Float[Array, " times"], now: tuple[Int[Array, ""], Float[Array, " times"]]
    ) -> tuple[Float[Array, " times"], Inference]:
        i, noise = now
        encodings = encode(recognition.cell, inputs, jnp.exp(log_open))
        logits = recognition.boundary_logits(encodings, length)
        log_boundary = jnp.where(i == num_segments - 1, the_end, relax(logits, noise, temperature))
        found = next_segment(log_open, log_boundary)
        if readout == "last":
            weights = read_last(log_boundary)
        else:
            weights = read_attentively(jax.vmap(recognition.attention_head)(encodings), found.log_probs)
        code_logits = weights @ jax.vmap(recognition.code_head)(encodings)
        return found.log_open, Inference(logits, log_boundary, found.log_probs, code_logits)

    start = jnp.zeros((num_times,), inputs.dtype)
    return jax.lax.scan(segment, start, (jnp.arange(num_segments), gumbel))[1]


def draw_gumbel(key: PRNGKeyArray, num_segments: int, num_times: int) -> Float[Array, "M times"]:
    """Noise for the boundaries of one demonstration."""
    return jax.random.gumbel(key, (num_segments, num_times))
