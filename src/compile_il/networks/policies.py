"""Scores and chooses actions under a skill, π(a | s, z), from an encoding of the states seen so far.

Policies have one head for each of K skills, or one head that reads a code of real numbers. Where a state does not show
everything, policies need a memory (the paper leaves that for later). It runs on through a demonstration, from one skill
to the next: what was seen of the world stays true when a new skill begins. Policies are then functions of all that was
seen so far and of nothing ahead, so that sums over segmentations are still exact. Or, in relaxed inference, policies
forget where a skill begins, and each segment is explained from what is seen in it alone.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from compile_il.config import Config
from compile_il.data.batch import Batch, to_padded
from compile_il.data.spaces import Scaling, Space
from compile_il.networks.embeddings import Embedding, make_embedding
from compile_il.networks.lstm import LSTMState, lstm_step, masked_passes, project, zero_state


class ActionCoding(eqx.Module):
    """Turns actions into vectors, and a policy's outputs into probabilities and the most probable action.

    Discrete actions are one-hot and have logits. Continuous ones are standardised and Gaussian, with a spread that is
    learned but never falls below a floor: without one the policy term grows without bound as the spread shrinks and
    drowns all others, and boundaries decay. No gradient reaches a spread below the floor, so it stays there. An entry
    that is the same in all of the data has a spread of zero: it has no weight in training, and is acted as it is.

    Discrete policies are mixed with a uniform distribution: with few demonstrations a policy is soon sure of what it
    has seen, and a single other action would outweigh all else that says where a segment ends.
    """

    mean: Float[Array, " A"]
    spread: Float[Array, " A"]
    num_actions: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    """Number of entries of an action as a vector, and of outputs of a policy."""
    sigma_floor: float = eqx.field(static=True)
    uniform_share: float = eqx.field(static=True)

    def __init__(self, space: Space, scaling: Scaling, sigma_floor: float, uniform_share: float = 0.0):
        self.mean, self.spread = scaling.action_mean, scaling.action_spread
        self.num_actions = space.num_actions
        self.width = space.num_actions or space.action_dim
        self.sigma_floor, self.uniform_share = sigma_floor, uniform_share

    def vector(self, action: Shaped[Array, "*A"]) -> Float[Array, " width"]:
        """Returns an action as networks read it: one-hot where discrete, standardised where continuous."""
        if self.num_actions:
            return jax.nn.one_hot(action, self.num_actions)
        mean, spread = jax.lax.stop_gradient((self.mean, self.spread))
        constant = spread == 0
        return jnp.where(constant, 0.0, (action - mean) / jnp.where(constant, 1.0, spread))

    def to_bfloat16(self) -> "ActionCoding":
        """Returns the same in float32: data are scaled before they are rounded."""
        return self

    def log_prob(
        self, outputs: Float[Array, "*K width"], log_sigma: Float[Array, "*K A"], action: Shaped[Array, "*A"]
    ) -> Float[Array, "*K"]:
        """Calculates log π(a | s) of each policy; of continuous actions, the density of the standardised action."""
        outputs, given = outputs.astype(jnp.float32), self.vector(action)
        if self.num_actions:
            if not self.uniform_share:
                return jax.nn.log_softmax(outputs) @ given
            probs = (1 - self.uniform_share) * jax.nn.softmax(outputs) + self.uniform_share / self.num_actions
            return jnp.log(probs @ given)
        sigma = jnp.maximum(jnp.exp(log_sigma), self.sigma_floor)
        return jnp.sum(jax.scipy.stats.norm.logpdf(given, outputs, sigma), axis=-1, where=self.spread > 0)

    def most_probable(self, outputs: Float[Array, " width"]) -> Shaped[Array, "*A"]:
        """Returns the action at which a policy's distribution is highest."""
        if self.num_actions:
            return jnp.argmax(outputs).astype(jnp.int32)
        return outputs * self.spread + self.mean


class EncoderState(NamedTuple):
    """A vector that stands for what was seen up to one time, and the state of the memory, if there is one."""

    encoding: Float[Array, " hidden"]
    memory: LSTMState | None


