"""Convolutions on tiles against XLA's own."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from compile_il.networks.embeddings import Convolution, from_tiles, to_tiles
from tests.networks.plain_networks import convolve


def on_tiles(layer: Convolution, image: Float[Array, "H W C"]) -> Float[Array, "H-2 W-2 maps"]:
    return from_tiles(layer(to_tiles(image)), image.shape[0] - 2, image.shape[1] - 2)


@pytest.mark.parametrize("shape", [(6, 8, 3), (6, 7, 3), (3, 3, 3)])
def test_a_convolution_on_tiles_is_a_convolution(shape: tuple[int, int, int]) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    layer = eqx.tree_at(lambda layer: layer.bias, Convolution(3, 5, key=keys[0]), jnp.arange(5.0))
    image = jax.random.normal(keys[1], shape)
    np.testing.assert_allclose(on_tiles(layer, image), convolve(layer, image), rtol=1e-5, atol=1e-5)
    weights = jax.random.normal(keys[2], (shape[0] - 2, shape[1] - 2, 5))

    def gradients(maps_of: Callable[..., Array]) -> Any:
        return jax.grad(lambda args: jnp.sum(weights * maps_of(*args)))((layer, image))

    for found, expected in zip(*map(jax.tree.leaves, map(gradients, (on_tiles, convolve))), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(4, 6), (4, 5), (5, 4), (3, 1)])
def test_tiles_make_the_image_again(height: int, width: int) -> None:
    image = np.arange(height * width * 2).reshape(height, width, 2)
    assert (from_tiles(to_tiles(jnp.asarray(image)), height, width) == image).all()


def test_a_tile_is_read_row_by_row() -> None:
    assert to_tiles(jnp.arange(16).reshape(4, 4, 1))[0, 1].tolist() == [2, 3, 6, 7]


def test_tiled_weights_read_what_weights_do() -> None:
    image, weight = (jax.random.normal(key, (5, 4, 2)) for key in jax.random.split(jax.random.key(0)))
    np.testing.assert_allclose(jnp.sum(to_tiles(image) * to_tiles(weight)), jnp.sum(image * weight), rtol=1e-5)
