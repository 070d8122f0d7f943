"""Sub-task policies π(a | s, z): one head for each of K skills, or one head that is fed a code of real numbers.

Where a state does not show everything, policies need a memory (the paper leaves that for later). It runs on through a
demonstration, from one skill to the next: what was seen of the world stays true when a new skill begins. Policies are
then functions of all that was seen so far and of nothing ahead, so that sums over segmentations are still exact. Or, in
relaxed inference, policies forget where a skill begins, and each segment is explained from what is seen in it alone.

How networks read and write actions: one-hot and logits where they are discrete, standardised where continuous.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from compile_il.config import Config
from compile_il.data.batch import Batch, to_padded
from compile_il.data.spaces import Scaling, Space
from compile_il.networks.embeddings import Embedding, make_embedding
from compile_il.networks.lstm import LSTMState, memory_in_segments, update_memory


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


class EncoderState(NamedTuple):
    """What policies know at one time: a vector to act on, and the state of their memory, if they have one."""

    seen: Float[Array, " hidden"]
    memory: LSTMState | None


class StateEncoder(eqx.Module):
    """Embeds observations, and remembers them if policies are recurrent: an LSTM over states and earlier actions."""

    embedding: Embedding
    actions: ActionCoding
    memory: eqx.nn.LSTMCell | None
    forgetful: bool = eqx.field(static=True)
    """Whether the memory is cleared where a skill begins."""
    hidden_dim: int = eqx.field(static=True)
    """Number of entries of the vector that policies act on, `EncoderState.seen`."""

    def __init__(
        self,
        space: Space,
        scaling: Scaling,
        *,
        num_maps: int,
        hidden_dim: int,
        sigma_floor: float,
        recurrent: bool,
        forgetful: bool,
        key: PRNGKeyArray,
    ):
        embed_key, memory_key = jax.random.split(key)
        self.embedding = make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=embed_key)
        self.actions = ActionCoding(space, scaling, sigma_floor)
        width = hidden_dim + self.actions.width
        self.memory = eqx.nn.LSTMCell(width, hidden_dim, key=memory_key) if recurrent else None
        self.forgetful = forgetful
        self.hidden_dim = hidden_dim

    def encode_all(self, batch: Batch, num_times: int) -> Float[Array, "B times hidden"]:
        """The vectors that policies act on at each time of each demonstration, where they remember all of it."""
        frames, taken = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        rows = jax.vmap(self.embedding)(frames), jax.vmap(self.actions.vector)(taken)
        embedded, vectors = to_padded(rows, batch, num_times)
        whole = jnp.ones((embedded.shape[0], 1, num_times))
        return self.see_segments(embedded, vectors, whole, jnp.asarray(batch.lengths))[:, 0]

    def see_segments(
        self,
        embedded: Float[Array, "B times hidden"],
        actions: Float[Array, "B times width"],
        masks: Float[Array, "B M times"],
        lengths: Int[Array, " B"],
    ) -> Float[Array, "B M times hidden"]:
        """The vectors that policies act on at each time of each segment, behind its mask; see `memory_in_segments`."""
        assert self.memory is not None, "without a memory, frames are seen one by one"
        return memory_in_segments(self.memory, embedded, actions, masks, lengths)

    def init(self, observation: Shaped[Array, "..."]) -> EncoderState:
        """The percept at a first observation, before which nothing was seen."""
        return self._update(observation, jnp.zeros((self.actions.width,)), None)

    def update(self, now: EncoderState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> EncoderState:
        """The percept after an action has led to an observation."""
        return self._update(observation, self.actions.vector(action), now.memory)

    def _update(
        self, observation: Shaped[Array, "..."], led_here: Float[Array, " width"], memory: LSTMState | None
    ) -> EncoderState:
        embedded = self.embedding(observation)
        if self.memory is None:
            return EncoderState(embedded, None)
        state = update_memory(self.memory, memory, embedded, led_here)
        return EncoderState(state.hidden.astype(embedded.dtype), state)


class SkillPolicies(eqx.Module):
    """K policies with separate heads on a shared embedding (appendix "Sub-task policies")."""

    eyes: StateEncoder
    heads: eqx.nn.MLP
    """The K heads, stacked along the first axis of each weight."""
    log_sigma: Float[Array, "K A"]
    num_skills: int = eqx.field(static=True)

    def __init__(self, eyes: StateEncoder, *, num_skills: int, num_layers: int, key: PRNGKeyArray):
        def make_head(key: PRNGKeyArray) -> eqx.nn.MLP:
            return eqx.nn.MLP(eyes.hidden_dim, eyes.actions.width, eyes.hidden_dim, depth=num_layers, key=key)

        self.eyes = eyes
        self.heads = eqx.filter_vmap(make_head)(jax.random.split(key, num_skills))
        self.log_sigma = jnp.zeros((num_skills, *eyes.actions.spread.shape))
        self.num_skills = num_skills

    @property
    def actions(self) -> ActionCoding:
        """How actions become vectors, and how outputs become probabilities of actions."""
        return self.eyes.actions

    def outputs(self, embedded: Float[Array, " hidden"]) -> Float[Array, "K outputs"]:
        """For each skill the logits of discrete actions, or the mean of (standardised) continuous ones."""
        return eqx.filter_vmap(lambda head: head(embedded))(self.heads)

    def log_probs(self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " K"]:
        """Log π_k(a | s) for each skill."""
        return self.actions.log_prob(self.outputs(embedded), self.log_sigma, action)

    def evidence(self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " K"]:
        """All that policies need of a frame before its code is known: here log π_k(a | s) of each skill."""
        return self.log_probs(embedded, action)

    def log_prob(
        self, evidence: Float[Array, " K"], action: Shaped[Array, "*A"], code: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Log π(a | s, z), from the evidence of a frame."""
        del action  # it is in the evidence
        return evidence[code]

    def act(self, embedded: Float[Array, " hidden"], skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action of a skill."""
        return self.actions.most_probable(self.outputs(embedded)[skill])


class CodePolicy(eqx.Module):
    """One policy for all codes, which reads a code through a linear layer (appendix, Gaussian latent variables)."""

    eyes: StateEncoder
    code_layer: eqx.nn.Linear
    head: eqx.nn.MLP
    log_sigma: Float[Array, " A"]

    def __init__(self, eyes: StateEncoder, code_layer: eqx.nn.Linear, *, num_layers: int, key: PRNGKeyArray):
        width = eyes.hidden_dim + code_layer.weight.shape[0]
        self.eyes, self.code_layer = eyes, code_layer
        self.head = eqx.nn.MLP(width, eyes.actions.width, eyes.hidden_dim, depth=num_layers, key=key)
        self.log_sigma = jnp.zeros(eyes.actions.spread.shape)

    @property
    def actions(self) -> ActionCoding:
        """How actions become vectors, and how outputs become probabilities of actions."""
        return self.eyes.actions

    def outputs(self, embedded: Float[Array, " hidden"], code: Float[Array, " D"]) -> Float[Array, " outputs"]:
        """The logits of discrete actions, or the mean of (standardised) continuous ones."""
        read = self.code_layer(code.astype(embedded.dtype))
        return self.head(jnp.concatenate([embedded, read]))

    def evidence(self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"]) -> Float[Array, " hidden"]:
        """All that the policy needs of a frame before its code is known: here the embedded frame itself."""
        del action
        return embedded

    def log_prob(
        self, evidence: Float[Array, " hidden"], action: Shaped[Array, "*A"], code: Float[Array, " D"]
    ) -> Float[Array, ""]:
        """Log π(a | s, z), from the evidence of a frame."""
        return self.actions.log_prob(self.outputs(evidence, code), self.log_sigma, action)

    def act(self, embedded: Float[Array, " hidden"], code: Float[Array, " D"]) -> Shaped[Array, "*A"]:
        """The most probable action under a code."""
        return self.actions.most_probable(self.outputs(embedded, code))


def make_skill_policies(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> SkillPolicies:
    """Returns untrained policies, one for each skill."""
    eyes_key, head_key = jax.random.split(key)
    eyes = make_encoder(config, space, scaling, eyes_key)
    return SkillPolicies(eyes, num_skills=config.num_skills, num_layers=config.policy_layers, key=head_key)


def make_encoder(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> StateEncoder:
    """Returns the untrained encoder that policies see states by."""
    sigma_floor = config.resolved().sigma_floor
    assert sigma_floor is not None, "settled"
    return StateEncoder(
        space,
        scaling,
        num_maps=config.num_maps,
        hidden_dim=config.hidden_dim,
        sigma_floor=sigma_floor,
        recurrent=config.recurrent,
        forgetful=config.forgetful,
        key=key,
    )
