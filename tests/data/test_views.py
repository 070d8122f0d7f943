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


@given(recipes(), st.integers(0, 2))
def test_padded_holds_the_demonstrations(recipe: Recipe, more_steps: int):
    demos = recipe.build()
    T = demos.max_length + more_steps
    padded = demos.padded(T)
    for i, demo in enumerate(demos):
        np.testing.assert_array_equal(padded.observations[i, : len(demo) + 1], demo.observations, strict=True)
        np.testing.assert_array_equal(padded.actions[i, : len(demo)], demo.actions, strict=True)
        assert not padded.observations[i, len(demo) + 1 :].any()
        assert not padded.actions[i, len(demo) :].any()
        np.testing.assert_array_equal(padded.valid[i], np.arange(T) < len(demo))
    np.testing.assert_array_equal(padded.lengths, demos.lengths)


def test_padded_is_a_tree_for_jax():
    assert jax.tree.map(jnp.asarray, DEMOS.padded()).valid.sum() == DEMOS.num_steps


def test_shorter_than_the_data_is_refused():
    with pytest.raises(DemonstrationError, match="max_length is 1, shorter than the 2 steps of the longest episode"):
        DEMOS.padded(1)
    with pytest.raises(DemonstrationError, match=r"max_length is 2\.5; use a whole number"):
        DEMOS.padded(2.5)
