"""Networks that embed what an agent sees; functions of one observation, batched with `vmap`.

Appendix "Encoder architecture" of the paper: two layers of 3x3 filters with ReLU, flattened into a linear layer; or two
hidden layers of an MLP for vectors; in all cases a LayerNorm on top.
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from compile_il.convolutions import Convolution, tiled
from compile_il.demos.checks import ObservationKind

Networks = TypeVar("Networks")
Norm = eqx.nn.LayerNorm | eqx.nn.Identity


class GridEmbedding(eqx.Module):
    """Embeds a grid: two convolutions, a linear layer, LayerNorm; inputs are scaled to at most one."""

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
        self.norm = eqx.nn.LayerNorm(hidden_dim) if normed else eqx.nn.Identity()
        self.unit = unit

    def __call__(self, observation: Shaped[Array, "H W C"]) -> Float[Array, " hidden"]:
        """Embeds one image."""
        scaled = observation if self.unit == 1 else observation.astype(jnp.float32) / self.unit
        maps = jax.nn.relu(self.first(tiled(scaled.astype(self.first.weight.dtype))))
        maps = jax.nn.relu(self.second(maps))
        # The weight is cut into tiles too: there is less of it than of the maps, which would else have to be put back.
        height, width, _ = observation.shape
        weight = self.linear.weight.reshape(-1, height - 4, width - 4, self.second.bias.shape[0])
        linear = eqx.tree_at(
            lambda layer: layer.weight, self.linear, jax.vmap(tiled)(weight).reshape(weight.shape[0], -1)
        )
        return self.norm(linear(maps.reshape(-1)))


class VectorEmbedding(eqx.Module):
    """Embeds a vector: two hidden layers, a linear layer, LayerNorm; inputs brought to zero mean and unit spread."""

    layers: eqx.nn.MLP
    norm: Norm
    mean: Float[Array, " D"]
    spread: Float[Array, " D"]

    def __init__(
        self, mean: Float[Array, " D"], spread: Float[Array, " D"], hidden_dim: int, *, normed: bool, key: PRNGKeyArray
    ):
        self.layers = eqx.nn.MLP(mean.shape[0], hidden_dim, hidden_dim, depth=2, key=key)
        self.norm = eqx.nn.LayerNorm(hidden_dim) if normed else eqx.nn.Identity()
        self.mean, self.spread = mean, spread

    def __call__(self, observation: Float[Array, " D"]) -> Float[Array, " hidden"]:
        """Embeds one vector."""
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        *hidden, last = self.layers.layers
        x = (observation - mean) / spread
        for layer in hidden:
            x = jax.nn.relu(layer(x)).astype(last.weight.dtype)
        return self.norm(last(x))

    def in_half(self) -> "VectorEmbedding":
        """A copy in bfloat16 but for the first layer: a vector rounded to three digits would be another one."""

        def later(embedding: VectorEmbedding) -> tuple[Any, ...]:
            return *embedding.layers.layers[1:], embedding.norm

        return eqx.tree_at(later, self, halved(later(self)))


class SymbolEmbedding(eqx.Module):
    """Embeds a symbol: a learned vector for each, LayerNorm."""

    table: eqx.nn.Embedding
    norm: Norm

    def __init__(self, num_symbols: int, hidden_dim: int, *, normed: bool, key: PRNGKeyArray):
        self.table = eqx.nn.Embedding(num_symbols, hidden_dim, key=key)
        self.norm = eqx.nn.LayerNorm(hidden_dim) if normed else eqx.nn.Identity()

    def __call__(self, observation: Int[Array, ""]) -> Float[Array, " hidden"]:
        """Embeds one symbol."""
        return self.norm(self.table(observation))


class BlankEmbedding(eqx.Module):
    """Embeds vectors of width zero as zeros, where demonstrations have no states.

    A constant that is learned would do too, but each of its entries is one more bias of the layer that reads it: all of
    them move at once, and that layer learns less about what does vary.
    """

    hidden_dim: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True, default="float32")

    def __call__(self, observation: Float[Array, " 0"]) -> Float[Array, " hidden"]:
        """Embeds nothing."""
        del observation
        return jnp.zeros((self.hidden_dim,), self.dtype)

    def in_half(self) -> "BlankEmbedding":
        """A copy that gives zeros in bfloat16."""
        return BlankEmbedding(self.hidden_dim, "bfloat16")


Embedding = GridEmbedding | VectorEmbedding | SymbolEmbedding | BlankEmbedding


class Space(eqx.Module):
    """What observations and actions look like; enough to build networks for them."""

    observation_kind: ObservationKind
    observation_shape: tuple[int, ...]
    num_symbols: int
    """Number of symbols, one more than the largest in the data, where observations are symbols; else 0."""
    num_actions: int
    """Number of discrete actions, or 0 where actions are continuous."""
    action_dim: int
    """Width of continuous actions, or 0 where actions are discrete."""
    grid_unit: float = 1.0
    """The largest entry of grids in the data, which all are divided by; 255 in most images."""


class Scaling(eqx.Module):
    """Mean and spread of vectors and continuous actions in the data; empty where there are none."""

    observation_mean: Float[Array, " D"]
    observation_spread: Float[Array, " D"]
    action_mean: Float[Array, " A"]
    action_spread: Float[Array, " A"]
    changes: Float[Array, "N measured"]
    """Changes of vectors, or of the sums of a grid's channels, in some of the steps."""
    largest: Float[Array, " C"]
    """The largest magnitude of an entry in each channel of grids."""


def make_embedding(
    space: Space, scaling: Scaling, *, num_maps: int, hidden_dim: int, normed: bool = True, key: PRNGKeyArray
) -> Embedding:
    """Makes the embedding for a kind of observation; not `normed` where something else is to be normed with it."""
    if space.observation_kind == "grid":
        sizes = space.observation_shape, num_maps, hidden_dim
        return GridEmbedding(*sizes, unit=space.grid_unit, normed=normed, key=key)
    if space.observation_kind == "vector" and space.observation_shape == (0,):
        return BlankEmbedding(hidden_dim)
    if space.observation_kind == "vector":
        return VectorEmbedding(scaling.observation_mean, scaling.observation_spread, hidden_dim, normed=normed, key=key)
    return SymbolEmbedding(space.num_symbols, hidden_dim, normed=normed, key=key)


def halved(networks: Networks) -> Networks:
    """A copy of networks that computes in bfloat16, but for what a part's `in_half` keeps."""

    def halve(leaf: Any) -> Any:
        if hasattr(leaf, "in_half"):
            return leaf.in_half()
        return leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(halve, networks, is_leaf=lambda leaf: hasattr(leaf, "in_half"))
