"""Describes observations and actions, as far as networks are built from it, and checks single ones."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.config import CompileError
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.ragged import describe_space
from compile_il.data.validation import INTEGERS, REALS, DemonstrationError, ObservationKind

MAX_CHANGES = 4096
"""Most steps of the data whose changes are kept, for effects to begin with."""
LEAST_SIDE = 5
"""Fewest rows and columns of a grid that two 3x3 convolutions need."""
MOST_SPARSE_NUMBERS = 100_000
"""Symbols and actions may be numbered up to here, however few of the numbers occur."""
LEAST_SHARE = 0.01
"""Least share of larger numbers that must occur: each has weights of its own, and costs memory and time."""
_LEAST_SPREAD = 1e-6
"""Columns that spread less than this, relative to their mean, are constants as float32 stores them."""


class Space(eqx.Module):
    """Kinds and sizes of observations and actions; enough to build networks for them."""

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

    def __str__(self) -> str:
        symbols = f"{self.num_symbols} symbols"
        return describe_space(self.observation_shape, self.num_actions, self.action_dim, "", symbols)


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


def sum_cells(observation: Any) -> Any:
    """Sums the cells of each channel of a grid; vectors, which have no cells, stay as they are."""
    return observation.sum(axis=(-3, -2)) if observation.ndim >= 3 else observation


def check_numbering(demos: Demonstrations) -> None:
    """Refuses large, sparse numbers of symbols and actions in data to learn from."""
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    num_symbols = int(frames.max()) + 1 if demos.observation_kind == "symbol" else 0
    for what, values, num_all in (("Observations", frames, num_symbols), ("Actions", actions, demos.num_actions or 0)):
        if num_all > MOST_SPARSE_NUMBERS and (num_different := len(np.unique(values))) < LEAST_SHARE * num_all:
            raise DemonstrationError(
                f"{what} are numbered up to {num_all - 1}, and only {num_different} different ones occur; each number "
                "up to the largest has weights of its own: renumber them from 0 with "
                "np.unique(values, return_inverse=True), over all episodes at once."
            )


def space_of(demos: Demonstrations) -> Space:
    """Makes the space of demonstrations; refuses grids that are too small for convolutions."""
    if demos.observation_kind == "grid" and min(demos.observation_shape[:2]) < LEAST_SIDE:
        shape = "x".join(map(str, demos.observation_shape))
        raise DemonstrationError(
            f"Observations are grids of {shape}: two convolutions need {LEAST_SIDE} rows and columns or more. Pad "
            "them, or if channels come first, put them last, with np.moveaxis(frames, 1, -1)."
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


def check_space(demos: Demonstrations, space: Space) -> None:
    """Refuses demonstrations in other spaces than that of training, where fewer symbols are no other space."""
    given = space_of(demos)
    names = ("observation_kind", "observation_shape", "num_actions", "action_dim")
    if any(getattr(given, name) != getattr(space, name) for name in names) or given.num_symbols > space.num_symbols:
        raise DemonstrationError(
            f"Observations and actions of these demonstrations ({given}) are not as in training ({space}): use "
            "demonstrations from the same spaces, or train on these."
        )


def scaling_of(demos: Demonstrations) -> Scaling:
    """Measures demonstrations; see `Scaling`."""
    nothing = np.zeros((0,), np.float32)
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    vectors, continuous = demos.observation_kind == "vector", demos.action_kind == "continuous"
    observation_moments = _moments(frames, of_constants=1.0) if vectors else (nothing, nothing)
    action_moments = _moments(actions, of_constants=0.0) if continuous else (nothing, nothing)
    largest = np.abs(frames.astype(np.float32)).max(axis=(0, 1, 2)) if demos.observation_kind == "grid" else nothing
    return Scaling(*map(jnp.asarray, (*observation_moments, *action_moments, _changes(demos), largest)))


def blank_scaling(space: Space) -> Scaling:
    """Makes a scaling with the shapes of one that `scaling_of` measures in a space, but for the number of changes."""
    shape = space.observation_shape  # of symbols, empty
    width = shape[0] if space.observation_kind == "vector" else 0
    num_channels = shape[-1] if space.observation_kind == "grid" else 0
    shapes = (width,), (width,), (space.action_dim,), (space.action_dim,), (1, sum(shape[-1:])), (num_channels,)
    return Scaling(*map(jnp.zeros, shapes))


def _changes(demos: Demonstrations) -> NDArray[np.float32]:
    """Returns the changes of the observation in at most `MAX_CHANGES` steps from all over the data."""
    if demos.observation_kind == "symbol":
        return np.zeros((0, 0), np.float32)
    frames, counts = demos.storage.observations.values, demos.storage.observations.counts
    steps = np.delete(np.arange(len(frames)), np.cumsum(counts) - 1)  # from a last frame nothing leads on
    some = steps[np.linspace(0, len(steps) - 1, min(len(steps), MAX_CHANGES)).astype(int)]
    return sum_cells(frames[some + 1].astype(np.float32)) - sum_cells(frames[some].astype(np.float32))


def _moments(values: NDArray[Any], *, of_constants: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns mean and spread of each column; constants get the spread `of_constants`."""
    mean, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    constant = spread <= _LEAST_SPREAD * np.abs(mean)
    return mean.astype(np.float32), np.where(constant, of_constants, spread).astype(np.float32)


def check_observation(observation: Any, space: Space) -> jax.Array:
    """Returns one observation of the space as an array; refuses anything else."""
    return _check(observation, "observation", space.observation_shape, space.num_symbols or None)


def check_action(action: Any, space: Space) -> jax.Array:
    """Returns one action of the space as an array; refuses anything else."""
    return _check(action, "action", (space.action_dim,), space.num_actions or None)


def _check(value: Any, what: str, shape: tuple[int, ...], limit: int | None) -> jax.Array:
    """Checks a whole number below a limit, or if there is none, finite numbers of a shape."""
    array = np.asarray(value)
    if limit is not None:
        if array.shape != () or not np.issubdtype(array.dtype, np.integer) or not 0 <= array < limit:
            plural = "symbols" if what == "observation" else "actions"
            raise CompileError(f"The {what} is {array}: the model was trained with {plural} 0 to {limit - 1}.")
    elif array.shape != shape or array.dtype.kind not in INTEGERS + REALS or not np.isfinite(array).all():
        raise CompileError(
            f"The {what} is of type {array.dtype} and shape {array.shape}: give finite numbers of shape {shape}, as in "
            "training."
        )
    return jnp.asarray(array)
