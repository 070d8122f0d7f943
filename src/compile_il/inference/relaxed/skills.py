"""Defines the paper's networks: recognition model, sub-task policies and termination policy.

The termination policy decides from the past when to stop (appendix "Termination policy"). As in the paper it is built
like the boundary network, with parameters of its own: an LSTM over embedded observations, run once for each segment
behind the same soft masks, with two hidden layers on top. It learns 1 at the most probable boundary
argmax_t q(b_i = t | x) and 0 elsewhere.

Deviations: the action comes as it is, beside the normalised embedding of the state, where recognition embeds it and
normalises both. And since the termination policy acts, it must not look ahead: where the recognition model reads state
t with action t, here state t comes with the action that led to it, a_{t-1}. At the first time of a segment, that action
belongs to the segment before: it is hidden by the mask of its own step, and is zero while acting.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from compile_il.config import Config
from compile_il.data.batch import Batch, has_action, to_padded
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.records import StepScores
from compile_il.inference.relaxed.distributions import log_poisson
from compile_il.inference.relaxed.recognition import Recognition
from compile_il.networks.embeddings import Embedding, make_embedding, to_bfloat16
from compile_il.networks.policies import CodePolicy, EncoderState, SkillPolicies, StateEncoder


class Termination(eqx.Module):
    """A state encoder that starts anew with each skill, and a head that decides at each time whether to stop."""

    encoder: StateEncoder
    head: eqx.nn.MLP

    def __init__(self, config: Config, space: Space, scaling: Scaling, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        forgetful = dataclasses.replace(config, recurrent=True, forgetful=True)
        self.encoder = StateEncoder(forgetful, space, scaling, keys=keys[:2])
        self.head = eqx.nn.MLP(config.hidden_dim, "scalar", config.hidden_dim, depth=2, key=keys[2])

    def logits(
        self,
        embedded: Float[Array, "B times hidden"],
        actions: Float[Array, "B times width"],
        masks: Float[Array, "B M times"],
        lengths: Int[Array, " B"],
    ) -> Float[Array, "B M times"]:
        """Computes logits of stopping at each time in each segment; arguments as of `StateEncoder.encode_segments`."""
        encodings = self.encoder.encode_segments(embedded, actions, masks, lengths)
        return jax.vmap(jax.vmap(jax.vmap(self.head)))(encodings).astype(masks.dtype)

    def done(self, state: EncoderState) -> Bool[Array, ""]:
        """Returns whether to stop: with a probability above 0.5."""
        return self.head(state.encoding) > 0


class ActorState(NamedTuple):
    """State of a running skill: of its policy's encoder and of that of the termination policy."""

    encoder: EncoderState
    termination: EncoderState


class Frames(NamedTuple):
    """Outputs of the networks for a batch, one row for each demonstration, T + 1 times each."""

    inputs: Float[Array, "B times input"]
    """x̃: what the recognition model reads."""
    evidence: Float[Array, "B times outputs"]
    """The policies' evidence of each frame (`SkillPolicies.evidence`); of policies that forget, embedded frames."""
    termination_inputs: Float[Array, "B times hidden"]
    """Frames as the termination policy embeds them."""
    actions: Shaped[Array, "B times ..."]
    vectors: Float[Array, "B times width"]
    """Actions as vectors; zero after a demonstration's last one."""


