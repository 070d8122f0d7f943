"""The grid world seen through a window: the player sees the cells around it, and not the whole board.

Levels, rules and experts are those of the grid world, so what one loses by not seeing can be measured: the expert still
knows the board. The paper leaves worlds that are only partly seen for future work.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from compile_il.worlds.grid import GridLevel, GridState, GridWorld
from compile_il.worlds.world import check


@dataclasses.dataclass(frozen=True)
class GridWindowWorld(GridWorld):
    """Options of the grid world seen through a window: those of the grid world, and how far the player sees."""

    window: int = 5
    """Number of cells along a side of the window, with the player in the middle; odd."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # From any inner cell to the border and back: beyond it lies nothing to see.
        most = 2 * self.size - 3
        check(
            self.window % 2 == 1 and 3 <= self.window <= most,
            f"window is {self.window}",
            f"use an odd number of cells, 3 to {most}, so that the player has a middle to stand in",
        )

    def observe(self, level: GridLevel, state: GridState) -> UInt8[Array, "window window channels"]:
        """Observation of a state: the grid world's channels of cells around the player; beyond the board are walls."""
        around = jnp.arange(self.window) - self.window // 2
        row, column = jnp.divmod(state.player, self.size)
        rows, columns = jnp.repeat(row + around, self.window), jnp.tile(column + around, self.window)
        on_board = (rows >= 0) & (rows < self.size) & (columns >= 0) & (columns < self.size)
        # No object and no player stands on cell -1.
        cells = jnp.where(on_board, rows * self.size + columns, -1)
        walls = ~on_board | level.walls.reshape(-1)[cells]
        seen = self._look_at(cells, walls, level, state)
        return seen.reshape(self.window, self.window, self.num_types + 2)
