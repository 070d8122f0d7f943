"""Sets of cells as bits, against the same sets as Python sets."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_il.worlds import bitboard as boards
from tests.twins.grid_twin import distances, neighbour

SIZE = 6
cells = st.tuples(st.integers(1, SIZE - 2), st.integers(1, SIZE - 2))
cell_sets = st.frozensets(cells, max_size=16)

flow_to = jax.jit(boards.flow_to)
connected_to = jax.jit(boards.connected_to)
from_indices = jax.jit(functools.partial(boards.from_indices, size=SIZE))


def dense(chosen: frozenset[tuple[int, int]]) -> np.ndarray:
    out = np.zeros((SIZE, SIZE), bool)
    for row, column in chosen:
        out[row, column] = True
    return out


def members(board: jax.Array) -> set[tuple[int, int]]:
    return {(int(row), int(column)) for row, column in np.argwhere(boards.to_cells(board))}


@given(cell_sets)
@settings(max_examples=50)
def test_round_trip(chosen: frozenset[tuple[int, int]]) -> None:
    board = boards.from_cells(jnp.array(dense(chosen)))
    assert members(board) == chosen
    for row in range(SIZE):
        for column in range(SIZE):
            assert bool(boards.contains(board, jnp.array(row * SIZE + column))) == ((row, column) in chosen)


@given(st.lists(st.tuples(cells, st.booleans()), min_size=5, max_size=5))
@settings(max_examples=50)
def test_from_indices_joins_repeated_cells(listed: list[tuple[tuple[int, int], bool]]) -> None:
    flat = jnp.array([row * SIZE + column for (row, column), _ in listed])
    board = from_indices(flat, jnp.array([included for _, included in listed]))
    assert members(board) == {cell for cell, included in listed if included}


@given(cell_sets)
@settings(max_examples=50)
def test_touching_looks_in_each_direction(chosen: frozenset[tuple[int, int]]) -> None:
    found = boards.touching(boards.from_cells(jnp.array(dense(chosen))))
    for direction in range(4):
        assert members(found[direction]) == {neighbour(cell, (direction + 2) % 4) for cell in chosen}


@given(st.frozensets(cells, min_size=1, max_size=8), cell_sets)
@settings(max_examples=100)
def test_flow_follows_the_first_shortest_path(
    goals: frozenset[tuple[int, int]], blocked: frozenset[tuple[int, int]]
) -> None:
    walls = np.ones((SIZE, SIZE), bool)
    walls[1:-1, 1:-1] = dense(blocked - goals)[1:-1, 1:-1]
    flow = flow_to(boards.from_cells(jnp.array(dense(goals))), boards.from_cells(jnp.array(~walls)))
    far = distances(walls.tolist(), goals)
    for cell, distance in far.items():
        nearer = [d for d in range(4) if distance > 0 and far.get(neighbour(cell, d)) == distance - 1]
        other_goal = [d for d in range(4) if distance == 0 and neighbour(cell, d) in goals]
        any_open = [d for d in range(4) if distance == 0 and neighbour(cell, d) in far]
        expected = (nearer or other_goal or any_open or [0])[0]
        assert int(flow.at(jnp.array(cell[0] * SIZE + cell[1]))) == expected


@given(cells, cell_sets)
@settings(max_examples=50)
def test_connected_is_what_a_search_reaches(start: tuple[int, int], blocked: frozenset[tuple[int, int]]) -> None:
    walls = np.ones((SIZE, SIZE), bool)
    walls[1:-1, 1:-1] = dense(blocked - {start})[1:-1, 1:-1]
    seen = connected_to(boards.from_cells(jnp.array(dense(frozenset([start])))), boards.from_cells(jnp.array(~walls)))
    assert members(seen) == set(distances(walls.tolist(), [start]))


def test_the_last_column_of_the_largest_board() -> None:
    last_column = np.zeros((boards.MAX_SIZE, boards.MAX_SIZE), bool)
    last_column[:, -1] = True
    assert (np.asarray(boards.to_cells(boards.from_cells(jnp.array(last_column)))) == last_column).all()
