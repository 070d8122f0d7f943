"""Draws walls of a grid world: a maze by recursive backtracking, then thinned.

The paper, appendix "Environment implementation details": walls are placed "using a recursive backtracking algorithm for
unbiased maze generation", then subsampled "using a sampling rate of 0.2"; the enclosing row and column are not.
`docs/worlds.md` says how a maze, whose side is odd, fits a grid whose side is even.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

_NORTH, _EAST, _SOUTH, _WEST = range(4)
_UNVISITED, _ROOT = 4, 5


def lattice_dim(size: int) -> int:
    """Returns the number of maze cells along one side of a grid: they stand two apart inside the border."""
    return (size - 1) // 2


def spanning_tree(key: PRNGKeyArray, lattice: int) -> Int[Array, "lattice lattice"]:
    """Draws a depth-first spanning tree: for each lattice cell the direction of its parent, `_ROOT` at the start."""
    start_key, choice_key = jax.random.split(key)
    num_cells = lattice * lattice
    start = jax.random.randint(start_key, (), 0, num_cells, jnp.int32)
    # The search crosses each of the num_cells - 1 passages once forwards and once back.
    # A number below 12 modulo 1, 2, 3 or 4 is uniform, so that the choice among neighbours is unbiased.
    draws = jax.random.randint(choice_key, (2 * (num_cells - 1),), 0, 12, jnp.int32)
    cells = jnp.arange(num_cells, dtype=jnp.int32)
    row_offset, column_offset = jnp.array([-1, 0, 1, 0], jnp.int32), jnp.array([0, 1, 0, -1], jnp.int32)

    def visit(carry: tuple[Array, Array], draw: Int[Array, ""]) -> tuple[tuple[Array, Array], None]:
        cell, parent = carry
        rows, columns = cell // lattice + row_offset, cell % lattice + column_offset
        inside = (rows >= 0) & (rows < lattice) & (columns >= 0) & (columns < lattice)
        neighbours = jnp.where(inside, rows * lattice + columns, cell)
        free = inside & (parent[neighbours] == _UNVISITED)
        num_free = jnp.sum(free, dtype=jnp.int32)
        rank = jnp.cumsum(free, dtype=jnp.int32) - 1
        forward = jnp.argmax(free & (rank == draw % jnp.maximum(num_free, 1))).astype(jnp.int32)
        blocked = num_free == 0
        back = parent[cell]
        direction = jnp.where(blocked, jnp.minimum(back, _WEST), forward)
        stay = blocked & (back == _ROOT)
        next_cell = jnp.where(stay, cell, neighbours[direction])
        opposite = (forward + 2) % 4
        parent = jnp.where((cells == next_cell) & ~blocked, opposite, parent)
        return (next_cell, parent), None

    parent = jnp.where(cells == start, jnp.int32(_ROOT), jnp.int32(_UNVISITED))
    (_, parent), _ = jax.lax.scan(visit, (start, parent), draws)
    return parent.reshape(lattice, lattice)


def carve(parent: Int[Array, "lattice lattice"]) -> Bool[Array, "side side"]:
    """Opens every lattice cell of a maze, and the cell between each lattice cell and its parent."""
    lattice = parent.shape[0]
    side = 2 * lattice - 1
    south_open = (parent[:-1] == _SOUTH) | (parent[1:] == _NORTH)
    east_open = (parent[:, :-1] == _EAST) | (parent[:, 1:] == _WEST)
    # Interleave: lattice cells and the passages between them along a row, then the rows and the passages between rows.
    along_rows = jnp.stack([jnp.ones_like(parent, bool), jnp.pad(east_open, ((0, 0), (0, 1)))], axis=-1)
    between_rows = jnp.stack([jnp.pad(south_open, ((0, 1), (0, 0))), jnp.zeros_like(parent, bool)], axis=-1)
    return jnp.stack([along_rows, between_rows], axis=1).reshape(2 * lattice, 2 * lattice)[:side, :side]


def draw_walls(key: PRNGKeyArray, size: int, wall_rate: float) -> tuple[Bool[Array, "size size"], Int[Array, ""]]:
    """Draws a maze inside a closed border, in which each inner wall is kept with probability `wall_rate`.

    The second value is a cell (row * size + column) that is open and connected to the whole maze.
    """
    tree_key, offset_key, thin_key = jax.random.split(key, 3)
    maze = carve(spanning_tree(tree_key, lattice_dim(size)))
    spare = size - 2 - maze.shape[0]
    # The spare row and column of an even grid fall on either side with equal chance.
    row, column = jax.random.randint(offset_key, (2,), 1, 2 + spare, jnp.int32)
    solid = jnp.ones((size, size), bool)
    maze_walls = jax.lax.dynamic_update_slice(solid, ~maze, (row, column))
    kept = jax.random.uniform(thin_key, (size - 2, size - 2), jnp.float32) < wall_rate
    return maze_walls & jnp.pad(kept, 1, constant_values=True), row * size + column
