"""What demonstrations' observations and actions look like, and how large they are: what networks are built from.

Single observations and actions as people hand them to skills: checked, since networks would take almost anything.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import RENUMBER, DemonstrationError, ObservationKind, num_if_sparse


class Space(eqx.Module):
    """What observations and actions look like; enough to build networks for them."""

    observation_kind: ObservationKind
    observation_shape: tuple[int, ...]
    num_symbols: int
    """Number of symbols, one more than the largest in the data, where observations are symbols; else 0."""
    num_actions: int
    """Number of discrete actions, or 0 where actions are continuous."""
    action_dim: int
    """Width of continuous actions, or 0 where actions are discrete."""
    grid_unit: float = 1.0
    """The largest entry of grids in the data, which all are divided by; 255 in most images."""


class Scaling(eqx.Module):
    """Mean and spread of vectors and continuous actions in the data; empty where there are none."""

    observation_mean: Float[Array, " D"]
    observation_spread: Float[Array, " D"]
    action_mean: Float[Array, " A"]
    action_spread: Float[Array, " A"]
    changes: Float[Array, "N measured"]
    """Changes of vectors, or of the sums of a grid's channels, in some of the steps."""
    largest: Float[Array, " C"]
    """The largest magnitude of an entry in each channel of grids."""


def total(observation: Any) -> Any:
    """Sum over the cells of each channel of a grid; vectors, which have no cells, stay as they are."""
    return observation.sum(axis=(-3, -2)) if observation.ndim >= 3 else observation


MAX_CHANGES = 4096
"""Most steps of the data whose changes are kept, for effects to begin with."""


LEAST_SIDE = 5
"""Fewest rows and columns of a grid that two 3x3 convolutions need."""


MOST_UNSEEN_ACTIONS = 1_000_000
"""Most discrete actions of which data may have fewer than a hundredth: with more, a batch outgrows any memory."""


_LEAST_SPREAD = 1e-6
"""Columns that spread less than this, relative to their mean, are constants as float32 stores them."""


def check_numbering(demos: Demonstrations) -> None:
    """Refuses large, sparse numbers of symbols, and of actions more than can be learned about.

    For data that something is learned from. What a model segments may have any numbers that the model knows.
    """
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    if demos.observation_kind == "symbol" and (num_different := num_if_sparse(frames, int(frames.max()) + 1)):
        raise DemonstrationError(
            f"Observations are numbered up to {frames.max()}, and only {num_different} different symbols are among "
            f"them; each number up to the largest has weights of its own: {RENUMBER}."
        )
    if demos.num_actions is not None and (
        num_different := num_if_sparse(actions, demos.num_actions, MOST_UNSEEN_ACTIONS)
    ):
        raise DemonstrationError(
            f"num_actions is {demos.num_actions}, and only {num_different} different actions are in the data; each "
            f"of them all has weights of its own: {RENUMBER}, or lower num_actions to at most {MOST_UNSEEN_ACTIONS}."
        )


def space_of(demos: Demonstrations) -> Space:
    """What the demonstrations' observations and actions look like."""
    if demos.observation_kind == "grid" and min(demos.observation_shape[:2]) < LEAST_SIDE:
        shape = "x".join(map(str, demos.observation_shape))
        if min(demos.observation_shape[1:]) >= LEAST_SIDE:
            raise DemonstrationError(
                f"Observations are grids of {shape}, which look like images with their channels first: put them last, "
                "with np.moveaxis(frames, 1, -1)."
            )
        raise DemonstrationError(
            f"Observations are grids of {shape}: two convolutions need {LEAST_SIDE} rows and columns or more; pad them."
        )
    frames = demos.storage.observations.values
    largest = float(max(frames.max(), -float(frames.min()))) if demos.observation_kind == "grid" else 0.0
    return Space(
        observation_kind=demos.observation_kind,
        observation_shape=demos.observation_shape,
        num_symbols=int(frames.max()) + 1 if demos.observation_kind == "symbol" else 0,
        num_actions=demos.num_actions or 0,
        action_dim=demos.action_dim or 0,
        grid_unit=largest or 1.0,
    )


def scaling_of(demos: Demonstrations) -> Scaling:
    """Mean and spread of vectors and continuous actions, some changes of observations, and largest entries of grids."""
    nothing = np.zeros((0,), np.float32)
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    vectors, continuous = demos.observation_kind == "vector", demos.action_kind == "continuous"
    seen = _moments(frames, of_constants=1.0) if vectors else (nothing, nothing)
    done = _moments(actions, of_constants=0.0) if continuous else (nothing, nothing)
    largest = np.abs(frames.astype(np.float32)).max(axis=(0, 1, 2)) if demos.observation_kind == "grid" else nothing
    return Scaling(*map(jnp.asarray, (*seen, *done, _changes(demos), largest)))


def _changes(demos: Demonstrations) -> NDArray[np.float32]:
    """The changes of the observation in at most `MAX_CHANGES` steps from all over the data."""
    if demos.observation_kind == "symbol":
        return np.zeros((0, 0), np.float32)
    frames, counts = demos.storage.observations.values, demos.storage.observations.counts
    steps = np.delete(np.arange(len(frames)), np.cumsum(counts) - 1)  # from a last frame nothing leads on
    some = steps[np.linspace(0, len(steps) - 1, min(len(steps), MAX_CHANGES)).astype(int)]
    return total(frames[some + 1].astype(np.float32)) - total(frames[some].astype(np.float32))


def _moments(values: NDArray[Any], *, of_constants: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and spread of each column, whatever its unit; constants get the spread `of_constants`."""
    mean, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    constant = spread <= _LEAST_SPREAD * np.abs(mean)
    return mean.astype(np.float32), np.where(constant, of_constants, spread).astype(np.float32)


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
