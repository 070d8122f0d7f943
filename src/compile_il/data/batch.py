"""Makes batches with concatenated frames, sorts demonstrations into length buckets, and pads scores of frames.

Networks run on concatenated frames, without padding. Sums over segmentations need padding to the longest demonstration,
and time that grows with its square. So each batch has one bucket for the usual lengths and at most one small bucket for
longer ones; results are the same, since no demonstration depends on another.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped
from numpy.typing import NDArray

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import NO_SEGMENT, UNKNOWN
from compile_il.data.ragged import Ragged, Storage

ROUND_STEPS, ROUND_FRAMES = 16, 1024
"""Numbers of steps and of frames are rounded up to multiples of these, so that only few programs are compiled."""
OVERFLOW_RATE = 1e-9
"""At most this share of random batches has more long demonstrations than its bucket holds."""
MIN_SPEEDUP = 2.0
"""Factor by which a second bucket must make batches cheaper, since it means a second program to compile."""
NO_PLACE = -1
"""Place of a frame that no demonstration has."""

Cost = Callable[[int], float]
"""A function that gives the cost of one demonstration padded to so many steps, in any unit."""
AnyArray = jax.Array | np.ndarray
"""An array of JAX or NumPy: batches of a world are made on the device, batches of data on the host."""


class Batch(NamedTuple):
    """B demonstrations: F concatenated frames, a fixed number, and where each demonstration's frames are among them."""

    frames: Shaped[AnyArray, "F ..."]
    actions: Shaped[AnyArray, "F ..."]
    """The action at each frame; at a demonstration's last frame there is none, and the entry means nothing."""
    first: Int[AnyArray, " B"]
    """The row of each demonstration's first frame."""
    lengths: Int[AnyArray, " B"]
    fits: Bool[AnyArray, " B"]
    """Whether all frames of a demonstration are in the batch; those that do not fit are left out of the loss."""
    boundary_labels: Int[AnyArray, "B T"]
    code_labels: Int[AnyArray, "B T"]
    segment_codes: Int[AnyArray, "B listed"]
    """Codes of segments in order, or `UNKNOWN`, then `NO_SEGMENT`; of width zero without labels of this kind."""
    rows: Int[AnyArray, " B"]
    """Index of each demonstration among those that were drawn together, which says what noise is drawn for it."""


def frame_budget(lengths: np.ndarray, batch_size: int) -> int:
    """Returns a number of rows that nearly always hold a random batch's frames: mean plus five standard deviations.

    They also hold the longest demonstration with others beside it: were it left out of most small batches, what is
    learned would depend on their size. Large numbers are round ones: GPUs take sums over frames in parts of one size,
    and XLA would fill up every array of maps to reach it.
    """
    frames = lengths + 1.0
    mean, spread, longest, others = frames.mean(), frames.std(), frames.max(), batch_size - 1
    usual = batch_size * mean + 5 * np.sqrt(batch_size) * spread
    with_the_longest = longest + others * mean + 2 * np.sqrt(others) * spread
    num_rows = min(max(usual, with_the_longest), batch_size * longest)
    unit = 32 if num_rows > 1000 else 8
    return math.ceil(num_rows / unit) * unit


def batch_of(storage: Storage, num_frames: int, max_length: int) -> Batch:
    """Makes a batch of demonstrations as NumPy arrays of fixed shapes."""
    lengths = storage.actions.counts
    sizes = lengths + 1
    ends = np.cumsum(sizes)
    first = ends - sizes
    fits = ends <= num_frames
    used = int(ends[fits][-1]) if fits.any() else 0

    def rows(values: np.ndarray) -> np.ndarray:
        out = np.zeros((num_frames, *values.shape[1:]), values.dtype)
        out[:used] = values[:used]
        return out

    def padded(labels: Ragged | None) -> np.ndarray:
        unknown = Ragged(np.zeros(0, np.int32), np.zeros_like(lengths))
        return (labels or unknown).padded(max_length, UNKNOWN)

    segment_codes = np.zeros((len(lengths), 0), np.int32)
    if (listed := storage.label_segments) is not None:
        segment_codes = np.where(listed.counts[:, None] > 0, listed.padded(max_length + 1, NO_SEGMENT), UNKNOWN)
    # One action a frame: a row of zeros stands for the action that the last frame of an episode does not have.
    actions = np.insert(storage.actions.values, np.cumsum(lengths), 0, axis=0)
    return Batch(
        frames=rows(storage.observations.values),
        actions=rows(actions),
        first=np.where(fits, first, 0).astype(np.int32),
        lengths=lengths.astype(np.int32),
        fits=fits,
        boundary_labels=padded(storage.label_boundaries),
        code_labels=padded(storage.label_codes),
        segment_codes=segment_codes,
        rows=np.arange(len(lengths), dtype=np.int32),
    )


