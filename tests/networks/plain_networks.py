"""Layers as textbooks have them."""

import jax
from jaxtyping import Array, Float

from compile_il.networks.embeddings import Convolution


def convolve(layer: Convolution, image: Float[Array, "H W C"]) -> Float[Array, "H-2 W-2 maps"]:
    """What the layer stands for."""
    kernel = layer.weight.reshape(3, 3, image.shape[2], -1)
    numbers = ("NHWC", "HWIO", "NHWC")
    maps = jax.lax.conv_general_dilated(image[None], kernel, (1, 1), "VALID", dimension_numbers=numbers)
    return maps[0] + layer.bias
