"""Turns labels into the end and the code of each segment, for the recognition model."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from compile_il.data import UNKNOWN
from compile_il.data.batch import Batch
from compile_il.data.labels import NO_SEGMENT


class Supervision(NamedTuple):
    """Labels of the segments of one demonstration, or `UNKNOWN`."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; all of them or none, but for the last one and those of empty segments, which lie at the end."""
    codes: Int[Array, " M"]
    num_segments: Int[Array, ""]
    """Number of segments; those beyond it, up to M, are empty."""
    listed: Bool[Array, ""]
    """Whether labels list the segments in order, so that each of them has a step."""

    @property
    def has_boundaries(self) -> Bool[Array, ""]:
        """Whether inner boundaries have labels: all of them, or none."""
        return (self.num_segments > 1) & (self.ends[0] >= 0)


def supervision_from_labels(
    length: Int[Array, ""],
    boundaries: Int[Array, " T"],
    codes: Int[Array, " T"],
    segment_codes: Int[Array, " listed"],
    count: Int[Array, ""],
    num_segments: int,
) -> Supervision:
    """Turns labels of one demonstration into labels of its `count` segments, of `num_segments` at most.

    Boundaries are used if all inner ones are given. The codes of segments come from their list, or from any of their
    steps if boundaries are given too or there is only one segment.
    """
    (starts,) = jnp.nonzero(boundaries == 1, size=num_segments - 1, fill_value=UNKNOWN)
    # A single segment has no inner boundary: without any label there, all of them are given.
    complete = (jnp.sum(boundaries == 1) == count - 1) & (count > 1)
    inner = jnp.where(complete, starts, UNKNOWN)
    in_segment = jnp.cumsum(boundaries == 1) == jnp.arange(num_segments)[:, None]
    by_step = jnp.max(jnp.where(in_segment & (complete | (count == 1)), codes, UNKNOWN), axis=1)
    by_segment = jnp.pad(segment_codes, (0, num_segments), constant_values=UNKNOWN)[:num_segments]
    ends = jnp.where(jnp.arange(num_segments) < count - 1, jnp.append(inner, length), length)
    labels = jnp.where(by_segment >= 0, by_segment, by_step)
    return Supervision(ends, labels, jnp.asarray(count), jnp.any(segment_codes == NO_SEGMENT))


def supervision_of_batch(batch: Batch, num_segments: int, counts: Int[Array, " B"] | None = None) -> Supervision:
    """Returns the supervision of each demonstration of a batch.

    Each has as many segments as its entry of `counts`, or without counts, as its labels list in order, or else M.
    """
    segment_codes = jnp.asarray(batch.segment_codes)
    if counts is None:
        counts = jnp.full(len(segment_codes), num_segments)
        if segment_codes.shape[1]:  # then a list is followed by at least one place without a segment
            num_listed = jnp.sum(segment_codes != NO_SEGMENT, axis=1)
            counts = jnp.where(segment_codes[:, -1] == NO_SEGMENT, num_listed, counts)
    labels = jnp.asarray(batch.boundary_labels), jnp.asarray(batch.code_labels), segment_codes
    each = functools.partial(supervision_from_labels, num_segments=num_segments)
    return jax.vmap(each)(jnp.asarray(batch.lengths), *labels, counts)