def pick(batch: Batch, rows: np.ndarray) -> Batch:
    """Picks some demonstrations of a batch, any of them more than once; the frames stay where they are."""
    return Batch(batch.frames, batch.actions, *(field[rows] for field in batch[2:]))


def rows_filled_up(num_demos: int, num_rows: int) -> np.ndarray:
    """Returns the indices of all demonstrations, filled up with that of the first to a number of rows."""
    return np.pad(np.arange(num_demos), (0, num_rows - num_demos))


def rounded_batch(demos: Demonstrations, rows: np.ndarray, max_length: int) -> Batch:
    """Makes a batch of some rows in one of few shapes: numbers of frames and steps are rounded up."""
    num_frames = math.ceil(demos.num_frames / ROUND_FRAMES) * ROUND_FRAMES
    num_steps = math.ceil(max_length / ROUND_STEPS) * ROUND_STEPS
    return pick(batch_of(demos.storage, num_frames, num_steps), rows)


def has_action(batch: Batch) -> Bool[Array, " F"]:
    """Returns whether there is an action at each frame; there is none where a demonstration ends."""
    ends = jnp.where(batch.fits, batch.first + batch.lengths, UNKNOWN)
    return ~jnp.any(jnp.arange(batch.frames.shape[0])[:, None] == ends, axis=1)


class Bucket(NamedTuple):
    """Sizes of the part of each batch that holds demonstrations within some range of lengths."""

    more_than: int
    up_to: int
    num_rows: int
    num_frames: int


def usual_length(lengths: NDArray[np.integer], batch_size: int, cost: Cost) -> int:
    """Returns the largest length in the bucket for usual lengths; that of the longest if one bucket is best."""
    different, counts = np.unique(lengths, return_counts=True)
    longest = int(different[-1])
    share_longer = 1 - np.cumsum(counts)[:-1] / len(lengths)
    # A batch without long ones does without their bucket, which in others is for about so many.
    needed = 1 - (1 - share_longer) ** batch_size
    rows = np.minimum(1 + batch_size * share_longer, batch_size)
    apart = batch_size * np.array([cost(int(n)) for n in different[:-1]]) + needed * rows * cost(longest)
    if not len(apart) or apart.min() * MIN_SPEEDUP > batch_size * cost(longest):
        return longest
    return int(different[apart.argmin()])


def rows_needed(num_chosen: int, num_all: int, batch_size: int) -> int:
    """Returns how many rows hold the chosen demonstrations of all random batches but a share of `OVERFLOW_RATE`."""
    from scipy.stats import hypergeom  # takes a while, which most uses of the package need not pay

    return max(1, int(hypergeom.isf(OVERFLOW_RATE, num_all, num_chosen, batch_size)))


def group_by_length(lengths: NDArray[np.integer], cost: Cost) -> list[NDArray[np.intp]]:
    """Returns the indices of demonstrations to segment together: all, or those of usual lengths and then the others."""
    usual = usual_length(lengths, len(lengths), cost)
    groups = [np.flatnonzero(lengths <= usual), np.flatnonzero(lengths > usual)]
    return [group for group in groups if len(group)]


