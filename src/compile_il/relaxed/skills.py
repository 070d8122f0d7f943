"""Skills as the paper has them: sub-task policies, a termination policy, and the recognition model that finds them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from compile_il.batches import Batch, acts, unpack
from compile_il.exact.scores import StepScores
from compile_il.lstm import LSTMState
from compile_il.networks import Embedding, Space, halved
from compile_il.policies import CodePolicy, SkillPolicies, View
from compile_il.relaxed.recognition import Recognition
from compile_il.relaxed.termination import Termination


class Underway(NamedTuple):
    """What is remembered while a skill runs."""

    view: View
    state: LSTMState
    """Of the termination policy, which forgets when a skill ends."""


class Frames(NamedTuple):
    """All that networks say about the frames of a batch, one row per demonstration, T + 1 times each."""

    inputs: Float[Array, "B times input"]
    """x̃: what the recognition model reads."""
    policy: Float[Array, "B times *outputs"]
    """log π_k(a_t | s_t) of each skill; or, where codes are vectors, what the policy sees."""
    arrived: Float[Array, "B times hidden"]
    """Embedded for the termination policy."""
    actions: Shaped[Array, "B times ..."]
    vectors: Float[Array, "B times width"]
    """Actions as vectors; zero after a demonstration's last one."""


class RelaxedSkills(eqx.Module):
    """The networks of the paper; nothing is shared between recognition, policies and termination."""

    embedding: Embedding
    action_layer: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    """Over state and action together; the embedding of states has none of its own."""
    recognition: Recognition
    policies: SkillPolicies | CodePolicy
    termination: Termination
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)

    def read(self, batch: Batch) -> Frames:
        """Runs the networks that look at single frames, and hands each demonstration its own."""
        frames, taken = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        num_times = batch.boundary_labels.shape[1] + 1
        embedded, acting = jax.vmap(self.embedding)(frames), acts(batch)[:, None]
        vectors = jnp.where(acting, jax.vmap(self.policies.actions.vector)(taken), 0.0).astype(embedded.dtype)
        done = jnp.where(acting, jax.vmap(self.action_layer)(vectors), 0.0)
        inputs = jax.vmap(self.norm)(jnp.concatenate([embedded, done], axis=-1))
        rows = inputs, jax.vmap(self.termination.embedding)(frames), taken, vectors
        inputs, arrived, actions, vectors = unpack(rows, batch, num_times)
        return Frames(inputs, self._read_policies(batch), arrived, actions, vectors)

    def _read_policies(self, batch: Batch) -> Float[Array, "B times outputs"]:
        """What policies say of each action taken, or, where codes are vectors, what the policy sees."""
        policies, num_times = self.policies, batch.boundary_labels.shape[1] + 1
        actions = jnp.asarray(batch.actions)

        def read(seen: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " outputs"]:
            return policies.log_probs(seen, action) if isinstance(policies, SkillPolicies) else seen

        if policies.eyes.memory is not None:
            seen = policies.eyes.see_all(batch, num_times)
            return jax.vmap(jax.vmap(read))(seen, unpack(actions, batch, num_times))
        seen = jax.vmap(policies.eyes.embedding)(jnp.asarray(batch.frames))
        return unpack(jax.vmap(read)(seen, actions), batch, num_times)

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores for the exact engine, under the paper's generative model, in which skills do not say when to stop."""
        log_policy = self._read_policies(batch)[:, :-1]
        return StepScores(log_policy, jnp.zeros_like(log_policy), jnp.zeros_like(log_policy))

    def in_half_precision(self) -> "RelaxedSkills":
        """A copy that multiplies in bfloat16; see `Skills.in_half_precision`.

        States of LSTMs, logits and probabilities are still float32.
        """
        return eqx.tree_at(lambda skills: skills.policies.log_sigma, halved(self), self.policies.log_sigma)

    def begin(self, observation: Shaped[Array, "..."]) -> Underway:
        """Where the first skill begins."""
        return Underway(self.policies.eyes.open(observation), self.termination.begin(observation))

    def follow(self, now: Underway, observation: Shaped[Array, "..."]) -> Underway:
        """Where one skill has ended and the next begins: policies remember, the termination policy starts anew."""
        return Underway(now.view, self.termination.begin(observation))

    def act(self, now: Underway, skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action under a code."""
        return self.policies.act(now.view.seen, skill)

    def arrive(self, now: Underway, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> Underway:
        """After an action has led to an observation."""
        state = self.termination.arrive(now.state, action, observation)
        return Underway(self.policies.eyes.look(now.view, action, observation), state)

    def is_done(self, now: Underway, skill: Array) -> Bool[Array, ""]:
        """Whether to stop here; one rule for all skills."""
        del skill
        return self.termination.is_done(now.state)
