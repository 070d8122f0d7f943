"""Skills as the paper has them: sub-task policies, a termination policy, and the recognition model that finds them.

The termination policy: when to stop, told from what has been seen so far (appendix "Termination policy").

It is built as the boundary network is, with parameters of its own: an LSTM over embedded observations, run once
for each segment behind the same soft masks, and two hidden layers on top. It learns to say 1 at the most probable
boundary argmax_t q(b_i = t | x) and 0 elsewhere.

Deviations: the action comes as it is, beside the normalised embedding of the state, where recognition embeds it and
normalises both. And to be used while acting it must not look ahead. The recognition model reads the action of step t
together with state t; here state t comes with the action that led to it, a_{t-1}, which is known on arriving. At the
first time of a segment that action belongs to the segment before: it is hidden by the mask of its own step, and is zero
while acting.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from compile_il.data.batch import Batch, acts, to_padded
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.records import StepScores, log_poisson
from compile_il.inference.relaxed.recognition import Recognition
from compile_il.networks.embeddings import Embedding, halved, make_embedding
from compile_il.networks.lstm import LSTMState, memory_in_segments, update_memory
from compile_il.networks.policies import ActionCoding, CodePolicy, EncoderState, SkillPolicies


class Termination(eqx.Module):
    """An LSTM with a head that says stop or go on at each time."""

    embedding: Embedding
    cell: eqx.nn.LSTMCell
    head: eqx.nn.MLP
    actions: ActionCoding

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        num_maps: int,
        hidden_dim: int,
        key: PRNGKeyArray,
    ):
        embed_key, cell_key, head_key = jax.random.split(key, 3)
        self.embedding = make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=embed_key)
        self.actions = ActionCoding(space, scaling, sigma_floor=1.0)
        self.cell = eqx.nn.LSTMCell(hidden_dim + self.actions.width, hidden_dim, key=cell_key)
        self.head = eqx.nn.MLP(hidden_dim, "scalar", hidden_dim, depth=2, key=head_key)

    def logits(
        self,
        embedded: Float[Array, "B times hidden"],
        actions: Float[Array, "B times width"],
        masks: Float[Array, "B M times"],
        lengths: Int[Array, " B"],
    ) -> Float[Array, "B M times"]:
        """Logits of stopping, at each time in each segment.

        Args:
          embedded: frames, as `embedding` gives them.
          actions: the action taken at each time, as vectors.
          masks: mask_i(t), that no earlier segment explains time t.
          lengths: steps that are real.
        """
        encodings = memory_in_segments(self.cell, embedded, actions, masks, lengths)
        return jax.vmap(jax.vmap(jax.vmap(self.head)))(encodings).astype(masks.dtype)

    def init(self, observation: Shaped[Array, "..."]) -> LSTMState:
        """State of the LSTM where a skill begins."""
        return update_memory(self.cell, None, self.embedding(observation), jnp.zeros((self.actions.width,)))

    def observe(self, state: LSTMState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> LSTMState:
        """State of the LSTM after an action has led to an observation."""
        return update_memory(self.cell, state, self.embedding(observation), self.actions.vector(action))

    def done(self, state: LSTMState) -> Bool[Array, ""]:
        """Whether to stop here: whether that has a probability above 0.5."""
        return self.head(state.hidden) > 0


def termination_loss(
    logits: Float[Array, "M times"], ends: Int[Array, " M"], length: Int[Array, ""], count: Int[Array, ""]
) -> Float[Array, ""]:
    """Cross-entropy to stopping at b_i and nowhere else, over the times of a demonstration and the segments it has."""
    segments, times = jnp.arange(logits.shape[0])[:, None], jnp.arange(logits.shape[1])
    stops = times == ends[:, None]
    losses = -jnp.where(stops, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits))
    return jnp.sum(jnp.where((times <= length) & (segments < count), losses, 0.0))


class ActorState(NamedTuple):
    """What is remembered while a skill runs, by its policy and by the termination policy."""

    view: EncoderState
    state: LSTMState
    """State of the termination policy's LSTM, which starts anew when a skill ends."""


