"""Skills of the exact engine: K policies π_k(a | s), and the rule ψ_k(s, a, s') that says when each is done."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from compile_il.exact.scores import StepScores
from compile_il.networks import GridEmbedding, Scaling, Space, halved
from compile_il.policies import SkillPolicies


class Arrival(NamedTuple):
    """What skills know at a moment: the embedded observation, and how ready each skill is to stop there."""

    embedded: Float[Array, " hidden"]
    stop_logits: Float[Array, " K"]


class Skills(eqx.Module):
    """Sub-task policies and a termination rule that looks at a step and at where it led."""

    policies: SkillPolicies
    stopping: eqx.nn.MLP
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)
    termination_weight: float = eqx.field(static=True)

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        num_skills: int,
        num_maps: int,
        hidden_dim: int,
        num_layers: int,
        shared_termination: bool,
        sigma_floor: float,
        termination_weight: float,
        key: PRNGKeyArray,
    ):
        policy_key, stop_key = jax.random.split(key)
        self.policies = SkillPolicies(
            space,
            scaling,
            num_skills=num_skills,
            num_maps=num_maps,
            hidden_dim=hidden_dim,
            num_layers=num_layers,
            sigma_floor=sigma_floor,
            key=policy_key,
        )
        num_rules = 1 if shared_termination else num_skills
        width = 2 * hidden_dim + self.policies.actions.width
        self.stopping = eqx.nn.MLP(width, num_rules, hidden_dim, depth=1, key=stop_key)
        self.space, self.num_skills, self.termination_weight = space, num_skills, termination_weight

    def stop_logits(
        self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"], arrived: Float[Array, " hidden"]
    ) -> Float[Array, " K"]:
        """Logits of ψ_k(s, a, s')."""
        given = self.policies.actions.vector(action).astype(embedded.dtype)
        logits = self.stopping(jnp.concatenate([embedded, given, arrived])).astype(jnp.float32)
        return jnp.broadcast_to(logits, (self.num_skills,))

    def score_frames(self, frames: Shaped[Array, "F ..."], actions: Shaped[Array, "F ..."]) -> StepScores:
        """Scores of frames that lie end to end; those of a demonstration's last frame have no meaning.

        Frame f + 1 is where action f led, so one embedding of each frame serves its own step and the one before.
        """
        embedded = jax.vmap(self.policies.embedding)(frames)
        logits = jax.vmap(self.stop_logits)(embedded, actions, jnp.roll(embedded, -1, axis=0))
        return StepScores(
            log_policy=jax.vmap(self.policies.log_probs)(embedded, actions),
            log_stop=self.termination_weight * jax.nn.log_sigmoid(logits),
            log_go=self.termination_weight * jax.nn.log_sigmoid(-logits),
        )

    def in_half_precision(self) -> "Skills":
        """A copy whose networks compute in bfloat16, for grids, where convolutions are most of the work.

        Cells are 0 or 1, exact in any precision, and scores are still float32. Vectors would be rounded: they stay as
        they are.
        """
        if not isinstance(self.policies.embedding, GridEmbedding):
            return self

        def networks(skills: Skills) -> tuple[Any, ...]:
            return skills.policies.embedding, skills.policies.heads, skills.stopping

        return eqx.tree_at(networks, self, halved(networks(self)))

    def begin(self, observation: Shaped[Array, "..."]) -> Arrival:
        """Where a skill begins; it does not stop before its first step."""
        return Arrival(self.policies.embedding(observation), jnp.full((self.num_skills,), -jnp.inf))

    def act(self, now: Arrival, skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action of a skill."""
        return self.policies.act(now.embedded, skill)

    def arrive(self, now: Arrival, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> Arrival:
        """After an action has led to an observation."""
        arrived = self.policies.embedding(observation)
        return Arrival(arrived, self.stop_logits(now.embedded, action, arrived))

    def is_done(self, now: Arrival, skill: Array) -> Bool[Array, ""]:
        """Whether a skill stops here: ψ_k(s, a, s') > 0.5."""
        return now.stop_logits[skill] > 0
