"""Segmentation at test time: not relaxed, one segment after the other, each cut off before the next is looked for.

The recognition model sees what is left of the demonstration and nothing before it, so demonstrations may be longer, and
have more segments, than any that it was trained on (paper, "Recognition model").
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.data import UNKNOWN
from compile_il.inference.log_space import LOG_ZERO
from compile_il.inference.relaxed.recognition import Readout, Recognition, read_attentively
from compile_il.inference.relaxed.supervision import Supervision
from compile_il.networks.lstm import masked_passes_by_scan, project


class HardSegments(NamedTuple):
    """Segments of one demonstration, found one at a time."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; the last one is the demonstration's length. A segment may be empty once the end is reached."""
    boundary_probs: Float[Array, "M times"]
    """q(b_i = t) given the cuts before it, one where it is told; all zero for the last segment and for empty ones."""
    code_logits: Float[Array, "M codes"]


def segment(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    told: Supervision,
    readout: Readout,
) -> HardSegments:
    """Finds the most probable end of each segment, cuts, and goes on with the rest.

    Args:
      recognition: the network.
      inputs: an embedded frame for each time.
      length: steps that are real.
      told: how many segments there are, and the boundaries that are known and taken as they are. Where labels list the
        segments each of them has a step, so that some must be left for the rest.
      readout: where codes are read.
    """
    times, projected = jnp.arange(inputs.shape[0]), project(recognition.cell, inputs)[None]
    last = told.num_segments - 1

    def find(begin: Int[Array, ""], now: tuple[Int[Array, ""], Int[Array, ""]]) -> tuple[Int[Array, ""], HardSegments]:
        i, told_end = now
        # A state of zero until the segment begins is a network that starts there.
        mask = (times >= begin).astype(projected.dtype)
        [encodings] = masked_passes_by_scan(recognition.cell, projected, mask[None])
        logits = recognition.boundary_logits(encodings, length)
        latest = length - jnp.where(told.listed, last - i, 0)
        allowed = jnp.where((times > begin) & (times <= latest), logits, 2 * LOG_ZERO)
        likeliest = jnp.argmax(allowed)
        over = (i >= last) | (begin >= length)
        end = jnp.where(over, length, jnp.where(told_end == UNKNOWN, likeliest, told_end))
        if readout == "last":
            weights = (times == end - 1).astype(projected.dtype)
        else:
            inside = (times >= begin) & (times < end)
            scores = recognition.attention(encodings)
            weights = read_attentively(scores, jnp.where(inside, 0.0, LOG_ZERO), length)
        probs = jnp.where(told_end == UNKNOWN, jax.nn.softmax(allowed), times == told_end)
        return end, HardSegments(end, jnp.where(over, 0.0, probs), weights @ recognition.code_logits(encodings))

    return jax.lax.scan(find, jnp.array(0), (jnp.arange(told.ends.shape[0]), told.ends))[1]