class Frames(NamedTuple):
    """All that networks say about the frames of a batch, one row per demonstration, T + 1 times each."""

    inputs: Float[Array, "B times input"]
    """x̃: what the recognition model reads."""
    evidence: Float[Array, "B times outputs"]
    """What policies need of each frame before its code is known (`SkillPolicies.evidence`); of policies that forget,
    embedded frames, from which `in_segments` gets it once it is known where segments begin."""
    arrived: Float[Array, "B times hidden"]
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

    def read(self, batch: Batch) -> Frames:
        """Runs the networks on all frames, and puts what they say in rows, one for each demonstration."""
        frames, taken = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        num_times = batch.boundary_labels.shape[1] + 1
        embedded, acting = jax.vmap(self.embedding)(frames), acts(batch)[:, None]
        vectors = jnp.where(acting, jax.vmap(self.policies.actions.vector)(taken), 0.0).astype(embedded.dtype)
        done = jnp.where(acting, jax.vmap(self.action_layer)(vectors), 0.0)
        inputs = jax.vmap(self.norm)(jnp.concatenate([embedded, done], axis=-1))
        rows = inputs, jax.vmap(self.termination.embedding)(frames), taken, vectors
        inputs, arrived, actions, vectors = to_padded(rows, batch, num_times)
        return Frames(inputs, self._evidence(batch), arrived, actions, vectors)

    def _evidence(self, batch: Batch) -> Float[Array, "B times outputs"]:
        """`Frames.evidence`, from single frames or from all that was seen so far."""
        eyes, num_times = self.policies.eyes, batch.boundary_labels.shape[1] + 1
        actions = jnp.asarray(batch.actions)
        if eyes.memory is not None and not eyes.forgetful:
            return jax.vmap(jax.vmap(self.policies.evidence))(
                eyes.encode_all(batch, num_times), to_padded(actions, batch, num_times)
            )
        seen = jax.vmap(eyes.embedding)(jnp.asarray(batch.frames))
        return to_padded(seen if eyes.forgetful else jax.vmap(self.policies.evidence)(seen, actions), batch, num_times)

    def in_segments(
        self, frames: Frames, masks: Float[Array, "B M times"], lengths: Int[Array, " B"]
    ) -> Float[Array, "B segments times outputs"]:
        """Evidence of frames in each segment; one row for all of them, unless policies forget where a skill begins.

        Args:
          frames: what networks say, from `read`.
          masks: mask_i(t), that no earlier segment explains time t.
          lengths: steps that are real.
        """
        eyes = self.policies.eyes
        if not eyes.forgetful:
            return frames.evidence[:, None]
        seen = eyes.see_segments(frames.evidence, frames.vectors, masks, lengths)
        by_segment = jax.vmap(jax.vmap(self.policies.evidence), in_axes=(0, None))
        return jax.vmap(by_segment)(seen, frames.actions)

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores for the exact engine, under the paper's generative model, in which skills do not say when to stop."""
        assert not self.policies.eyes.forgetful, "what a step is worth depends on where its segment began"
        log_policy = self._evidence(batch)[:, :-1]
        return StepScores(log_policy, jnp.zeros_like(log_policy), jnp.zeros_like(log_policy))

    def log_duration(self, rate: float, longest: int, allowed: int | None) -> Float[Array, " lengths"]:
        """Log of the Poisson over lengths d = 0 .. longest, of at least one step: the paper's model has no other."""
        del allowed
        return log_poisson(jnp.arange(longest + 1), rate) - jnp.log1p(-jnp.exp(-rate))

    def expected_length(self, rate: float) -> float:
        """Returns the expected length of a segment, of which nothing is learned."""
        return rate

    def in_half_precision(self) -> "RelaxedSkills":
        """A copy that multiplies in bfloat16; see `Skills.in_half_precision`.

        States of LSTMs, logits and probabilities stay in float32.
        """
        return eqx.tree_at(lambda skills: skills.policies.log_sigma, halved(self), self.policies.log_sigma)

    def init(self, observation: Shaped[Array, "..."]) -> ActorState:
        """What is remembered where the first skill begins."""
        return ActorState(self.policies.eyes.init(observation), self.termination.init(observation))

    def switch_skill(self, now: ActorState, observation: Shaped[Array, "..."]) -> ActorState:
        """What is remembered where the next skill begins: termination, and policies that forget, start anew."""
        eyes = self.policies.eyes
        view = eyes.init(observation) if eyes.forgetful else now.view
        return ActorState(view, self.termination.init(observation))

    def act(self, now: ActorState, skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action under a code."""
        return self.policies.act(now.view.seen, skill)

    def observe(self, now: ActorState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> ActorState:
        """What is remembered after an action has led to an observation."""
        state = self.termination.observe(now.state, action, observation)
        return ActorState(self.policies.eyes.update(now.view, action, observation), state)

    def done(self, now: ActorState, skill: Array) -> Bool[Array, ""]:
        """Whether a skill stops here, by one rule for all skills."""
        del skill
        return self.termination.done(now.state)