class StateEncoder(eqx.Module):
    """Embeds observations, and if it is recurrent, remembers them by an LSTM over states and earlier actions.

    Nothing has been done yet in a state where it is read: it comes with the action that led there, and the first one
    with zeros.
    """

    embedding: Embedding
    actions: ActionCoding
    memory: eqx.nn.LSTMCell | None
    forgetful: bool = eqx.field(static=True)
    """Whether the memory is cleared where a skill begins."""
    hidden_dim: int = eqx.field(static=True)
    """Number of entries of an encoding."""

    def __init__(self, config: Config, space: Space, scaling: Scaling, *, keys: Key[Array, "2"]):
        assert config.sigma_floor is not None, "settings are resolved"
        assert config.uniform_share is not None, "settings are resolved"
        hidden_dim = config.hidden_dim
        self.embedding = make_embedding(space, scaling, num_maps=config.num_maps, hidden_dim=hidden_dim, key=keys[0])
        self.actions = ActionCoding(space, scaling, config.sigma_floor, config.uniform_share)
        width = hidden_dim + self.actions.width
        self.memory = eqx.nn.LSTMCell(width, hidden_dim, key=keys[1]) if config.recurrent else None
        self.forgetful, self.hidden_dim = config.forgetful, hidden_dim

    def encode_all(self, batch: Batch, num_times: int) -> Float[Array, "B times hidden"]:
        """Encodes each time of each demonstration, with a memory of all of it."""
        frames, taken = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        rows = jax.vmap(self.embedding)(frames), jax.vmap(self.actions.vector)(taken)
        embedded, vectors = to_padded(rows, batch, num_times)
        whole = jnp.ones((embedded.shape[0], 1, num_times))
        return self.encode_segments(embedded, vectors, whole, jnp.asarray(batch.lengths))[:, 0]

    def encode_segments(
        self,
        embedded: Float[Array, "B times hidden"],
        actions: Float[Array, "B times width"],
        masks: Float[Array, "B M times"],
        lengths: Int[Array, " B"],
    ) -> Float[Array, "B M times hidden"]:
        """Encodes each time of each segment, with the passes of all segments at once.

        Actions are those taken at each time, as vectors; mask_i(t) says that no earlier segment explains time t.
        """
        assert self.memory is not None, "without a memory, frames are encoded one by one"
        own = masks[..., None] * actions[:, None]  # actions of earlier segments are hidden too
        previous = jnp.pad(own[:, :, :-1], ((0, 0), (0, 0), (1, 0), (0, 0))).astype(embedded.dtype)
        frames = jnp.broadcast_to(embedded[:, None], (*masks.shape, embedded.shape[-1]))
        inputs = jnp.concatenate([frames, previous], axis=-1).reshape(-1, masks.shape[-1], self.memory.input_size)
        num_real = jnp.repeat(lengths + 1, masks.shape[1])
        passes = project(self.memory, inputs), masks.reshape(-1, masks.shape[-1]), num_real
        return masked_passes(self.memory, *passes).reshape(*masks.shape, self.memory.hidden_size)

    def init(self, observation: Shaped[Array, "..."]) -> EncoderState:
        """Returns the state at a first observation."""
        return self._read(observation, jnp.zeros((self.actions.width,)), None)

    def switch_skill(self, state: EncoderState, observation: Shaped[Array, "..."]) -> EncoderState:
        """Returns the state where a new skill begins, at the observation that was the last."""
        return self.init(observation) if self.forgetful else state

    def update(
        self, state: EncoderState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]
    ) -> EncoderState:
        """Returns the state after an action has led to an observation."""
        return self._read(observation, self.actions.vector(action), state.memory)

    def _read(self, observation: Array, previous_action: Array, state: LSTMState | None) -> EncoderState:
        embedded = self.embedding(observation)
        if self.memory is None:
            return EncoderState(embedded, None)
        inputs = jnp.concatenate([embedded, previous_action.astype(embedded.dtype)])
        state = lstm_step(self.memory, state or zero_state(self.memory), project(self.memory, inputs))
        return EncoderState(state.hidden.astype(embedded.dtype), state)


