"""Skills: K policies π_k(a | s) that share an embedding, and the rule ψ_k(s, a, s') that says when each is done."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from compile_il.exact.scores import StepScores
from compile_il.networks import Embedding, GridEmbedding, Scaling, Space, make_embedding


class Skills(eqx.Module):
    """Sub-task policies with separate heads on a shared embedding (appendix "Sub-task policies"), and termination.

    Continuous actions are Gaussian with a spread that is learned but never falls below a floor: without one the policy
    term grows without bound as the spread shrinks and drowns the termination term, and boundaries decay.
    """

    embedding: Embedding
    heads: eqx.nn.MLP
    """K networks stacked along the first axis of each weight."""
    stopping: eqx.nn.MLP
    log_sigma: Float[Array, "K A"]
    action_mean: Float[Array, " A"]
    action_spread: Float[Array, " A"]
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)
    sigma_floor: float = eqx.field(static=True)
    termination_weight: float = eqx.field(static=True)

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        num_skills: int,
        num_maps: int,
        hidden_dim: int,
        shared_termination: bool,
        sigma_floor: float,
        termination_weight: float,
        key: PRNGKeyArray,
    ):
        embed_key, head_key, stop_key = jax.random.split(key, 3)
        action_width = space.num_actions or space.action_dim
        self.embedding = make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=embed_key)

        def make_head(key: PRNGKeyArray) -> eqx.nn.MLP:
            return eqx.nn.MLP(hidden_dim, action_width, hidden_dim, depth=1, key=key)

        self.heads = eqx.filter_vmap(make_head)(jax.random.split(head_key, num_skills))
        num_rules = 1 if shared_termination else num_skills
        self.stopping = eqx.nn.MLP(2 * hidden_dim + action_width, num_rules, hidden_dim, depth=1, key=stop_key)
        self.log_sigma = jnp.zeros((num_skills, space.action_dim))
        self.action_mean, self.action_spread = scaling.action_mean, scaling.action_spread
        self.space, self.num_skills = space, num_skills
        self.sigma_floor, self.termination_weight = sigma_floor, termination_weight

    def policy_outputs(self, embedded: Float[Array, " hidden"]) -> Float[Array, "K outputs"]:
        """For each skill the logits of discrete actions, or the mean of (standardised) continuous ones."""
        return eqx.filter_vmap(lambda head: head(embedded))(self.heads)

    def _standardise(self, action: Shaped[Array, "*A"]) -> Float[Array, " width"]:
        if self.space.num_actions:
            return jax.nn.one_hot(action, self.space.num_actions)
        return (action - jax.lax.stop_gradient(self.action_mean)) / jax.lax.stop_gradient(self.action_spread)

    def log_policy(self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " K"]:
        """Log π_k(a | s) for each skill; of continuous actions, the density of the standardised action."""
        outputs, given = self.policy_outputs(embedded).astype(jnp.float32), self._standardise(action)
        if self.space.num_actions:
            return jax.nn.log_softmax(outputs) @ given
        sigma = jnp.maximum(jnp.exp(self.log_sigma), self.sigma_floor)
        return jnp.sum(jax.scipy.stats.norm.logpdf(given, outputs, sigma), axis=-1)

    def stop_logits(
        self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"], arrived: Float[Array, " hidden"]
    ) -> Float[Array, " K"]:
        """Logits of ψ_k(s, a, s')."""
        given = self._standardise(action).astype(embedded.dtype)
        logits = self.stopping(jnp.concatenate([embedded, given, arrived])).astype(jnp.float32)
        return jnp.broadcast_to(logits, (self.num_skills,))

    def score_frames(self, frames: Shaped[Array, "F ..."], actions: Shaped[Array, "F ..."]) -> StepScores:
        """Scores of frames that lie end to end; those of a demonstration's last frame have no meaning.

        Frame f + 1 is where action f led, so one embedding of each frame serves its own step and the one before.
        """
        embedded = jax.vmap(self.embedding)(frames)
        logits = jax.vmap(self.stop_logits)(embedded, actions, jnp.roll(embedded, -1, axis=0))
        return StepScores(
            log_policy=jax.vmap(self.log_policy)(embedded, actions),
            log_stop=self.termination_weight * jax.nn.log_sigmoid(logits),
            log_go=self.termination_weight * jax.nn.log_sigmoid(-logits),
        )

    def in_half_precision(self) -> "Skills":
        """A copy whose networks compute in bfloat16, for grids, where convolutions are most of the work.

        Cells are 0 or 1, exact in any precision, and scores are still float32. Vectors would be rounded: they stay as
        they are.
        """
        if not isinstance(self.embedding, GridEmbedding):
            return self

        def halve(leaf: Array) -> Array:
            return leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf

        networks = (self.embedding, self.heads, self.stopping)
        return eqx.tree_at(lambda s: (s.embedding, s.heads, s.stopping), self, jax.tree.map(halve, networks))

    def act(self, observation: Shaped[Array, "..."], skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action of a skill."""
        output = self.policy_outputs(self.embedding(observation))[skill]
        if self.space.num_actions:
            return jnp.argmax(output).astype(jnp.int32)
        return output * self.action_spread + self.action_mean

    def is_done(
        self,
        observation: Shaped[Array, "..."],
        action: Shaped[Array, "*A"],
        arrived: Shaped[Array, "..."],
        skill: Array,
    ) -> Bool[Array, ""]:
        """Whether a skill stops on arriving: ψ_k(s, a, s') > 0.5."""
        logits = self.stop_logits(self.embedding(observation), action, self.embedding(arrived))
        return logits[skill] > 0
