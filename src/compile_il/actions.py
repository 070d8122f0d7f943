"""How networks read and write actions: one-hot and logits where they are discrete, standardised where continuous."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from compile_il.networks import Scaling, Space


class ActionCoding(eqx.Module):
    """Turns actions into vectors, and a policy's outputs into probabilities and the most probable action.

    Continuous actions are Gaussian with a spread that is learned but never falls below a floor: without one the policy
    term grows without bound as the spread shrinks and drowns all others, and boundaries decay. A spread that has come
    to the floor stays there: no gradient reaches what lies below. A column that is the same in all of the data has a
    spread of zero: there is nothing to learn about it, so it counts for nothing, and it is acted as it is.
    """

    mean: Float[Array, " A"]
    spread: Float[Array, " A"]
    num_actions: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    """Number of entries of an action as a vector, and of outputs of a policy."""
    sigma_floor: float = eqx.field(static=True)

    def __init__(self, space: Space, scaling: Scaling, sigma_floor: float):
        self.mean, self.spread = scaling.action_mean, scaling.action_spread
        self.num_actions = space.num_actions
        self.width = space.num_actions or space.action_dim
        self.sigma_floor = sigma_floor

    def vector(self, action: Shaped[Array, "*A"]) -> Float[Array, " width"]:
        """An action as networks see it: one-hot where discrete, standardised where continuous."""
        if self.num_actions:
            return jax.nn.one_hot(action, self.num_actions)
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        constant = spread == 0
        return jnp.where(constant, 0.0, (action - mean) / jnp.where(constant, 1.0, spread))

    def in_half(self) -> "ActionCoding":
        """Returns itself, still in float32: data are scaled before they are rounded."""
        return self

    def log_prob(
        self, outputs: Float[Array, "*K width"], log_sigma: Float[Array, "*K A"], action: Shaped[Array, "*A"]
    ) -> Float[Array, "*K"]:
        """Log π(a | s) of each policy; of continuous actions, the density of the standardised action."""
        outputs, given = outputs.astype(jnp.float32), self.vector(action)
        if self.num_actions:
            return jax.nn.log_softmax(outputs) @ given
        sigma = jnp.maximum(jnp.exp(log_sigma), self.sigma_floor)
        return jnp.sum(jax.scipy.stats.norm.logpdf(given, outputs, sigma), axis=-1, where=self.spread > 0)

    def most_probable(self, outputs: Float[Array, " width"]) -> Shaped[Array, "*A"]:
        """The action at which a policy's distribution is highest."""
        if self.num_actions:
            return jnp.argmax(outputs).astype(jnp.int32)
        return outputs * self.spread + self.mean
