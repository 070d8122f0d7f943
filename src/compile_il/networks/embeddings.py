"""Embeds observations as vectors, by networks of one observation, batched with `vmap`.

Appendix "Encoder architecture" of the paper: two layers of 3x3 filters with ReLU, flattened into a linear layer; or two
hidden layers of an MLP for vectors; in all cases a LayerNorm on top.

Convolutions have no padding and work on images cut into tiles of 2x2 cells. Many seeds are trained at once by `vmap`
over the weights, which makes of `lax.conv` a slow grouped convolution, while a product of matrices stays one. Its rows
could be patches of 3x3 cells, nine copies of the image. With tiles, four cells of the maps are one product of the four
tiles around them and a matrix that holds the weight once for each of the four: at most four copies of the image, for
1.8 times the arithmetic. Maps come in tiles too, for the next convolution.

`ChangeRule` reads the change of an observation in one step: what ends a skill looks the same wherever it happens.
"""

import math
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from compile_il.data.spaces import Scaling, Space

ALIGNED = 8
"""Factor of the length of rows that fast products of 16-bit matrices need."""
NUM_CELLS = 6
"""Most cells of a grid whose changes are read: those that change most."""
NUM_FEATURES = 16
"""Number of features of a cell that changes."""


def to_tiles(image: Shaped[Array, "H W C"]) -> Shaped[Array, "R S tile"]:
    """Cuts an image into tiles of 2x2 cells, each with its upper row first; zeros fill up odd sizes."""
    height, width, num_channels = image.shape
    image = jnp.pad(image, ((0, height % 2), (0, width % 2), (0, 0)))
    cells = image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2, num_channels)
    return jnp.swapaxes(cells, 1, 2).reshape(cells.shape[0], cells.shape[2], -1)


def from_tiles(tiles: Shaped[Array, "R S tile"], height: int, width: int) -> Shaped[Array, "{height} {width} C"]:
    """Puts tiles together to the image that `to_tiles` has cut."""
    rows, columns, _ = tiles.shape
    cells = jnp.swapaxes(tiles.reshape(rows, columns, 2, 2, -1), 1, 2)
    return cells.reshape(2 * rows, 2 * columns, -1)[:height, :width]


class Convolution(eqx.Module):
    """Convolves 3x3 cells, from tiles of an image to tiles of maps, one less in each direction.

    Where an image was filled up to even sizes, so are its maps, with numbers that mean nothing. The bias is a row of
    the matrix: its gradient as a sum over images, apart from the product, took longer than the products themselves.
    """

    weight: Float[Array, "patch maps"]
    """Weights of the cells and channels of 3x3 patches, row by row."""
    bias: Float[Array, " maps"]

    def __init__(self, num_channels: int, num_maps: int, *, key: PRNGKeyArray):
        patch = 9 * num_channels
        limit = 1 / math.sqrt(patch)
        self.weight = jax.random.uniform(key, (patch, num_maps), minval=-limit, maxval=limit)
        self.bias = jnp.zeros((num_maps,))

    def __call__(self, tiles: Float[Array, "R S tile"]) -> Float[Array, "R-1 S-1 tile_of_maps"]:
        """Convolves one image."""
        rows, columns = tiles.shape[0] - 1, tiles.shape[1] - 1
        around = [tiles[i : rows + i, j : columns + j] for i in range(2) for j in range(2)]
        one = jnp.broadcast_to(jnp.eye(1, ALIGNED, dtype=tiles.dtype), (rows, columns, ALIGNED))
        bias = jnp.pad(jnp.tile(self.bias, 4)[None], ((0, ALIGNED - 1), (0, 0)))
        return jnp.concatenate([*around, one], axis=-1) @ jnp.concatenate([self._matrix(), bias])

    def _matrix(self) -> Float[Array, "four_tiles tile_of_maps"]:
        """Returns the matrix from four tiles of an image to one of maps: the weight at its four places in 4x4 cells."""
        kernel = self.weight.reshape(3, 3, -1, self.bias.shape[0])
        places = [((i, 1 - i), (j, 1 - j), (0, 0), (0, 0)) for i in range(2) for j in range(2)]
        cells = jnp.stack([jnp.pad(kernel, place) for place in places], axis=3)
        tiles = cells.reshape(2, 2, 2, 2, -1)  # row of tiles, row in the tile, and so with columns
        return jnp.swapaxes(tiles, 1, 2).reshape(-1, 4 * self.bias.shape[0])


Norm = eqx.nn.LayerNorm | eqx.nn.Identity


def _norm(hidden_dim: int, normed: bool) -> Norm:
    return eqx.nn.LayerNorm(hidden_dim) if normed else eqx.nn.Identity()


