"""Minibatches with their frames end to end, so that networks run on frames that exist and on nothing else."""

import functools
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from compile_il.demos import UNKNOWN, Demonstrations
from compile_il.demos.labels import NO_SEGMENT
from compile_il.worlds import World
from compile_il.worlds.world import Episode

Supervision = Literal["none", "b", "z", "bz"]
"""What a learner is told: nothing, boundaries, codes, or both."""

ROUND_STEPS, ROUND_FRAMES = 16, 1024
"""Shapes are rounded up to multiples of these where only few programs are to be compiled."""
NOWHERE = -1
"""Place of a frame that no demonstration has."""
AnyArray = jax.Array | np.ndarray
"""Batches of a world are made on the device, batches of data on the host."""


class Batch(NamedTuple):
    """B demonstrations: F frames end to end, a fixed number, and where each demonstration's frames are among them."""

    frames: Shaped[AnyArray, "F ..."]
    actions: Shaped[AnyArray, "F ..."]
    """The action taken at each frame; at a demonstration's last frame, none."""
    first: Int[AnyArray, " B"]
    """The row of each demonstration's first frame."""
    lengths: Int[AnyArray, " B"]
    fits: Bool[AnyArray, " B"]
    """Whether all frames of a demonstration found room; those that did not are left out of this batch."""
    boundary_labels: Int[AnyArray, "B T"]
    code_labels: Int[AnyArray, "B T"]
    segment_labels: Int[AnyArray, "B sketch"]
    """The code of each segment in order, or `UNKNOWN`, then `NO_SEGMENT`; of width zero if no such labels."""


