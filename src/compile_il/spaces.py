"""Single observations and actions as people hand them to skills: checked, since networks would take almost anything."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compile_il.networks import Space


def check_observation(observation: Any, space: Space) -> jax.Array:
    """Returns one observation of the space as an array; raises a clear error if it is none."""
    given = np.asarray(observation)
    if space.observation_kind == "symbol":
        return _whole_below(given, space.num_symbols, "observation", "symbols")
    _check_numbers(given, space.observation_shape, "observation")
    return jnp.asarray(given)


def check_action(action: Any, space: Space) -> jax.Array:
    """Returns one action of the space as an array; raises a clear error if it is none."""
    given = np.asarray(action)
    if space.num_actions:
        return _whole_below(given, space.num_actions, "action", "actions")
    _check_numbers(given, (space.action_dim,), "action")
    return jnp.asarray(given)


def _whole_below(given: np.ndarray, limit: int, what: str, plural: str) -> jax.Array:
    if given.shape != () or not np.issubdtype(given.dtype, np.integer) or not 0 <= given < limit:
        raise ValueError(f"The {what} is {given}: the model was trained with {plural} 0 to {limit - 1}.")
    return jnp.asarray(given)


def _check_numbers(given: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if given.shape != shape:
        raise ValueError(f"The {what} has shape {given.shape}: the model was trained with {shape}.")
    if not np.issubdtype(given.dtype, np.number) and given.dtype != bool:
        raise ValueError(f"The {what} has the type {given.dtype}: give numbers.")
    if not np.isfinite(given).all():
        raise ValueError(f"The {what} holds something that is not a finite number.")
