"""Models what a skill changes, by a factor for the change that is observed where it ends.

A code can stand for a thing, or for a place where things happen to be: either says which way to go, so likelihood
hardly prefers one (the paper calls its codes "location-specific"). But a finished task often leaves a mark: a thing
vanishes, a door opens, a lamp goes on. Let Δ be the change of the amount of each thing in a step, and μ_k that of a
skill:

    Δ ~ N(μ_k, σ² I) where skill k ends,        Δ ~ N(0, σ² I) at all other steps.

The second is a factor of every segmentation, for every step, so that only the ratio matters:

    log N(Δ; μ_k, σ² I) - log N(Δ; 0, σ² I) = ( μ_k·Δ - |μ_k|² / 2 ) / σ²

The μ_k begin as changes that are in the data, far from each other and from no change at all; then they are learned.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from compile_il.data.spaces import Scaling, sum_cells

STRIDE = 10.0
"""Factor from the learned `Effects.means` to μ_k, since steps of an optimiser that suit networks are small."""


class Effects(eqx.Module):
    """Learned change that each skill makes to what is observed, at the step where it ends."""

    means: Float[Array, "K D"]
    """Mean change of each skill, in `units`, divided by `STRIDE`: μ_k / STRIDE."""
    units: Float[Array, " D"]
    """Unit of each entry: the largest entry of a grid's channel or the spread of a vector's entry."""
    spread: float = eqx.field(static=True)
    """Spread σ of changes around their mean, in `units`."""

    def measure(self, observation: Shaped[Array, "..."]) -> Float[Array, " D"]:
        """Returns the amount of each thing, in `units`: the sums of a grid's channels, or a vector's entries."""
        return sum_cells(observation.astype(jnp.float32)) / jax.lax.stop_gradient(self.units)

    def log_ratio(self, change: Float[Array, " D"]) -> Float[Array, " K"]:
        """Calculates the log-ratio of a change's probability under each skill's effect to that without an effect."""
        means = STRIDE * self.means
        return (means @ change - 0.5 * jnp.sum(means**2, axis=1)) / self.spread**2


def new_effects(scaling: Scaling, num_skills: int, spread: float, key: PRNGKeyArray) -> Effects:
    """Makes effects before training, with μ_k drawn from the changes in the data."""
    units = scaling.observation_spread
    if not units.size:  # only vectors have units of their own
        units = jnp.where(scaling.largest > 0, scaling.largest, 1.0)
    return Effects(kmeans_plus_plus(scaling.changes / units, num_skills, key) / STRIDE, units, spread)


def kmeans_plus_plus(points: Float[Array, "N D"], number: int, key: PRNGKeyArray) -> Float[Array, "number D"]:
    """Draws points in turn, with probabilities ∝ the squared distance to the nearest one before, or the origin.

    As k-means++ begins (Arthur and Vassilvitskii, 2007), with the origin as a first centre.
    """

    def draw(nearest: Float[Array, " N"], key: PRNGKeyArray) -> tuple[Float[Array, " N"], Float[Array, " D"]]:
        chosen = points[jax.random.categorical(key, jnp.log(nearest + jnp.finfo(nearest.dtype).tiny))]
        return jnp.minimum(nearest, jnp.sum((points - chosen) ** 2, axis=1)), chosen

    return jax.lax.scan(draw, jnp.sum(points**2, axis=1), jax.random.split(key, number))[1]