class GridEmbedding(eqx.Module):
    """Embeds a grid by two convolutions, a linear layer and LayerNorm; inputs are scaled to at most one."""

    first: Convolution
    second: Convolution
    linear: eqx.nn.Linear
    norm: Norm
    unit: float = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        num_maps: int,
        hidden_dim: int,
        *,
        unit: float = 1.0,
        normed: bool,
        key: PRNGKeyArray,
    ):
        height, width, num_channels = shape
        keys = jax.random.split(key, 3)
        self.first = Convolution(num_channels, num_maps, key=keys[0])
        self.second = Convolution(num_maps, num_maps, key=keys[1])
        self.linear = eqx.nn.Linear((height - 4) * (width - 4) * num_maps, hidden_dim, key=keys[2])
        self.norm = _norm(hidden_dim, normed)
        self.unit = unit

    def __call__(self, observation: Shaped[Array, "H W C"]) -> Float[Array, " hidden"]:
        """Embeds one image."""
        scaled = observation if self.unit == 1 else observation.astype(jnp.float32) / self.unit
        maps = jax.nn.relu(self.first(to_tiles(scaled.astype(self.first.weight.dtype))))
        maps = jax.nn.relu(self.second(maps))
        # A product of tiles is that of the wholes, and there is less of the weight to cut than of maps to put together.
        height, width, _ = observation.shape
        weight = self.linear.weight.reshape(-1, height - 4, width - 4, self.second.bias.shape[0])
        weight = jax.vmap(to_tiles)(weight).reshape(weight.shape[0], -1)
        linear = eqx.tree_at(lambda layer: layer.weight, self.linear, weight)
        return self.norm(linear(maps.reshape(-1)))


class VectorEmbedding(eqx.Module):
    """Embeds a vector by two hidden layers, a linear layer and LayerNorm; inputs get zero mean and unit spread."""

    layers: eqx.nn.MLP
    norm: Norm
    mean: Float[Array, " D"]
    spread: Float[Array, " D"]

    def __init__(
        self, mean: Float[Array, " D"], spread: Float[Array, " D"], hidden_dim: int, *, normed: bool, key: PRNGKeyArray
    ):
        self.layers = eqx.nn.MLP(mean.shape[0], hidden_dim, hidden_dim, depth=2, key=key)
        self.norm = _norm(hidden_dim, normed)
        self.mean, self.spread = mean, spread

    def __call__(self, observation: Float[Array, " D"]) -> Float[Array, " hidden"]:
        """Embeds one vector."""
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        *hidden, last = self.layers.layers
        x = (observation - mean) / spread
        for layer in hidden:
            x = jax.nn.relu(layer(x)).astype(last.weight.dtype)
        return self.norm(last(x))

    def to_bfloat16(self) -> "VectorEmbedding":
        """Returns a copy in bfloat16 but for the first layer: a vector rounded to three digits would be another one."""

        def later(embedding: VectorEmbedding) -> tuple[Any, ...]:
            return *embedding.layers.layers[1:], embedding.norm

        return eqx.tree_at(later, self, to_bfloat16(later(self)))


class SymbolEmbedding(eqx.Module):
    """Embeds a symbol by a learned vector for each, and LayerNorm."""

    table: eqx.nn.Embedding
    norm: Norm

    def __init__(self, num_symbols: int, hidden_dim: int, *, normed: bool, key: PRNGKeyArray):
        self.table = eqx.nn.Embedding(num_symbols, hidden_dim, key=key)
        self.norm = _norm(hidden_dim, normed)

    def __call__(self, observation: Int[Array, ""]) -> Float[Array, " hidden"]:
        """Embeds one symbol."""
        return self.norm(self.table(observation))


class ZeroEmbedding(eqx.Module):
    """Embeds observations of width zero as zeros, where demonstrations have no states.

    A learned constant would be one more bias of the layer that reads it for each of its entries: all of them move at
    once, and that layer learns less from what does vary.
    """

    hidden_dim: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True, default="float32")

    def __call__(self, observation: Float[Array, " 0"]) -> Float[Array, " hidden"]:
        """Returns zeros."""
        del observation
        return jnp.zeros((self.hidden_dim,), self.dtype)

    def to_bfloat16(self) -> "ZeroEmbedding":
        """Returns a copy that gives zeros in bfloat16."""
        return ZeroEmbedding(self.hidden_dim, "bfloat16")


Embedding = GridEmbedding | VectorEmbedding | SymbolEmbedding | ZeroEmbedding


