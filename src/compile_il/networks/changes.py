"""Embeds the change of an observation in one step, for rules that say where a skill ends.

What ends a skill is an event, such as a thing that vanishes or a joint that stops, and an event looks the same wherever
it happens. A network that reads whole states can remember the states in which skills end in a few demonstrations; one
that reads only changes cannot.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from compile_il.data.spaces import Scaling, Space

NUM_CELLS = 6
"""Most cells of a grid whose changes are read: those that change most."""
NUM_FEATURES = 16
"""Number of features of a cell that changes."""
SIDE = 3
"""Number of rows and columns of the patch that is read around a cell that changes."""


class GridChange(eqx.Module):
    """Embeds the change of a grid as features of the cells that change most, their largest values and their sums.

    Features of a cell are those of the patch around it, before the step and in its change. It is the same network for
    all cells, so that it does not matter where an event happens.
    """

    cell: eqx.nn.MLP
    unit: float = eqx.field(static=True)
    width: int = eqx.field(static=True, default=2 * NUM_FEATURES)
    """Number of entries of an embedded change."""

    def __init__(self, space: Space, *, key: PRNGKeyArray):
        patch = SIDE * SIDE * 2 * space.observation_shape[-1]
        self.cell = eqx.nn.MLP(patch, NUM_FEATURES, 2 * NUM_FEATURES, depth=1, final_activation=jax.nn.relu, key=key)
        self.unit = space.grid_unit

    def __call__(self, before: Shaped[Array, "H W C"], after: Shaped[Array, "H W C"]) -> Float[Array, " width"]:
        """Embeds the change from one grid to the next."""
        start, change = before.astype(jnp.float32) / self.unit, after.astype(jnp.float32) / self.unit
        change = change - start
        sizes, cells = jax.lax.top_k(jnp.sum(jnp.abs(change), axis=-1).reshape(-1), min(NUM_CELLS, start[..., 0].size))
        margin = SIDE // 2
        both = jnp.pad(jnp.concatenate([change, start], axis=-1), ((margin, margin), (margin, margin), (0, 0)))

        def features(cell: Array) -> Array:
            row, column = jnp.divmod(cell, start.shape[1])
            patch = jax.lax.dynamic_slice(both, (row, column, 0), (SIDE, SIDE, both.shape[-1]))
            return self.cell(patch.reshape(-1))

        read = jnp.where(sizes[:, None] > 0, jax.vmap(features)(cells), 0.0)
        return jnp.concatenate([read.max(axis=0), read.sum(axis=0)])


class VectorChange(eqx.Module):
    """Scales the change of a vector by the usual size of changes in the data, and adds its magnitude."""

    spread: Float[Array, " D"]
    """Root mean square of the changes of each entry."""
    width: int = eqx.field(static=True)

    def __init__(self, scaling: Scaling):
        spread = jnp.sqrt(jnp.mean(scaling.changes**2, axis=0))
        self.spread = jnp.where(spread > 0, spread, 1.0)
        self.width = len(spread) + 1

    def __call__(self, before: Shaped[Array, " D"], after: Shaped[Array, " D"]) -> Float[Array, " width"]:
        """Embeds the change from one vector to the next."""
        change = (after - before).astype(jnp.float32) / jax.lax.stop_gradient(self.spread)
        magnitude = jnp.sqrt(jnp.mean(change**2) + 1e-12)  # without the summand, no change has no gradient
        return jnp.append(change, magnitude)


class SymbolChange(eqx.Module):
    """Embeds the change of a symbol as the old and the new one."""

    num_symbols: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, space: Space):
        self.num_symbols, self.width = space.num_symbols, 2 * space.num_symbols

    def __call__(self, before: Shaped[Array, ""], after: Shaped[Array, ""]) -> Float[Array, " width"]:
        """Embeds the change from one symbol to the next."""
        return jax.nn.one_hot(jnp.stack([before, after]), self.num_symbols).reshape(-1)


class ChangeRule(eqx.Module):
    """Scores a step as the end of a skill, whichever it is, from its action and the change of the observation."""

    change: GridChange | VectorChange | SymbolChange
    layers: eqx.nn.MLP

    def __init__(self, space: Space, scaling: Scaling, action_width: int, hidden_dim: int, *, key: PRNGKeyArray):
        change_key, layers_key = jax.random.split(key)
        if space.observation_kind == "grid":
            self.change = GridChange(space, key=change_key)
        else:
            self.change = VectorChange(scaling) if space.observation_kind == "vector" else SymbolChange(space)
        self.layers = eqx.nn.MLP(self.change.width + action_width, "scalar", hidden_dim, depth=1, key=layers_key)

    def __call__(
        self, before: Shaped[Array, "..."], action: Float[Array, " width"], after: Shaped[Array, "..."]
    ) -> Float[Array, ""]:
        """Computes the logit of a step, whose action is given as networks read it."""
        logit: Array = self.layers(jnp.concatenate([self.change(before, after), action]))
        return logit
