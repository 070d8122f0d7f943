"""3x3 convolutions without padding, on images cut into tiles of 2x2 cells.

Many seeds are trained at once by `vmap` over the weights. XLA makes a slow grouped convolution of `lax.conv` then; a
product of matrices stays one. Patches of 3x3 cells, the obvious rows of that product, are nine copies of the image.
With an image of tiles, four cells of the maps are one product of the four tiles around them, 4x4 cells, and a matrix
that holds the weight once for each of the four cells: at most four copies of the image, for 1.8 times the arithmetic.
Maps come in tiles too, so the next convolution goes on from there.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

ALIGNED = 8
"""Fast products of matrices of 16-bit numbers want rows whose length is a multiple of this."""


def tiled(image: Shaped[Array, "H W C"]) -> Shaped[Array, "R S tile"]:
    """Cuts an image into tiles of 2x2 cells, each with its upper row first; zeros fill up odd sizes.

    Where both image and weights are tiled, the product of the two is the same.
    """
    height, width, num_channels = image.shape
    image = jnp.pad(image, ((0, height % 2), (0, width % 2), (0, 0)))
    cells = image.reshape(image.shape[0] // 2, 2, image.shape[1] // 2, 2, num_channels)
    return jnp.swapaxes(cells, 1, 2).reshape(cells.shape[0], cells.shape[2], -1)


def untiled(tiles: Shaped[Array, "R S tile"], height: int, width: int) -> Shaped[Array, "{height} {width} C"]:
    """The image that was cut into tiles."""
    rows, columns, _ = tiles.shape
    cells = jnp.swapaxes(tiles.reshape(rows, columns, 2, 2, -1), 1, 2)
    return cells.reshape(2 * rows, 2 * columns, -1)[:height, :width]


class Convolution(eqx.Module):
    """A 3x3 convolution from tiles of an image to tiles of maps, one less in each direction.

    Where an image was filled up to even sizes, so are its maps, with numbers that mean nothing.

    The bias is a row of the matrix: its gradient as a sum over images, apart from the product, took longer than the
    products themselves.
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
        """Returns the maps of one image in tiles."""
        rows, columns = tiles.shape[0] - 1, tiles.shape[1] - 1
        around = [tiles[i : rows + i, j : columns + j] for i in range(2) for j in range(2)]
        one = jnp.broadcast_to(jnp.eye(1, ALIGNED, dtype=tiles.dtype), (rows, columns, ALIGNED))
        bias = jnp.pad(jnp.tile(self.bias, 4)[None], ((0, ALIGNED - 1), (0, 0)))
        return jnp.concatenate([*around, one], axis=-1) @ jnp.concatenate([self._four_fold(), bias])

    def _four_fold(self) -> Float[Array, "four_tiles tile_of_maps"]:
        """The matrix from four tiles of an image to one of maps: the weight at each of its four places in 4x4 cells."""
        kernel = self.weight.reshape(3, 3, -1, self.bias.shape[0])
        places = [((i, 1 - i), (j, 1 - j), (0, 0), (0, 0)) for i in range(2) for j in range(2)]
        cells = jnp.stack([jnp.pad(kernel, place) for place in places], axis=3)
        tiles = cells.reshape(2, 2, 2, 2, -1)  # row of tiles, row in the tile, and so with columns
        return jnp.swapaxes(tiles, 1, 2).reshape(-1, 4 * self.bias.shape[0])
