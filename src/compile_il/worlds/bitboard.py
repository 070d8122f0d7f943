"""Stores sets of grid cells as bits, one machine word a row, so that a step of breadth-first search is a few shifts.

Bit c of word r says whether cell (r, c) is in the set. So the expert's planning is cheap enough to run for every fresh
demonstration of a training batch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

Board = UInt32[Array, " size"]
MAX_SIZE = 32
"""Largest number of cells along a side: a row has to fit into one 32-bit word."""


def from_cells(dense: Bool[Array, "size size"]) -> Board:
    """Makes a board of the cells that are true in a boolean grid; the inverse of `to_cells`."""
    weights = jnp.left_shift(jnp.uint32(1), jnp.arange(dense.shape[1], dtype=jnp.uint32))
    return jnp.sum(jnp.where(dense, weights, jnp.uint32(0)), axis=1, dtype=jnp.uint32)


def to_cells(board: Board) -> Bool[Array, "size size"]:
    """Makes a boolean grid of the cells that are in a board; the inverse of `from_cells`."""
    columns = jnp.arange(board.shape[0], dtype=jnp.uint32)
    return (board[:, None] >> columns) & 1 == 1


def from_indices(cells: Int[Array, " n"], included: Bool[Array, " n"], size: int) -> Board:
    """Makes a board of those flat cell indices (row * size + column) that are included."""
    row, column = jnp.divmod(cells, size)
    bits = jnp.where(included, jnp.left_shift(jnp.uint32(1), column.astype(jnp.uint32)), jnp.uint32(0))
    on_row = row[:, None] == jnp.arange(size)
    # Cells may repeat, so the words are joined by "or", not added.
    return jax.lax.reduce(jnp.where(on_row, bits[:, None], jnp.uint32(0)), jnp.uint32(0), jax.lax.bitwise_or, (0,))


def contains(board: Board, cell: Int[Array, ""]) -> Bool[Array, ""]:
    """Returns whether a flat cell index is in a board."""
    size = board.shape[0]
    return (board[cell // size] >> (cell % size).astype(jnp.uint32)) & 1 == 1


def touching(board: Board) -> UInt32[Array, "4 size"]:
    """Returns the cells whose neighbour in a direction is in `board`, as one board for each direction."""
    nothing = jnp.zeros((1,), jnp.uint32)
    north = jnp.concatenate([nothing, board[:-1]])
    south = jnp.concatenate([board[1:], nothing])
    return jnp.stack([north, board >> 1, south, board << 1])


class Directions(NamedTuple):
    """One of the four directions for each cell of a set, as the two bits of its number."""

    low: Board
    high: Board

    def at(self, cell: Int[Array, ""]) -> Int[Array, ""]:
        """Returns the direction stored for a flat cell index, 0 to 3."""
        return contains(self.low, cell).astype(jnp.int32) + 2 * contains(self.high, cell).astype(jnp.int32)


def first_direction(candidates: UInt32[Array, "4 size"]) -> Directions:
    """Finds for each cell the first of the four directions in which it is a candidate."""
    north, east, south, west = candidates
    not_north_or_east = ~(north | east)
    return Directions(
        low=(east & ~north) | (west & ~south & not_north_or_east),
        high=(south | west) & not_north_or_east,
    )


def flow_to(goals: Board, open_cells: Board) -> Directions:
    """Finds for each open cell the first direction that starts a shortest path to the nearest goal.

    Breadth-first search from the goals outwards. A cell that the wave reaches from several sides at once has several
    shortest paths; it takes the first in the order N, E, S, W. On a goal itself the flow leads to another goal beside
    it, else to the first open neighbour: the way to turn round when a thing can only be picked up from beside it.
    """
    to_goal = touching(goals) & open_cells
    to_open = touching(open_cells) & goals
    beside_goal = to_goal[0] | to_goal[1] | to_goal[2] | to_goal[3]
    at_goal = first_direction((to_goal & goals) | (to_open & ~beside_goal))

    def spread(wave: tuple[Board, Board, Directions]) -> tuple[Board, Board, Directions]:
        seen, frontier, flow = wave
        candidates = touching(frontier) & open_cells & ~seen
        reached = candidates[0] | candidates[1] | candidates[2] | candidates[3]
        step = first_direction(candidates)
        return seen | reached, reached, Directions(flow.low | step.low, flow.high | step.high)

    return jax.lax.while_loop(lambda wave: jnp.any(wave[1] != 0), spread, (goals, goals, at_goal))[2]


def connected_to(start: Board, open_cells: Board) -> Board:
    """Returns the open cells that can be reached from the start."""

    def grow(wave: tuple[Board, Board]) -> tuple[Board, Board]:
        seen, _ = wave
        north, east, south, west = touching(seen)
        return seen | ((north | east | south | west) & open_cells), seen

    seen, _ = jax.lax.while_loop(lambda wave: jnp.any(wave[0] != wave[1]), grow, (start, jnp.zeros_like(start)))
    return seen
