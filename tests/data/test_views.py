import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.data.strategies import Recipe, recipes

DEMOS = Demonstrations.from_arrays([[5, 6, 7], [8, 9]], [[1, 2], [3]])


def test_padded_by_hand():
    padded = DEMOS.padded()
    assert padded.observations.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert padded.actions.tolist() == [[1, 2], [3, 0]]
    assert padded.valid.tolist() == [[True, True], [True, False]]
    assert padded.lengths.tolist() == [2, 1]
    wider = DEMOS.padded(3)
    assert wider.observations.tolist() == [[5, 6, 7, 0], [8, 9, 0, 0]]
    assert wider.valid.tolist() == [[True, True, False], [True, False, False]]


def test_packed_by_hand():
    packed = DEMOS.packed(7, max_length=3)
    assert packed.frames.tolist() == [5, 6, 7, 8, 9, 0, 0]
    assert packed.frame_index.tolist() == [[0, 1, 2, 2], [3, 4, 4, 4]]
    assert packed.actions.tolist() == [[1, 2, 0], [3, 0, 0]]
    assert packed.valid.tolist() == [[True, True, False], [True, False, False]]
    assert packed.lengths.tolist() == [2, 1]


def test_packed_copies_no_frames_unless_it_appends_some():
    assert np.shares_memory(DEMOS.packed().frames, DEMOS.observations[0])


@given(recipes(), st.integers(0, 2), st.integers(0, 3))
def test_views_hold_the_demonstrations_and_agree_with_each_other(recipe: Recipe, more_steps: int, more: int):
    demos = recipe.build()
    T = demos.max_length + more_steps
    padded, packed = demos.padded(T), demos.packed(demos.num_frames + more, max_length=T)
    for i, demo in enumerate(demos):
        np.testing.assert_array_equal(padded.observations[i, : len(demo) + 1], demo.observations, strict=True)
        np.testing.assert_array_equal(padded.actions[i, : len(demo)], demo.actions, strict=True)
        assert not padded.observations[i, len(demo) + 1 :].any()
        assert not padded.actions[i, len(demo) :].any()
        np.testing.assert_array_equal(padded.valid[i], np.arange(T) < len(demo))
        repeated = packed.frames[packed.frame_index[i, len(demo) :]]
        np.testing.assert_array_equal(repeated, np.broadcast_to(demo.observations[-1], repeated.shape))
    frames = packed.frames[packed.frame_index]
    np.testing.assert_array_equal(frames[:, :-1][padded.valid], padded.observations[:, :-1][padded.valid], strict=True)
    np.testing.assert_array_equal(frames[:, 1:][padded.valid], padded.observations[:, 1:][padded.valid], strict=True)
    np.testing.assert_array_equal(packed.actions, padded.actions, strict=True)
    np.testing.assert_array_equal(packed.valid, padded.valid)
    np.testing.assert_array_equal(packed.lengths, demos.lengths)
    assert len(packed.frames) == demos.num_frames + more
    assert not packed.frames[demos.num_frames :].any()
    assert packed.frame_index.dtype == packed.lengths.dtype == np.int32


def test_views_are_trees_for_jax():
    assert jax.tree.map(jnp.asarray, DEMOS.padded()).valid.sum() == DEMOS.num_steps
    assert jax.tree.map(jnp.asarray, DEMOS.packed()).frames.shape == (5,)


def test_views_shorter_than_the_data_are_refused():
    with pytest.raises(DemonstrationError, match="max_length is 1, shorter than the 2 steps of the longest episode"):
        DEMOS.padded(1)
    with pytest.raises(DemonstrationError, match="max_length is 1"):
        DEMOS.packed(max_length=1)
    with pytest.raises(DemonstrationError, match=r"max_length is 2\.5; use a whole number"):
        DEMOS.padded(2.5)
    with pytest.raises(DemonstrationError, match="num_frames is 4, shorter than the 5 frames of all episodes"):
        DEMOS.packed(4)