def make_embedding(
    space: Space, scaling: Scaling, *, num_maps: int, hidden_dim: int, normed: bool = True, key: PRNGKeyArray
) -> Embedding:
    """Makes the embedding for a kind of observation; not `normed` where a later LayerNorm follows."""
    if space.observation_kind == "grid":
        sizes = space.observation_shape, num_maps, hidden_dim
        return GridEmbedding(*sizes, unit=space.grid_unit, normed=normed, key=key)
    if space.observation_kind == "vector" and space.observation_shape == (0,):
        return ZeroEmbedding(hidden_dim)
    if space.observation_kind == "vector":
        return VectorEmbedding(scaling.observation_mean, scaling.observation_spread, hidden_dim, normed=normed, key=key)
    return SymbolEmbedding(space.num_symbols, hidden_dim, normed=normed, key=key)


class GridChange(eqx.Module):
    """Embeds the change of a grid by features of the 3x3 cells around those that change most: largest and summed."""

    cell: eqx.nn.MLP
    unit: float = eqx.field(static=True)

    def __init__(self, space: Space, *, key: PRNGKeyArray):
        patch = 3 * 3 * 2 * space.observation_shape[-1]
        self.cell = eqx.nn.MLP(patch, NUM_FEATURES, 2 * NUM_FEATURES, depth=1, final_activation=jax.nn.relu, key=key)
        self.unit = space.grid_unit

    def __call__(self, before: Shaped[Array, "H W C"], after: Shaped[Array, "H W C"]) -> Float[Array, " width"]:
        """Embeds the change from one grid to the next."""
        start = before.astype(jnp.float32) / self.unit
        change = after.astype(jnp.float32) / self.unit - start
        sizes, cells = jax.lax.top_k(jnp.sum(jnp.abs(change), axis=-1).reshape(-1), min(NUM_CELLS, start[..., 0].size))
        both = jnp.pad(jnp.concatenate([change, start], axis=-1), ((1, 1), (1, 1), (0, 0)))

        def features(cell: Array) -> Array:
            row, column = jnp.divmod(cell, start.shape[1])
            patch = jax.lax.dynamic_slice(both, (row, column, 0), (3, 3, both.shape[-1]))
            return self.cell(patch.reshape(-1))

        read = jnp.where(sizes[:, None] > 0, jax.vmap(features)(cells), 0.0)
        return jnp.concatenate([read.max(axis=0), read.sum(axis=0)])


class VectorChange(eqx.Module):
    """Scales the change of a vector by the usual size of changes in the data, and adds its magnitude."""

    spread: Float[Array, " D"]
    """Root mean square of the changes of each entry."""

    def __init__(self, scaling: Scaling):
        spread = jnp.sqrt(jnp.mean(scaling.changes**2, axis=0))
        self.spread = jnp.where(spread > 0, spread, 1.0)

    def __call__(self, before: Shaped[Array, " D"], after: Shaped[Array, " D"]) -> Float[Array, " width"]:
        """Embeds the change from one vector to the next."""
        change = (after - before).astype(jnp.float32) / jax.lax.stop_gradient(self.spread)
        magnitude = jnp.sqrt(jnp.mean(change**2) + 1e-12)  # without the summand, no change has no gradient
        return jnp.append(change, magnitude)


class ChangeRule(eqx.Module):
    """Scores a step as the end of a skill, whichever it is, from its action and the change of the observation."""

    change: GridChange | VectorChange
    layers: eqx.nn.MLP

    def __init__(self, space: Space, scaling: Scaling, action_width: int, hidden_dim: int, *, key: PRNGKeyArray):
        change_key, layers_key = jax.random.split(key)
        is_grid = space.observation_kind == "grid"
        self.change = GridChange(space, key=change_key) if is_grid else VectorChange(scaling)
        width = 2 * NUM_FEATURES if is_grid else space.observation_shape[0] + 1
        self.layers = eqx.nn.MLP(width + action_width, "scalar", hidden_dim, depth=1, key=layers_key)

    def __call__(
        self, before: Shaped[Array, "..."], action: Float[Array, " width"], after: Shaped[Array, "..."]
    ) -> Float[Array, ""]:
        """Computes the logit of a step, whose action is given as networks read it."""
        logit: Array = self.layers(jnp.concatenate([self.change(before, after), action]))
        return logit


Networks = TypeVar("Networks")


def to_bfloat16(networks: Networks) -> Networks:
    """Returns a copy of networks that computes in bfloat16, but for what a part's own `to_bfloat16` keeps."""

    def convert(leaf: Any) -> Any:
        if hasattr(leaf, "to_bfloat16"):
            return leaf.to_bfloat16()
        return leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(convert, networks, is_leaf=lambda leaf: hasattr(leaf, "to_bfloat16"))
