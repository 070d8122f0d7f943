"""What is remembered of states and of the actions that led to them, by policies and by the termination policy.

On arriving at s_t nothing has been done there yet: a state comes with a_{t-1}, and the first one with no action. A pass
for a segment hides what came before it, as the recognition model's do (paper, "RNN state masking").
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from compile_il.networks.lstm import LSTMState, blank_state, lstm_step, project
from compile_il.networks.lstm_kernel import masked_passes


def remember(
    cell: eqx.nn.LSTMCell,
    memory: LSTMState | None,
    embedded: Float[Array, " hidden"],
    led_here: Float[Array, " width"],
) -> LSTMState:
    """Adds one moment to the memory; at the first, there is no memory (None) and no action (zeros) that led here."""
    inputs = jnp.concatenate([embedded, led_here.astype(embedded.dtype)])
    return lstm_step(cell, memory or blank_state(cell), project(cell, inputs))


def remember_all(
    cell: eqx.nn.LSTMCell,
    embedded: Float[Array, "B times hidden"],
    actions: Float[Array, "B times width"],
    masks: Float[Array, "B M times"],
    lengths: Int[Array, " B"],
) -> Float[Array, "B M times memory"]:
    """What is remembered at each time of each segment; the passes of all segments are made at once.

    Args:
      cell: the LSTM.
      embedded: frames as vectors.
      actions: the action taken at each time, as vectors.
      masks: mask_i(t), that no earlier segment explains time t.
      lengths: steps that are real.
    """
    own = masks[..., None] * actions[:, None]  # of an earlier segment's actions nothing is seen
    led_here = jnp.pad(own[:, :, :-1], ((0, 0), (0, 0), (1, 0), (0, 0))).astype(embedded.dtype)
    seen = jnp.broadcast_to(embedded[:, None], (*masks.shape, embedded.shape[-1]))
    inputs = jnp.concatenate([seen, led_here], axis=-1).reshape(-1, masks.shape[-1], cell.input_size)
    num_real = jnp.repeat(lengths + 1, masks.shape[1])
    encodings = masked_passes(cell, project(cell, inputs), masks.reshape(-1, masks.shape[-1]), num_real)
    return encodings.reshape(*masks.shape, cell.hidden_size)
