"""Minibatches with their frames end to end, so that networks run on frames that exist and on nothing else."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from compile_il.demos import UNKNOWN, Demonstrations
from compile_il.demos.labels import NO_SEGMENT

ROUND_STEPS, ROUND_FRAMES = 16, 1024
"""Numbers of steps and of frames are rounded up to multiples of these, so that only few programs are compiled."""
AnyArray = jax.Array | np.ndarray
"""An array of JAX or NumPy: batches of a world are made on the device, batches of data on the host."""


class Batch(NamedTuple):
    """B demonstrations: F frames end to end, a fixed number, and where each demonstration's frames are among them."""

    frames: Shaped[AnyArray, "F ..."]
    actions: Shaped[AnyArray, "F ..."]
    """The action taken at each frame; at a demonstration's last frame none is, and the entry means nothing."""
    first: Int[AnyArray, " B"]
    """The row of each demonstration's first frame."""
    lengths: Int[AnyArray, " B"]
    fits: Bool[AnyArray, " B"]
    """Whether a demonstration counts: those whose frames did not all find room are left out of this batch."""
    boundary_labels: Int[AnyArray, "B T"]
    code_labels: Int[AnyArray, "B T"]
    segment_codes: Int[AnyArray, "B listed"]
    """Codes of segments in order, or `UNKNOWN`, then `NO_SEGMENT`; of width zero without labels of this kind."""


def frame_budget(lengths: np.ndarray, batch_size: int) -> int:
    """Number of rows that nearly always hold a random batch's frames: the mean plus five standard deviations.

    There is room for the longest demonstration and for others beside it, too: were it left out of most small batches,
    what is learned would depend on their size.

    Large numbers are round ones: GPUs take sums over frames in parts of the same size, and XLA would fill up every
    array of maps to reach it.
    """
    frames = lengths + 1.0
    mean, spread, longest, others = frames.mean(), frames.std(), frames.max(), batch_size - 1
    usual = batch_size * mean + 5 * np.sqrt(batch_size) * spread
    with_the_longest = longest + others * mean + 2 * np.sqrt(others) * spread
    room = min(max(usual, with_the_longest), batch_size * longest)
    unit = 32 if room > 1000 else 8
    return math.ceil(room / unit) * unit


def batch_of(demos: Demonstrations, num_frames: int, max_length: int) -> Batch:
    """A batch of demonstrations that are at hand, as NumPy arrays of fixed shapes."""
    storage = demos.storage
    sizes = np.asarray(demos.lengths) + 1
    ends = np.cumsum(sizes)
    first = ends - sizes
    fits = ends <= num_frames
    used = int(ends[fits][-1]) if fits.any() else 0

    def rows(values: np.ndarray) -> np.ndarray:
        out = np.zeros((num_frames, *values.shape[1:]), values.dtype)
        out[:used] = values[:used]
        return out

    # One action a frame: a row of zeros stands for the action that the last frame of an episode does not have.
    actions = np.insert(storage.actions.values, np.cumsum(demos.lengths), 0, axis=0)
    return Batch(
        frames=rows(storage.observations.values),
        actions=rows(actions),
        first=np.where(fits, first, 0).astype(np.int32),
        lengths=np.asarray(demos.lengths, np.int32),
        fits=fits,
        boundary_labels=_padded_labels(demos, "boundaries", max_length),
        code_labels=_padded_labels(demos, "codes", max_length),
        segment_codes=_padded_segment_codes(demos, max_length),
    )


def _padded_labels(demos: Demonstrations, name: str, max_length: int) -> np.ndarray:
    out = np.full((len(demos), max_length), UNKNOWN, np.int32)
    if demos.labels is not None:
        for row, known in zip(out, getattr(demos.labels, name), strict=True):
            row[: len(known)] = known
    return out


def _padded_segment_codes(demos: Demonstrations, max_length: int) -> np.ndarray:
    """Codes of each demonstration's segments, followed by `NO_SEGMENT`; all `UNKNOWN` where none are listed.

    The width is that of the longest list there can be, so that batches of one data set have one shape.
    """
    if demos.labels is None or demos.labels.segment_codes is None:
        return np.zeros((len(demos), 0), np.int32)
    out = np.full((len(demos), max_length + 1), UNKNOWN, np.int32)
    for row, known in zip(out, demos.labels.segment_codes, strict=True):
        if len(known):
            row[: len(known)], row[len(known) :] = known, NO_SEGMENT
    return out


def pick(batch: Batch, rows: np.ndarray) -> Batch:
    """Picks some demonstrations of a batch, any of them more than once; the frames stay where they are."""
    return batch._replace(
        first=batch.first[rows],
        lengths=batch.lengths[rows],
        fits=batch.fits[rows],
        boundary_labels=batch.boundary_labels[rows],
        code_labels=batch.code_labels[rows],
        segment_codes=batch.segment_codes[rows],
    )


def rows_filled_up(num_demos: int, num_rows: int) -> np.ndarray:
    """Indices of all demonstrations, and then of the first one again and again, up to a number of rows."""
    return np.pad(np.arange(num_demos), (0, num_rows - num_demos))


def rounded_batch(demos: Demonstrations, rows: np.ndarray, max_length: int) -> Batch:
    """A batch of some rows in one of few shapes: room for frames and for `max_length` steps is rounded up."""
    num_frames, num_steps = _round_up(demos.num_frames, ROUND_FRAMES), _round_up(max_length, ROUND_STEPS)
    return pick(batch_of(demos, num_frames, num_steps), rows)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def acts(batch: Batch) -> Bool[Array, " F"]:
    """Whether an action is taken at each frame; none is where a demonstration ends."""
    ends = jnp.where(batch.fits, batch.first + batch.lengths, UNKNOWN)
    return ~jnp.any(jnp.arange(batch.frames.shape[0])[:, None] == ends, axis=1)
