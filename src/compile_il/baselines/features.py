"""Makes the vectors, one for each step, that change points and hidden Markov models take, as a practitioner would.

Observations s_t are flattened (symbols one-hot) and standardised over the training set. Where there are many columns,
as in grids, their first principal components replace them: hundreds of cells that hardly ever change would drown the
rest. Actions a_t, one-hot where they are discrete, follow, standardised as well.
"""

import dataclasses
from typing import Any, Literal, Self, get_args

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from compile_il.config import CompileError
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.spaces import Space, check_numbering, check_space, space_of

Reads = Literal["states", "actions", "both"]

MOST_ROWS = 8192
"""Most steps that principal components, and first guesses at clusters, are computed from."""
_LEAST_DEVIATION = 1e-6
"""Least standard deviation; columns (or components, relative to the first) that spread less are constant."""


@dataclasses.dataclass(frozen=True)
class View:
    """What a baseline looks at in each step of a demonstration."""

    reads: Reads = "both"
    """Whether to look at states, actions, or both."""
    relative: bool = False
    """Whether states are taken less the first one of their demonstration, which leaves what has changed since."""
    num_components: int = 32
    """Most principal components, which stand for states that have more columns than this."""

    def __post_init__(self) -> None:
        if self.reads not in get_args(Reads):
            raise CompileError(f'reads is {self.reads!r}: use "states", "actions" or "both".')
        if self.num_components < 1:
            raise CompileError(f"num_components is {self.num_components}: use at least 1.")


def views_for(demos: Demonstrations) -> list[View]:
    """Returns all views that there are to choose from; without states there is one."""
    reads: list[Reads] = [] if demos.observation_shape == (0,) else ["states", "both"]
    return [View("actions"), *(View(read, relative) for read in reads for relative in (False, True))]


@dataclasses.dataclass(frozen=True)
class Features:
    """Map from demonstrations to one vector for each step. Made by `Features.of`."""

    view: View
    space: Space
    state_scaling: Float[np.ndarray, "2 D"]
    """Mean and spread of each column."""
    components: Float[np.ndarray, "D C"]
    """Directions in the space of states, divided by the spread along them; the identity where columns are few."""
    action_scaling: Float[np.ndarray, "2 A"]

    @classmethod
    def of(cls, demos: Demonstrations, view: View) -> Self:
        """Learns means, spreads and components from a training set."""
        if view.reads == "states" and demos.observation_shape == (0,):
            raise DemonstrationError('These demonstrations have no states: pass reads="actions".')
        check_numbering(demos)
        space = space_of(demos)
        states = np.concatenate([_flat_states(frames[:-1], space, view.relative) for frames in demos.observations])
        scaling = _scaling(states)
        components = _components(_scale(states[:: -(-len(states) // MOST_ROWS)], scaling), view.num_components)
        return cls(view, space, scaling, components, _scaling(_flat_actions(demos.storage.actions.values, space)))

    def __call__(self, demos: Demonstrations) -> list[Float[np.ndarray, "T columns"]]:
        """Returns for each demonstration the vectors of its steps."""
        space, parts = self.space, []
        check_space(demos, space)
        if self.view.reads != "actions":
            states = (_flat_states(frames[:-1], space, self.view.relative) for frames in demos.observations)
            parts.append([_scale(rows, self.state_scaling) @ self.components for rows in states])
        if self.view.reads != "states":
            parts.append([_scale(_flat_actions(actions, space), self.action_scaling) for actions in demos.actions])
        return [np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)]


def _scaling(rows: NDArray[Any]) -> Float[np.ndarray, "2 D"]:
    """Returns mean and spread of each column; the spread is infinite where it is constant, which then becomes zero."""
    spread = rows.std(axis=0, dtype=np.float64)
    return np.stack([rows.mean(axis=0, dtype=np.float64), np.where(spread > _LEAST_DEVIATION, spread, np.inf)])


def _scale(rows: NDArray[Any], scaling: Float[np.ndarray, "2 D"]) -> Float[np.ndarray, "T D"]:
    return (rows - scaling[0]) / scaling[1]


def _components(rows: NDArray[np.float64], num_components: int) -> Float[np.ndarray, "D C"]:
    """Returns the first principal directions as columns, each divided by the spread along it."""
    num_rows, num_columns = rows.shape
    if num_columns <= num_components:
        return np.eye(num_columns)
    rows = rows - rows.mean(axis=0)
    variances, vectors = np.linalg.eigh(rows.T @ rows / num_rows)
    spreads, directions = np.sqrt(np.maximum(variances[::-1], 0.0)), vectors[:, ::-1]
    kept = min(num_components, int(np.sum(spreads > _LEAST_DEVIATION * spreads[0])))
    return directions[:, :kept] / spreads[:kept]


def _flat_states(frames: NDArray[Any], space: Space, relative: bool) -> NDArray[Any]:
    symbols = space.observation_kind == "symbol"
    flat = np.eye(space.num_symbols, dtype=np.float32)[frames] if symbols else frames.reshape(len(frames), -1)
    return flat.astype(np.float32) - flat[0] if relative else flat


def _flat_actions(actions: NDArray[Any], space: Space) -> NDArray[Any]:
    return np.eye(space.num_actions, dtype=np.float32)[actions] if space.num_actions else actions
