"""Where each training step finds its batches: drawn from a world some steps ahead, or picked out of data.

Which batch an iteration gets depends on its number, the seed and the settings only.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key, PRNGKeyArray
from numpy.typing import NDArray

from compile_il.config import Config
from compile_il.data import Demonstrations
from compile_il.data.batch import (
    AnyArray,
    Batch,
    Bucket,
    batch_of,
    frame_budget,
    make_buckets,
    pick,
    rows_filled_up,
)
from compile_il.inference.engines import engine_of
from compile_il.training.devices import shared_out
from compile_il.training.sources import Source
from compile_il.worlds import World
from compile_il.worlds.demonstrate import SupervisionKind, draw_batch


class Group(NamedTuple):
    """The demonstrations of a batch that share a room."""

    batch: Batch
    places: Int[AnyArray, " rows"] | None
    """Their indices in the batch, which say what noise is drawn for them; None where the group is the whole batch."""


def groups_of(
    demos: Demonstrations, chosen: Sequence[NDArray[np.integer]], rooms: Sequence[Bucket]
) -> Iterator[list[Group]]:
    """Yields, for each room that is needed, one group out of each of several batches.

    Args:
      demos: all demonstrations.
      chosen: indices of the demonstrations of each batch.
      rooms: the buckets; demonstrations of one bucket keep their order, those beyond its rows are left out.
    """
    if len(rooms) == 1:
        yield [Group(batch_of(demos[rows], rooms[0].num_frames, rooms[0].up_to), None) for rows in chosen]
        return
    shortest = int(demos.lengths.argmin())
    for room in rooms:
        places = [room.places(demos.lengths[rows])[: room.num_rows] for rows in chosen]
        if any(map(len, places)):
            yield [_group(demos, rows, some, room, shortest) for rows, some in zip(chosen, places, strict=True)]


def _group(
    demos: Demonstrations, rows: NDArray[np.integer], places: NDArray[np.intp], room: Bucket, shortest: int
) -> Group:
    """Returns the group of a batch that belongs in a room, whose other rows repeat the first demonstration.

    Repeats come last and do not count (`fits`), so that for gradients frames lie one after the other (`to_padded`).
    """
    there = demos[rows[places] if len(places) else [shortest]]
    batch = pick(batch_of(there, room.num_frames, room.up_to), rows_filled_up(len(there), room.num_rows))
    is_asked_for = np.arange(room.num_rows) < len(places)
    padded = np.pad(places, (0, room.num_rows - len(places))).astype(np.int32)
    return Group(batch._replace(fits=batch.fits & is_asked_for), padded)


def stacked(groups: Sequence[Group]) -> Group:
    """Stacks groups of one room along a new first axis."""
    result: Group = jax.tree.map(lambda *leaves: np.stack(leaves), *groups)
    return result


BATCHES_AHEAD = 32
"""Iterations whose batches are drawn from a world at once on an accelerator, where one takes as long as all of them."""


Block = tuple[Group, ...]
"""Batches of some iterations, one group per room; arrays are iterations x seeds x shares (one per device) x ..."""


class InBlock(NamedTuple):
    """The batches of one iteration: a block, and their place along its first axis."""

    block: Block
    place: int


class Sizes(NamedTuple):
    """How many batches an iteration takes, how large they are, and which devices share each of them."""

    num_seeds: int
    batch_size: int
    mesh: Mesh

    @property
    def num_shares(self) -> int:
        """Number of devices that share each batch."""
        return self.mesh.size

    @property
    def share_size(self) -> int:
        """Number of demonstrations of a batch on each device."""
        return self.batch_size // self.num_shares


@runtime_checkable
class Feed(Protocol):
    """Something that has batches for every iteration."""

    def batches(self, iteration: int) -> InBlock:
        """Returns the batches of all seeds for one iteration."""


def make_feed(config: Config, source: Source, sizes: Sizes, key: PRNGKeyArray) -> Feed:
    """Returns the feed of a training.

    Args:
      config: settled for the source.
      source: a world or data.
      sizes: of batches.
      key: says which demonstrations of a world are drawn.
    """
    if source.world is not None:
        num_frames = frame_budget(source.demos.lengths, sizes.share_size)
        return WorldFeed(source.world, num_frames, source.max_length, config.supervision, sizes, key)
    rooms = make_buckets(source.demos.lengths, sizes.batch_size, sizes.num_shares, engine_of(config).cost_of(config))
    return DataFeed(source.demos, rooms, sizes, config.seed)


class WorldFeed:
    """Fresh demonstrations of a world, drawn for a block of iterations at once.

    Args:
      world: the world.
      num_frames: room for frames in each device's share of a batch.
      max_length: steps of the longest demonstrations that are kept.
      supervision: what labels they come with.
      sizes: of batches.
      key: says which demonstrations are drawn.
      ahead: number of iterations in a block; by default what suits the device.
    """

    def __init__(
        self,
        world: World,
        num_frames: int,
        max_length: int,
        supervision: SupervisionKind,
        sizes: Sizes,
        key: PRNGKeyArray,
        *,
        ahead: int | None = None,
    ):
        self.world, self.num_frames, self.max_length, self.supervision = world, num_frames, max_length, supervision
        self.sizes, self.key = sizes, key
        self.ahead = ahead or (BATCHES_AHEAD if jax.default_backend() != "cpu" else 1)
        self._drawn: tuple[int, Block] | None = None

    def batches(self, iteration: int) -> InBlock:
        """Returns the batches of one iteration, and draws their block where it is not at hand."""
        number, place = divmod(iteration, self.ahead)
        if self._drawn is None or self._drawn[0] != number:
            self._drawn = number, self._draw(number * self.ahead)
        return InBlock(self._drawn[1], place)

    def _draw(self, first: int) -> Block:
        """Draws the block that begins with an iteration, with a key of its own for each demonstration."""
        sizes = self.sizes
        keys = _keys_of_block(self.key, first, self.ahead, sizes.num_seeds, sizes.batch_size)
        keys = keys.reshape(*keys.shape[:2], sizes.num_shares, sizes.share_size)
        if sizes.num_shares > 1:
            keys = shared_out(sizes.mesh, keys, axis=2)
        return (Group(_draw_batches(self.world, keys, self.num_frames, self.max_length, self.supervision), None),)


class DataFeed:
    """Batches of demonstrations at hand, each iteration's drawn anew from all of them.

    Args:
      demos: all demonstrations.
      rooms: where those of usual lengths and long ones go.
      sizes: of batches.
      seed: says which demonstrations are drawn.
    """

    def __init__(self, demos: Demonstrations, rooms: list[Bucket], sizes: Sizes, seed: int):
        self.demos, self.rooms, self.sizes, self.seed = demos, rooms, sizes, seed

    def batches(self, iteration: int) -> InBlock:
        """Returns the batches of one iteration; every host knows all of them and keeps its own shares."""
        sizes = self.sizes
        chosen = [
            np.random.default_rng([self.seed, seed, iteration]).choice(len(self.demos), sizes.batch_size, False)
            for seed in range(sizes.num_seeds)
        ]
        by_share = [rows for each in chosen for rows in np.split(each, sizes.num_shares)]
        groups = tuple(stacked(each) for each in groups_of(self.demos, by_share, self.rooms))
        shape = (1, sizes.num_seeds, sizes.num_shares)
        block: Block = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), groups)
        return InBlock(shared_out(sizes.mesh, block, axis=2) if sizes.num_shares > 1 else block, 0)


@functools.partial(jax.jit, static_argnames=("num_blocks", "num_seeds", "batch_size"))
def _keys_of_block(
    key: PRNGKeyArray, first: Int[Array, ""] | int, num_blocks: int, num_seeds: int, batch_size: int
) -> Key[Array, "iterations seeds B"]:
    """Returns a random key for each demonstration, iterations x seeds x demonstrations."""

    def of_iteration(iteration: Int[Array, ""]) -> Key[Array, "seeds B"]:
        seeds = jax.random.split(jax.random.fold_in(key, iteration), num_seeds)
        return jax.vmap(lambda seed: jax.random.split(seed, batch_size))(seeds)

    return jax.vmap(of_iteration)(first + jnp.arange(num_blocks))


@functools.partial(jax.jit, static_argnames=("world", "num_frames", "max_length", "supervision"))
def _draw_batches(
    world: World,
    keys: Key[Array, "iterations seeds shares B"],
    num_frames: int,
    max_length: int,
    supervision: SupervisionKind,
) -> Batch:
    def draw(keys: Key[Array, " B"]) -> Batch:
        return draw_batch(world, keys, num_frames, max_length, supervision)

    return jax.vmap(jax.vmap(jax.vmap(draw)))(keys)