def make_buckets(lengths: NDArray[np.integer], batch_size: int, num_shares: int, cost: Cost) -> list[Bucket]:
    """Makes one bucket for all demonstrations, or one for the usual lengths and one for the others.

    Buckets are for equal shares of a batch, which has one share for each device. Which lengths are usual does not
    depend on their number: noise is drawn for all steps of a bucket, and is the same on any number of devices.
    """
    usual, longest, share_size = usual_length(lengths, batch_size, cost), int(lengths.max()), batch_size // num_shares
    if usual == longest:
        return [Bucket(0, longest, share_size, frame_budget(lengths, share_size))]
    is_long = lengths > usual
    num_long = rows_needed(int(is_long.sum()), len(lengths), share_size)
    return [
        Bucket(0, usual, share_size, frame_budget(lengths[~is_long], share_size)),
        Bucket(usual, longest, num_long, frame_budget(lengths[is_long], num_long)),
    ]


def batches_by_bucket(
    demos: Demonstrations, chosen: Sequence[NDArray[np.integer]], buckets: Sequence[Bucket]
) -> tuple[Batch, ...]:
    """Makes several batches of chosen demonstrations, stacked, and split into the buckets that any of them needs.

    Demonstrations of one bucket keep their order; those beyond its rows are left out.
    """
    storage, lengths, batches = demos.storage, demos.storage.actions.counts, []
    shortest = int(lengths.argmin())
    for bucket in buckets:
        is_within = [(bucket.more_than < lengths[rows]) & (lengths[rows] <= bucket.up_to) for rows in chosen]
        places = [np.flatnonzero(each)[: bucket.num_rows] for each in is_within]
        if any(map(len, places)):
            parts = [
                _fill_bucket(storage.take(rows[some] if len(some) else np.array([shortest])), some, bucket)
                for rows, some in zip(chosen, places, strict=True)
            ]
            batches.append(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))
    return tuple(batches)


def _fill_bucket(storage: Storage, places: NDArray[np.intp], bucket: Bucket) -> Batch:
    """Makes a batch of the bucket's size, whose other rows repeat the first demonstration and do not count (`fits`).

    Repeats come last, so that for gradients frames lie one after the other (`to_padded`).
    """
    batch = batch_of(storage, bucket.num_frames, bucket.up_to)
    batch = pick(batch, rows_filled_up(len(batch.lengths), bucket.num_rows))
    rows = np.pad(places, (0, bucket.num_rows - len(places))).astype(np.int32)
    return batch._replace(fits=batch.fits & (np.arange(bucket.num_rows) < len(places)), rows=rows)


def to_padded(scores: Any, batch: Batch, max_length: int) -> Any:
    """Pads scores of frames to a table, B x max_length; padding repeats frames, means nothing and has no gradient.

    Gradients are right only if demonstrations lie end to end; rows that `pick` repeats must come last.
    """
    num_rows = jax.tree.leaves(scores)[0].shape[0]
    first, lengths = jnp.asarray(batch.first), jnp.asarray(batch.lengths)
    index = jnp.minimum(first[:, None] + jnp.arange(max_length), num_rows - 1)
    # Those that do not fit lie nowhere, and end where the one before them does.
    ends = jax.lax.cummax(first + lengths + 1)
    rows = jnp.arange(num_rows)
    owner = jnp.searchsorted(ends, rows, side="right", method="scan_unrolled")
    time = rows - first[jnp.minimum(owner, len(first) - 1)]
    place = jnp.where((owner < len(first)) & (time < max_length), owner * max_length + time, NO_PLACE)

    def spread(values: Shaped[AnyArray, "F ..."]) -> Shaped[Array, "B T ..."]:
        values = jnp.asarray(values)
        return _spread(values, index, place) if jnp.issubdtype(values.dtype, jnp.inexact) else values[index]

    return jax.tree.map(spread, scores)


@jax.custom_vjp
def _spread(
    values: Float[Array, "F ..."], index: Int[Array, "B T"], place: Int[Array, " F"]
) -> Float[Array, "B T ..."]:
    """Looks rows up. The way back is a lookup too, where automatic differentiation would sum over all places."""
    return values[index]


def _spread_back(place: Int[Array, " F"], gradient: Float[Array, "B T ..."]) -> tuple[Array, None, None]:
    rows = gradient.reshape(-1, *gradient.shape[2:])[jnp.maximum(place, 0)]
    is_used = (place != NO_PLACE).reshape(-1, *[1] * (rows.ndim - 1))
    return jnp.where(is_used, rows, 0), None, None


_spread.defvjp(lambda values, index, place: (values[index], place), _spread_back)
