"""Draws the batches of each training step from a world some steps ahead, or picks them out of data.

Which batches an iteration gets depends on its number, the seed and the settings only. There is one for each length
bucket, whose arrays are seeds x shares (one for each device) x ...
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key, PRNGKeyArray

from compile_il.config import Config
from compile_il.data.batch import Batch, batches_by_bucket, frame_budget, make_buckets
from compile_il.inference.engines import ENGINES
from compile_il.training.devices import place
from compile_il.training.sources import Source
from compile_il.worlds.demonstrate import SupervisionKind, draw_batch
from compile_il.worlds.world import World

BATCHES_AHEAD = 32
"""Iterations whose batches are drawn from a world at once on an accelerator, where one takes as long as all of them."""


class WorldBatches:
    """Fresh demonstrations of the source's world, drawn for `ahead` iterations at once; settings are resolved ones."""

    def __init__(self, config: Config, source: Source, batch_size: int, mesh: Mesh, key: PRNGKeyArray):
        self.config, self.source, self.batch_size, self.mesh, self.key = config, source, batch_size, mesh, key
        self.num_frames = frame_budget(source.demos.lengths, batch_size // mesh.size)
        self.ahead = BATCHES_AHEAD if jax.default_backend() != "cpu" else 1
        self._drawn: tuple[int, list[Batch]] | None = None

    def draw(self, iteration: int) -> tuple[Batch]:
        """Returns the batch of one iteration; there is one bucket, as lengths are not known before."""
        block, index = divmod(iteration, self.ahead)
        if self._drawn is None or self._drawn[0] != block:
            keys = _split_keys(self.key, block * self.ahead, self.ahead, self.config.num_seeds, self.batch_size)
            keys = keys.reshape(*keys.shape[:2], self.mesh.size, -1)
            keys = place(self.mesh, keys, split=2) if self.mesh.size > 1 else keys
            assert self.source.world is not None, "the source of these batches"
            size = self.num_frames, self.source.max_length
            self._drawn = block, _draw_batches(self.source.world, keys, *size, self.config.supervision)
        return (self._drawn[1][index],)


class DatasetBatches:
    """Demonstrations of the source, drawn anew from all of them in each iteration; settings are resolved ones."""

    def __init__(self, config: Config, source: Source, batch_size: int, mesh: Mesh):
        self.config, self.demos, self.batch_size, self.mesh = config, source.demos, batch_size, mesh
        self.num_demos = len(source.demos)
        cost = ENGINES[config.inference].cost_of(config)
        self.buckets = make_buckets(self.demos.lengths, batch_size, mesh.size, cost)

    def draw(self, iteration: int) -> tuple[Batch, ...]:
        """Returns the batches of one iteration; every host has the data of all of them and keeps its own shares."""
        chosen = [
            np.random.default_rng([self.config.seed, seed, iteration]).choice(self.num_demos, self.batch_size, False)
            for seed in range(self.config.num_seeds)
        ]
        shares = [rows for each in chosen for rows in np.split(each, self.mesh.size)]
        batches = batches_by_bucket(self.demos, shares, self.buckets)
        leading = self.config.num_seeds, self.mesh.size
        batches = jax.tree.map(lambda leaf: leaf.reshape(*leading, *leaf.shape[1:]), batches)
        return place(self.mesh, batches, split=1) if self.mesh.size > 1 else batches


@functools.partial(jax.jit, static_argnames=("num_iterations", "num_seeds", "batch_size"))
def _split_keys(
    key: PRNGKeyArray, first: Int[Array, ""] | int, num_iterations: int, num_seeds: int, batch_size: int
) -> Key[Array, "iterations seeds B"]:
    """Returns a random key for each demonstration, iterations x seeds x demonstrations."""

    def of_iteration(iteration: Int[Array, ""]) -> Key[Array, "seeds B"]:
        seeds = jax.random.split(jax.random.fold_in(key, iteration), num_seeds)
        return jax.vmap(lambda seed: jax.random.split(seed, batch_size))(seeds)

    return jax.vmap(of_iteration)(first + jnp.arange(num_iterations))


@functools.partial(jax.jit, static_argnames=("world", "num_frames", "max_length", "supervision"))
def _draw_batches(
    world: World,
    keys: Key[Array, "iterations seeds shares B"],
    num_frames: int,
    max_length: int,
    supervision: SupervisionKind,
) -> list[Batch]:
    """Draws the batches of several iterations at once, and returns one for each."""
    draw = functools.partial(draw_batch, world, num_frames=num_frames, max_length=max_length, supervision=supervision)
    batches = jax.vmap(jax.vmap(jax.vmap(draw)))(keys)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], batches) for i in range(len(keys))]
