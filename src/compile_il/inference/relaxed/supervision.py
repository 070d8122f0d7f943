"""Labels as the recognition model can use them: the end and the code of each segment, where they are known."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int
from numpy.typing import NDArray

from compile_il.data import UNKNOWN, DemonstrationError
from compile_il.data.batch import Batch
from compile_il.data.labels import NO_SEGMENT, PartialLabels


class Supervision(NamedTuple):
    """What is known about the segments of one demonstration; `UNKNOWN` elsewhere."""

    ends: Int[Array, " M"]
    """b_1 .. b_M; all of them or none, but for the last one and those of empty segments, which lie at the end."""
    codes: Int[Array, " M"]
    num_segments: Int[Array, ""]
    """Number of segments; those beyond it, up to M, are empty."""
    listed: Bool[Array, ""]
    """Whether labels list the segments in order, so that each of them has a step."""

    @property
    def boundaries_told(self) -> Bool[Array, ""]:
        """Whether inner boundaries are told; all of them are, or none."""
        return (self.num_segments > 1) & (self.ends[0] >= 0)


def no_supervision(length: Int[Array, ""], num_segments: int) -> Supervision:
    """What is known without labels: that many segments, of which all but the last may end anywhere."""
    unknown = jnp.full((num_segments,), UNKNOWN)
    return Supervision(unknown.at[-1].set(length), unknown, jnp.array(num_segments), jnp.array(False))


def told_by(
    length: Int[Array, ""],
    boundaries: Int[Array, " T"],
    codes: Int[Array, " T"],
    sketch: Int[Array, " sketch"],
    count: Int[Array, ""],
    num_segments: int,
) -> Supervision:
    """What labels of steps and of segments tell about one demonstration.

    Boundaries are used if all inner ones are told. The codes of segments are told one after the other, or by any of
    their steps if boundaries are told too or there is only one segment.

    Args:
      length: steps that are real.
      boundaries: for each step 1 (a segment starts), 0 (none does) or `UNKNOWN`.
      codes: for each step a code or `UNKNOWN`.
      sketch: for each segment in order a code, or something negative.
      count: how many segments this demonstration has.
      num_segments: M, the largest count.
    """
    (starts,) = jnp.nonzero(boundaries == 1, size=num_segments - 1, fill_value=UNKNOWN)
    # A single segment has no inner boundary: that none is told then says nothing.
    all_told = (jnp.sum(boundaries == 1) == count - 1) & (count > 1)
    inner = jnp.where(all_told, starts, UNKNOWN)
    in_segment = jnp.cumsum(boundaries == 1) == jnp.arange(num_segments)[:, None]
    by_step = jnp.max(jnp.where(in_segment & (all_told | (count == 1)), codes, UNKNOWN), axis=1)
    by_segment = jnp.pad(sketch, (0, num_segments), constant_values=UNKNOWN)[:num_segments]
    codes_told = jnp.where(by_segment >= 0, by_segment, by_step)
    ends = jnp.where(jnp.arange(num_segments) < count - 1, jnp.append(inner, length), length)
    return Supervision(ends, codes_told, jnp.asarray(count), jnp.any(sketch == NO_SEGMENT))


def supervision_of_batch(batch: Batch, counts: Int[Array, " B"], num_segments: int) -> Supervision:
    """What labels tell about each demonstration of a batch, by `told_by`."""
    labels = (batch.lengths, batch.boundary_labels, batch.code_labels, batch.segment_codes, counts)
    return jax.vmap(functools.partial(told_by, num_segments=num_segments))(*map(jnp.asarray, labels))


def counts_of_batch(batch: Batch, num_segments: int) -> Int[Array, " B"]:
    """How many segments each demonstration of a batch has: as many as its labels list in order, or M without such."""
    listed = jnp.asarray(batch.segment_codes)
    if not listed.shape[1]:
        return jnp.full(listed.shape[0], num_segments)
    # A list is followed by at least one place without a segment.
    return jnp.where(listed[:, -1] == NO_SEGMENT, jnp.sum(listed != NO_SEGMENT, axis=1), num_segments)


def check_labels(labels: PartialLabels, counts: NDArray[np.integer]) -> None:
    """Refuses labels that the recognition model has no use for.

    It takes all boundaries of a demonstration or none, and codes by segment.

    Args:
      labels: what is told of all demonstrations.
      counts: how many segments each demonstration has.
    """
    sketches = labels.segment_codes or [np.zeros(0, int)] * len(counts)
    for i, (boundaries, by_step, sketch) in enumerate(zip(labels.boundaries, labels.codes, sketches, strict=True)):
        told, inner = int(np.sum(boundaries == 1)), int(counts[i]) - 1
        if (boundaries[1:] >= 0).any() and told != inner:
            raise DemonstrationError(
                f"The labels of demonstration {i} tell {told} of {inner} boundaries: the recognition model needs all "
                f"of them or none; {_INSTEAD}. If the number of segments differs, pass a list as num_segments."
            )
        if (by_step >= 0).any() and told != inner:
            raise DemonstrationError(
                f"The labels of demonstration {i} tell codes of steps without its boundaries: the recognition model "
                f"needs both, or codes of segments (segment_codes); {_INSTEAD}."
            )
        for number, within in enumerate(np.split(by_step, np.flatnonzero(boundaries == 1))):
            if len(several := np.unique(within[within >= 0])) > 1:
                raise DemonstrationError(
                    f"The labels of demonstration {i} tell codes {several.tolist()} within segment {number}: a segment "
                    "has one; change its codes or the boundaries."
                )
        if len(sketch) not in (0, counts[i]):
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(sketch)} segments, and there are {counts[i]}: "
                "change num_segments, or the labels."
            )


_INSTEAD = 'tell the rest, or use exact inference (inference="exact")'