def frame_budget(lengths: np.ndarray, batch_size: int) -> int:
    """Rows that hold a random batch all but always: the mean plus five standard deviations.

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


@functools.partial(jax.jit, static_argnames=("world", "num_frames", "max_length", "supervision"))
def draw_batch(
    world: World, keys: Key[Array, " B"], num_frames: int, max_length: int, supervision: Supervision = "none"
) -> Batch:
    """Fresh demonstrations of a world, one for each key, made on the device.

    Those that are longer than `max_length` are left out.

    With supervision, they come with labels: where segments start ("b"), the codes of the segments in order ("z"), or
    both. Nothing is told of demonstrations that were cut before their task list was done.
    """
    batch_size = keys.shape[0]
    episodes = jax.vmap(world.episode)(keys)
    ends = jnp.cumsum(episodes.length + 1)
    first = ends - episodes.length - 1
    rows = jnp.arange(num_frames)
    owner = jnp.minimum(jnp.searchsorted(ends, rows, side="right"), batch_size - 1)
    num_steps = episodes.actions.shape[1]
    time = jnp.minimum(rows - first[owner], num_steps)

    def observe(index: Int[Array, ""], t: Int[Array, ""]) -> Shaped[Array, "..."]:
        level = jax.tree.map(lambda leaf: leaf[index], episodes.level)
        return world.observe(level, jax.tree.map(lambda leaf: leaf[index, t], episodes.states))

    unknown = jnp.full((batch_size, max_length), UNKNOWN, jnp.int32)
    boundaries, sketches = _told_by_world(episodes, max_length, supervision)
    return Batch(
        frames=jax.vmap(observe)(owner, time),
        actions=episodes.actions[owner, jnp.minimum(time, num_steps - 1)],
        first=first,
        lengths=episodes.length,
        fits=(ends <= num_frames) & (episodes.length <= max_length),
        boundary_labels=boundaries,
        code_labels=unknown,
        segment_labels=sketches,
    )


def _told_by_world(
    episodes: Episode, max_length: int, supervision: Supervision
) -> tuple[Int[Array, "B T"], Int[Array, "B sketch"]]:
    index = episodes.segment_index[:, :max_length]
    index = jnp.pad(index, ((0, 0), (0, max_length - index.shape[1])), mode="edge")
    told = jnp.arange(max_length) < episodes.length[:, None]
    told &= episodes.success[:, None] & ("b" in supervision)
    starts = jnp.pad(index[:, 1:] != index[:, :-1], ((0, 0), (1, 0)))
    boundaries = jnp.where(told, starts, UNKNOWN).astype(jnp.int32)
    if "z" not in supervision:
        return boundaries, boundaries[:, :0]
    tasks = jnp.pad(episodes.level.tasks, ((0, 0), (0, 1)), constant_values=NO_SEGMENT)
    return boundaries, jnp.where(episodes.success[:, None], tasks, UNKNOWN).astype(jnp.int32)


def batch_of(demos: Demonstrations, num_frames: int, max_length: int) -> Batch:
    """Demonstrations that are at hand, as NumPy arrays of fixed shapes."""
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
        segment_labels=_padded_sketches(demos, max_length),
    )


def _padded_labels(demos: Demonstrations, name: str, max_length: int) -> np.ndarray:
    out = np.full((len(demos), max_length), UNKNOWN, np.int32)
    if demos.labels is not None:
        for row, known in zip(out, getattr(demos.labels, name), strict=True):
            row[: len(known)] = known
    return out


def _padded_sketches(demos: Demonstrations, max_length: int) -> np.ndarray:
    """Each sketch followed by `NO_SEGMENT`; where there is none, all is unknown.

    The width is that of the longest sketch there can be, so that batches of one data set have one shape.
    """
    if demos.labels is None or demos.labels.segment_codes is None:
        return np.zeros((len(demos), 0), np.int32)
    out = np.full((len(demos), max_length + 1), UNKNOWN, np.int32)
    for row, known in zip(out, demos.labels.segment_codes, strict=True):
        if len(known):
            row[: len(known)], row[len(known) :] = known, NO_SEGMENT
    return out


def pick(batch: Batch, rows: np.ndarray) -> Batch:
    """Some demonstrations of a batch, any of them more than once; the frames stay where they are."""
    return batch._replace(
        first=batch.first[rows],
        lengths=batch.lengths[rows],
        fits=batch.fits[rows],
        boundary_labels=batch.boundary_labels[rows],
        code_labels=batch.code_labels[rows],
        segment_labels=batch.segment_labels[rows],
    )


def rows_filled_up(num_demos: int, num_rows: int) -> np.ndarray:
    """All demonstrations, and then the first one again and again, up to a number of rows that stays the same."""
    return np.pad(np.arange(num_demos), (0, num_rows - num_demos))


def rounded_batch(demos: Demonstrations, rows: np.ndarray, max_length: int) -> Batch:
    """Rows of demonstrations in one of few shapes: room for frames and for `max_length` steps is rounded up."""
    num_frames, num_steps = _round_up(demos.num_frames, ROUND_FRAMES), _round_up(max_length, ROUND_STEPS)
    return pick(batch_of(demos, num_frames, num_steps), rows)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def acts(batch: Batch) -> Bool[Array, " F"]:
    """Whether an action is taken at each frame; none is where a demonstration ends."""
    ends = jnp.where(batch.fits, batch.first + batch.lengths, UNKNOWN)
    return ~jnp.any(jnp.arange(batch.frames.shape[0])[:, None] == ends, axis=1)


def unpack(scores: Any, batch: Batch, max_length: int) -> Any:
    """Per-frame scores as a padded table, B x max_length; padding repeats frames, means nothing and has no gradient.

    Gradients are right only if demonstrations lie end to end; rows that `pick` repeats must come last.
    """
    num_rows = jax.tree.leaves(scores)[0].shape[0]
    first, lengths = jnp.asarray(batch.first), jnp.asarray(batch.lengths)
    index = jnp.minimum(first[:, None] + jnp.arange(max_length), num_rows - 1)
    # Those that found no room lie nowhere, and end where the one before them does.
    ends = jax.lax.cummax(first + lengths + 1)
    rows = jnp.arange(num_rows)
    owner = jnp.searchsorted(ends, rows, side="right", method="scan_unrolled")
    time = rows - first[jnp.minimum(owner, len(first) - 1)]
    place = jnp.where((owner < len(first)) & (time < max_length), owner * max_length + time, NOWHERE)

    def spread(values: Shaped[AnyArray, "F ..."]) -> Shaped[Array, "B T ..."]:
        values = jnp.asarray(values)
        return _spread(values, index, place) if jnp.issubdtype(values.dtype, jnp.inexact) else values[index]

    return jax.tree.map(spread, scores)


@jax.custom_vjp
def _spread(
    values: Float[Array, "F ..."], index: Int[Array, "B T"], place: Int[Array, " F"]
) -> Float[Array, "B T ..."]:
    """The rows at `index`. The way back is a lookup too, where automatic differentiation would sum over all places."""
    return values[index]


def _spread_and_save(
    values: Float[Array, "F ..."], index: Int[Array, "B T"], place: Int[Array, " F"]
) -> tuple[Float[Array, "B T ..."], Int[Array, " F"]]:
    return values[index], place


def _spread_back(place: Int[Array, " F"], gradient: Float[Array, "B T ..."]) -> tuple[Array, None, None]:
    rows = gradient.reshape(-1, *gradient.shape[2:])[jnp.maximum(place, 0)]
    known = (place != NOWHERE).reshape(-1, *[1] * (rows.ndim - 1))
    return jnp.where(known, rows, 0), None, None


_spread.defvjp(_spread_and_save, _spread_back)
