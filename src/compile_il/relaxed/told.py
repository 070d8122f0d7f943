"""Labels as the recognition model can use them: the end and the code of each segment, where they are known."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from compile_il.batches import Batch
from compile_il.demos import UNKNOWN


class Told(NamedTuple):
    """What is known about the segments of one demonstration; `UNKNOWN` elsewhere."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; all of them or none, but for the last, which is the demonstration's length."""
    codes: Int[Array, " M"]


def told_by(
    length: Int[Array, ""],
    boundaries: Int[Array, " T"],
    codes: Int[Array, " T"],
    sketch: Int[Array, " sketch"],
    num_segments: int,
) -> Told:
    """From labels of steps and segments.

    Boundaries count if all M - 1 of them are told; the codes of segments are told one after the other, or by their
    first steps where boundaries are told too.
    """
    (starts,) = jnp.nonzero(boundaries == 1, size=num_segments - 1, fill_value=UNKNOWN)
    all_told = jnp.sum(boundaries == 1) == num_segments - 1
    # A single segment has no inner boundary: that none is told then says nothing.
    all_told &= num_segments > 1
    inner = jnp.where(all_told, starts, UNKNOWN)
    by_step = jnp.where(all_told, codes[jnp.concatenate([jnp.zeros(1, starts.dtype), inner])], UNKNOWN)
    by_segment = jnp.pad(sketch, (0, num_segments), constant_values=UNKNOWN)[:num_segments]
    return Told(
        ends=jnp.append(inner, length), codes=jnp.where(by_segment >= 0, by_segment, jnp.maximum(by_step, UNKNOWN))
    )


def told_in(batch: Batch, num_segments: int) -> Told:
    """`told_by` of each demonstration of a batch."""
    labels = map(jnp.asarray, (batch.lengths, batch.boundary_labels, batch.code_labels, batch.segment_labels))
    return jax.vmap(functools.partial(told_by, num_segments=num_segments))(*labels)
