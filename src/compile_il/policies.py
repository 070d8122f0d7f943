"""Sub-task policies π(a | s, z): one head for each of K skills, or one head that is fed a code of real numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from compile_il.actions import ActionCoding
from compile_il.networks import Embedding, Scaling, Space, make_embedding


class SkillPolicies(eqx.Module):
    """K policies with separate heads on a shared embedding (appendix "Sub-task policies")."""

    embedding: Embedding
    heads: eqx.nn.MLP
    """K networks stacked along the first axis of each weight."""
    log_sigma: Float[Array, "K A"]
    actions: ActionCoding
    num_skills: int = eqx.field(static=True)

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        num_skills: int,
        num_maps: int,
        hidden_dim: int,
        num_layers: int,
        sigma_floor: float,
        key: PRNGKeyArray,
    ):
        embed_key, head_key = jax.random.split(key)
        self.embedding = make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=embed_key)
        self.actions = ActionCoding(space, scaling, sigma_floor)

        def make_head(key: PRNGKeyArray) -> eqx.nn.MLP:
            return eqx.nn.MLP(hidden_dim, self.actions.width, hidden_dim, depth=num_layers, key=key)

        self.heads = eqx.filter_vmap(make_head)(jax.random.split(head_key, num_skills))
        self.log_sigma = jnp.zeros((num_skills, space.action_dim))
        self.num_skills = num_skills

    def outputs(self, embedded: Float[Array, " hidden"]) -> Float[Array, "K outputs"]:
        """For each skill the logits of discrete actions, or the mean of (standardised) continuous ones."""
        return eqx.filter_vmap(lambda head: head(embedded))(self.heads)

    def log_probs(self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " K"]:
        """Log π_k(a | s) for each skill."""
        return self.actions.log_prob(self.outputs(embedded), self.log_sigma, action)

    def act(self, embedded: Float[Array, " hidden"], skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action of a skill."""
        return self.actions.most_probable(self.outputs(embedded)[skill])


class CodePolicy(eqx.Module):
    """One policy for all codes, which reads a code through a linear layer (appendix, Gaussian latent variables)."""

    embedding: Embedding
    code_layer: eqx.nn.Linear
    head: eqx.nn.MLP
    log_sigma: Float[Array, " A"]
    actions: ActionCoding

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        code_dim: int,
        num_maps: int,
        hidden_dim: int,
        num_layers: int,
        sigma_floor: float,
        key: PRNGKeyArray,
    ):
        embed_key, code_key, head_key = jax.random.split(key, 3)
        self.embedding = make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=embed_key)
        self.code_layer = eqx.nn.Linear(code_dim, hidden_dim, key=code_key)
        self.actions = ActionCoding(space, scaling, sigma_floor)
        self.head = eqx.nn.MLP(2 * hidden_dim, self.actions.width, hidden_dim, depth=num_layers, key=head_key)
        self.log_sigma = jnp.zeros((space.action_dim,))

    def outputs(self, embedded: Float[Array, " hidden"], code: Float[Array, " D"]) -> Float[Array, " outputs"]:
        """The logits of discrete actions, or the mean of (standardised) continuous ones."""
        read = self.code_layer(code.astype(embedded.dtype))
        return self.head(jnp.concatenate([embedded, read]))

    def log_prob(
        self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"], code: Float[Array, " D"]
    ) -> Float[Array, ""]:
        """Log π(a | s, z)."""
        return self.actions.log_prob(self.outputs(embedded, code), self.log_sigma, action)

    def act(self, embedded: Float[Array, " hidden"], code: Float[Array, " D"]) -> Shaped[Array, "*A"]:
        """The most probable action under a code."""
        return self.actions.most_probable(self.outputs(embedded, code))
