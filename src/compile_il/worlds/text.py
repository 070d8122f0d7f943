"""Worlds as text, for terminals and for tests that read like film strips."""

import numpy as np
from numpy.typing import NDArray

from compile_il.worlds.drawing import arm_joints
from compile_il.worlds.reacher import LINK_LENGTH

WALL, FLOOR, PLAYER = "#", ".", "@"
OBJECT_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_PLOT_ROWS, _PLOT_COLUMNS = 21, 43
_PLOT_REACH = 2 * LINK_LENGTH


def grid_text(observation: NDArray[np.uint8]) -> str:
    """One character a cell: `#` wall, `.` floor, `@` the player, `A` an object of type 0, `B` of type 1, and so on."""
    num_types = observation.shape[-1] - 2
    picture = np.full(observation.shape[:2], FLOOR)
    for kind in range(num_types):
        picture[observation[..., kind] > 0] = OBJECT_LETTERS[kind % len(OBJECT_LETTERS)]
    picture[observation[..., num_types] > 0] = WALL
    picture[observation[..., num_types + 1] > 0] = PLAYER
    return "\n".join("".join(row) for row in picture)


def reacher_text(observation: NDArray[np.float32]) -> str:
    """Text of the arm from above: `+` shoulder, `o` elbow, `@` tip, a letter for each target (small once reached)."""
    picture = np.full((_PLOT_ROWS, _PLOT_COLUMNS), " ")
    for kind, (alpha, x, y) in enumerate(observation[:-2].reshape(-1, 3)):
        if alpha > 0 or x != 0 or y != 0:
            letter = OBJECT_LETTERS[kind % len(OBJECT_LETTERS)]
            _put(picture, x, y, letter if alpha > 0 else letter.lower())
    for point, letter in zip(arm_joints(observation[None])[0], ("+", "o", PLAYER), strict=True):
        _put(picture, point[0], point[1], letter)
    return "\n".join("".join(row) for row in picture)


def _put(picture: NDArray[np.str_], x: float, y: float, letter: str) -> None:
    row = round((_PLOT_REACH - y) / (2 * _PLOT_REACH) * (_PLOT_ROWS - 1))
    column = round((x + _PLOT_REACH) / (2 * _PLOT_REACH) * (_PLOT_COLUMNS - 1))
    picture[row, column] = letter
