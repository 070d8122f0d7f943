"""The termination policy: when to stop, told from what has been seen so far (appendix "Termination policy").

It is built as the boundary network is, with parameters of its own: an LSTM over embedded observations, run once
for each segment behind the same soft masks, and two hidden layers on top. It learns to say 1 at the most probable
boundary argmax_t q(b_i = t | x) and 0 elsewhere.

Deviations: the action comes as it is, beside the normalised embedding of the state, where recognition embeds it and
normalises both. And to be used while acting it must not look ahead. The recognition model reads the action of step t
together with state t; here state t comes with the action that led to it, a_{t-1}, which is known on arriving. At the
first time of a segment that action belongs to the segment before: it is hidden by the mask of its own step, and is zero
while acting.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from compile_il.actions import ActionCoding
from compile_il.lstm import LSTMState
from compile_il.memory import remember, remember_all
from compile_il.networks import Embedding, Scaling, Space, make_embedding


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
        encodings = remember_all(self.cell, embedded, actions, masks, lengths)
        return jax.vmap(jax.vmap(jax.vmap(self.head)))(encodings).astype(masks.dtype)

    def begin(self, observation: Shaped[Array, "..."]) -> LSTMState:
        """State of the LSTM where a skill begins."""
        return remember(self.cell, None, self.embedding(observation), jnp.zeros((self.actions.width,)))

    def arrive(self, state: LSTMState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> LSTMState:
        """State of the LSTM after an action has led to an observation."""
        return remember(self.cell, state, self.embedding(observation), self.actions.vector(action))

    def is_done(self, state: LSTMState) -> Bool[Array, ""]:
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
