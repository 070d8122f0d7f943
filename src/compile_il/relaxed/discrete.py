"""Test time: no relaxation, one segment after the other, each cut off before the next is looked for.

The recognition model sees what is left of the demonstration and nothing before it, so demonstrations may be longer, and
have more segments, than any that it was trained on (paper, "Recognition model").
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.log_space import LOG_ZERO
from compile_il.relaxed.inference import Readout
from compile_il.relaxed.recognition import Recognition, encode, read_attentively


class HardSegments(NamedTuple):
    """Segments of one demonstration, found one at a time."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; the last one is the demonstration's length. A segment may be empty once the end is reached."""
    code_logits: Float[Array, "M codes"]


def segment(
    recognition: Recognition,
    inputs: Float[Array, "times input"],
    length: Int[Array, ""],
    num_segments: int,
    readout: Readout = "last",
) -> HardSegments:
    """Finds the most probable end of each segment, cuts, and goes on with the rest."""
    times = jnp.arange(inputs.shape[0])

    def find(begin: Int[Array, ""], i: Int[Array, ""]) -> tuple[Int[Array, ""], HardSegments]:
        # A state of zero until the segment begins is a network that starts there.
        encodings = encode(recognition.cell, inputs, (times >= begin).astype(inputs.dtype))
        logits = recognition.boundary_logits(encodings, length)
        likeliest = jnp.argmax(jnp.where(times > begin, logits, 2 * LOG_ZERO))
        end = jnp.where((i == num_segments - 1) | (begin >= length), length, likeliest)
        if readout == "last":
            weights = (times == end - 1).astype(inputs.dtype)
        else:
            inside = (times >= begin) & (times < end)
            scores = jax.vmap(recognition.attention_head)(encodings)
            weights = read_attentively(scores, jnp.where(inside, 0.0, LOG_ZERO))
        return end, HardSegments(end, weights @ jax.vmap(recognition.code_head)(encodings))

    return jax.lax.scan(find, jnp.array(0), jnp.arange(num_segments))[1]