class SkillPolicies(eqx.Module):
    """K policies with separate heads on a shared embedding (appendix "Sub-task policies")."""

    encoder: StateEncoder
    heads: eqx.nn.MLP
    """The K heads, stacked along the first axis of each weight."""
    log_sigma: Float[Array, "K A"]
    num_skills: int = eqx.field(static=True)

    def __init__(self, config: Config, space: Space, scaling: Scaling, *, key: PRNGKeyArray):
        encoder_key, head_key = jax.random.split(key)
        self.encoder = encoder = StateEncoder(config, space, scaling, keys=jax.random.split(encoder_key))

        def make_head(key: PRNGKeyArray) -> eqx.nn.MLP:
            return eqx.nn.MLP(
                encoder.hidden_dim, encoder.actions.width, encoder.hidden_dim, depth=config.policy_layers, key=key
            )

        self.heads = eqx.filter_vmap(make_head)(jax.random.split(head_key, config.num_skills))
        self.log_sigma = jnp.zeros((config.num_skills, *encoder.actions.spread.shape))
        self.num_skills = config.num_skills

    def outputs(self, encoding: Float[Array, " hidden"]) -> Float[Array, "K outputs"]:
        """Computes, for each skill, the logits of discrete actions, or the mean of (standardised) continuous ones."""
        return eqx.filter_vmap(lambda head: head(encoding))(self.heads)

    def evidence(self, encoding: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " K"]:
        """Computes the part of `log_prob` that does not depend on the code: log π_k(a | s) of each skill."""
        return self.encoder.actions.log_prob(self.outputs(encoding), self.log_sigma, action)

    def log_prob(
        self, evidence: Float[Array, " K"], action: Shaped[Array, "*A"], code: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Calculates log π(a | s, z), from the evidence of a frame."""
        del action  # the evidence has it
        return evidence[code]

    def act(self, encoding: Float[Array, " hidden"], skill: Array) -> Shaped[Array, "*A"]:
        """Returns the most probable action of a skill."""
        return self.encoder.actions.most_probable(self.outputs(encoding)[skill])


class CodePolicy(eqx.Module):
    """One policy for all codes, which reads a code through a linear layer (appendix, Gaussian latent variables)."""

    encoder: StateEncoder
    code_layer: eqx.nn.Linear
    head: eqx.nn.MLP
    log_sigma: Float[Array, " A"]

    def __init__(self, config: Config, space: Space, scaling: Scaling, *, key: PRNGKeyArray):
        encoder_key, code_key, head_key = jax.random.split(key, 3)
        self.encoder = encoder = StateEncoder(config, space, scaling, keys=jax.random.split(encoder_key))
        layer = eqx.nn.Linear(config.code_dim, encoder.hidden_dim, key=code_key)
        # Weights are uniform within 1 / √inputs, which would leave a third of a code's variance.
        self.code_layer = eqx.tree_at(lambda layer: layer.weight, layer, math.sqrt(3) * layer.weight)
        depth, width = config.policy_layers, encoder.hidden_dim
        self.head = eqx.nn.MLP(2 * width, encoder.actions.width, width, depth=depth, key=head_key)
        self.log_sigma = jnp.zeros(encoder.actions.spread.shape)

    def outputs(self, encoding: Float[Array, " hidden"], code: Float[Array, " D"]) -> Float[Array, " outputs"]:
        """Computes the logits of discrete actions, or the mean of (standardised) continuous ones."""
        read = self.code_layer(code.astype(encoding.dtype))
        return self.head(jnp.concatenate([encoding, read]))

    def evidence(self, encoding: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " hidden"]:
        """Computes the part of `log_prob` that does not depend on the code: the encoding itself."""
        del action
        return encoding

    def log_prob(
        self, evidence: Float[Array, " hidden"], action: Shaped[Array, "*A"], code: Float[Array, " D"]
    ) -> Float[Array, ""]:
        """Calculates log π(a | s, z), from the evidence of a frame."""
        return self.encoder.actions.log_prob(self.outputs(evidence, code), self.log_sigma, action)

    def act(self, encoding: Float[Array, " hidden"], code: Float[Array, " D"]) -> Shaped[Array, "*A"]:
        """Returns the most probable action under a code."""
        return self.encoder.actions.most_probable(self.outputs(encoding, code))
