"""Minibatches of a world: demonstrations that are made on the device when they are needed."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, Shaped

from compile_il.batches import Batch
from compile_il.demos import UNKNOWN
from compile_il.demos.labels import NO_SEGMENT
from compile_il.worlds import World
from compile_il.worlds.world import Episode

Supervision = Literal["none", "b", "z", "bz"]
"""What a learner is told: nothing, boundaries, codes, or both."""


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
    boundaries, segment_codes = _told_by_world(episodes, max_length, supervision)
    return Batch(
        frames=jax.vmap(observe)(owner, time),
        actions=episodes.actions[owner, jnp.minimum(time, num_steps - 1)],
        first=first,
        lengths=episodes.length,
        fits=(ends <= num_frames) & (episodes.length <= max_length),
        boundary_labels=boundaries,
        code_labels=unknown,
        segment_codes=segment_codes,
    )


def _told_by_world(
    episodes: Episode, max_length: int, supervision: Supervision
) -> tuple[Int[Array, "B T"], Int[Array, "B listed"]]:
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