class RelaxedSkills(eqx.Module):
    """The networks of the paper; nothing is shared between recognition, policies and termination."""

    embedding: Embedding
    action_layer: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    """LayerNorm over embedded state and action together; `embedding` has none of its own."""
    recognition: Recognition
    policies: SkillPolicies | CodePolicy
    termination: Termination
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)

    def __init__(self, config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray):
        embed_key, action_key, recognition_key, policy_key, stop_key = jax.random.split(key, 5)
        num_maps, hidden_dim = config.num_maps, config.hidden_dim
        categorical = config.codes == "categorical"
        num_outputs = config.num_skills if categorical else 2 * config.code_dim  # means and log-variances
        self.embedding = make_embedding(
            space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, normed=False, key=embed_key
        )
        self.policies = (SkillPolicies if categorical else CodePolicy)(config, space, scaling, key=policy_key)
        self.action_layer = eqx.nn.Linear(self.policies.encoder.actions.width, hidden_dim, key=action_key)
        self.norm = eqx.nn.LayerNorm(2 * hidden_dim)
        self.recognition = Recognition(2 * hidden_dim, hidden_dim, num_outputs, key=recognition_key)
        self.termination = Termination(config, space, scaling, key=stop_key)
        self.space, self.num_skills = space, config.num_skills

    def read(self, batch: Batch) -> Frames:
        """Runs the networks on all frames."""
        frames, taken = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        num_times = batch.boundary_labels.shape[1] + 1
        embedded, acting = jax.vmap(self.embedding)(frames), has_action(batch)[:, None]
        vectors = jnp.where(acting, jax.vmap(self.policies.encoder.actions.vector)(taken), 0.0).astype(embedded.dtype)
        embedded_actions = jnp.where(acting, jax.vmap(self.action_layer)(vectors), 0.0)
        inputs = jax.vmap(self.norm)(jnp.concatenate([embedded, embedded_actions], axis=-1))
        rows = inputs, jax.vmap(self.termination.encoder.embedding)(frames), taken, vectors
        inputs, termination_inputs, actions, vectors = to_padded(rows, batch, num_times)
        return Frames(inputs, self._evidence(batch), termination_inputs, actions, vectors)

    def _evidence(self, batch: Batch) -> Float[Array, "B times outputs"]:
        """Computes `Frames.evidence`, from single frames or from all that was seen so far."""
        encoder, num_times = self.policies.encoder, batch.boundary_labels.shape[1] + 1
        actions = jnp.asarray(batch.actions)
        if encoder.memory is not None and not encoder.forgetful:
            return jax.vmap(jax.vmap(self.policies.evidence))(
                encoder.encode_all(batch, num_times), to_padded(actions, batch, num_times)
            )
        rows = jax.vmap(encoder.embedding)(jnp.asarray(batch.frames))
        rows = rows if encoder.forgetful else jax.vmap(self.policies.evidence)(rows, actions)
        return to_padded(rows, batch, num_times)

    def in_segments(
        self, frames: Frames, masks: Float[Array, "B M times"], lengths: Int[Array, " B"]
    ) -> Float[Array, "B segments times outputs"]:
        """Computes the evidence of frames in each segment, with masks mask_i(t); one row, unless policies forget."""
        encoder = self.policies.encoder
        if not encoder.forgetful:
            return frames.evidence[:, None]
        encodings = encoder.encode_segments(frames.evidence, frames.vectors, masks, lengths)
        by_segment = jax.vmap(jax.vmap(self.policies.evidence), in_axes=(0, None))
        return jax.vmap(by_segment)(encodings, frames.actions)

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores each step for the exact engine, under the paper's model, in which skills have no termination rule."""
        assert not self.policies.encoder.forgetful, "scores of a step depend on where its segment began"
        log_policy = self._evidence(batch)[:, :-1]
        return StepScores(log_policy, jnp.zeros_like(log_policy), jnp.zeros_like(log_policy))

    def log_duration(self, rate: float, longest: int, allowed: int | None) -> Float[Array, " lengths"]:
        """Calculates the log of the Poisson over lengths d = 0 .. longest, of at least one step."""
        del allowed
        return log_poisson(jnp.arange(longest + 1), rate) - jnp.log1p(-jnp.exp(-rate))

    def expected_length(self, rate: float) -> float:
        """Returns the expected length of a segment, which is not learned."""
        return rate

    def in_half_precision(self) -> "RelaxedSkills":
        """Returns a copy that multiplies in bfloat16; states of LSTMs, logits and probabilities stay in float32."""
        return eqx.tree_at(lambda skills: skills.policies.log_sigma, to_bfloat16(self), self.policies.log_sigma)

    def init(self, observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the state in which the first skill begins."""
        return ActorState(self.policies.encoder.init(observation), self.termination.encoder.init(observation))

    def switch_skill(self, now: ActorState, observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the state in which the next skill begins."""
        encoder = self.policies.encoder.switch_skill(now.encoder, observation)
        return ActorState(encoder, self.termination.encoder.switch_skill(now.termination, observation))

    def act(self, now: ActorState, skill: Array) -> Shaped[Array, "*A"]:
        """Returns the most probable action under a code."""
        return self.policies.act(now.encoder.encoding, skill)

    def observe(self, now: ActorState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the state after an action has led to an observation."""
        encoder = self.policies.encoder.update(now.encoder, action, observation)
        return ActorState(encoder, self.termination.encoder.update(now.termination, action, observation))

    def done(self, now: ActorState, skill: Array) -> Bool[Array, ""]:
        """Returns whether a skill stops in this state, by one termination policy for all skills."""
        del skill
        return self.termination.done(now.termination)
