"""What networks read of a change: the same wherever it happens, nothing where nothing changes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.spaces import scaling_of, space_of
from compile_il.networks.embeddings import NUM_CELLS, NUM_FEATURES, ChangeRule, GridChange, VectorChange


def change_of(demos: Demonstrations) -> Any:
    return ChangeRule(space_of(demos), scaling_of(demos), 2, 4, key=jax.random.key(0)).change


def grids(num_rows: int = 9, num_columns: int = 8) -> Demonstrations:
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 2, (5, num_rows, num_columns, 3)).astype(np.uint8) for _ in range(2)]
    return Demonstrations.from_arrays(frames, [np.zeros(4, np.int64)] * 2, num_actions=2)


def grid_change() -> GridChange:
    demos = grids()
    change = change_of(demos)
    assert isinstance(change, GridChange)
    return change


def event(row: int, column: int) -> tuple[np.ndarray, np.ndarray]:
    """A thing beside a player vanishes, and the player takes its place."""
    before = np.zeros((9, 8, 3), np.uint8)
    before[row, column, 2] = before[row, column + 1, 0] = 1
    after = before.copy()
    after[row, column, 2] = after[row, column + 1, 0] = 0
    after[row, column + 1, 2] = 1
    return before, after


def test_an_event_looks_the_same_wherever_it_happens() -> None:
    change = eqx.filter_jit(grid_change())
    found = [change(*event(row, column)) for row, column in ((0, 0), (1, 6), (4, 3), (8, 5))]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-6)
    assert float(jnp.abs(found[0]).sum()) > 0
    backwards = change(*event(4, 3)[::-1])
    assert not np.allclose(found[0], backwards, atol=1e-3)


def test_things_far_from_a_change_make_no_difference() -> None:
    change, (before, after) = eqx.filter_jit(grid_change()), event(4, 3)
    expected = change(before, after)
    for frame in (before, after):
        frame[0, 0, 1] = frame[8, 7, 0] = 1
    np.testing.assert_allclose(change(before, after), expected, atol=1e-6)
    np.testing.assert_array_equal(change(before, before), np.zeros(2 * NUM_FEATURES))


def test_features_are_those_of_the_cells_that_change_most() -> None:
    change = grid_change()
    before, after = np.random.default_rng(1).normal(size=(2, 9, 8, 3)).astype(np.float32)
    moved = (after - before) / change.unit
    both = np.pad(np.concatenate([moved, before / change.unit], axis=-1), ((1, 1), (1, 1), (0, 0)))
    order = np.argsort(-np.abs(moved).sum(axis=-1), axis=None)[:NUM_CELLS]
    patches = [both[row : row + 3, column : column + 3].reshape(-1) for row, column in (divmod(c, 8) for c in order)]
    read = np.stack([np.asarray(change.cell(jnp.asarray(patch))) for patch in patches])
    expected = np.concatenate([read.max(axis=0), read.sum(axis=0)])
    np.testing.assert_allclose(change(jnp.asarray(before), jnp.asarray(after)), expected, rtol=1e-4, atol=1e-5)


def test_changes_of_vectors_are_scaled_by_those_of_the_data() -> None:
    rng = np.random.default_rng(0)
    frames = [np.cumsum(rng.normal(size=(7, 3)) * [1, 100, 0], axis=0) for _ in range(5)]
    demos = Demonstrations.from_arrays(frames, [np.zeros(6, np.int64)] * 5, num_actions=2)
    change = change_of(demos)
    assert isinstance(change, VectorChange)
    moved = np.concatenate([np.diff(frame, axis=0) for frame in frames])
    spread = np.sqrt((moved**2).mean(axis=0))
    spread[2] = 1  # a constant
    expected = moved[0] / spread
    got = change(jnp.asarray(frames[0][0]), jnp.asarray(frames[0][1]))
    np.testing.assert_allclose(got, [*expected, np.sqrt((expected**2).mean())], rtol=1e-4, atol=1e-5)
    gradient = jax.grad(lambda after: change(jnp.zeros(3), after)[-1])(jnp.zeros(3))
    assert np.isfinite(gradient).all()
