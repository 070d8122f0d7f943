import copy
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.data.strategies import Recipe, recipes

DEMOS = Demonstrations.from_arrays(
    [np.arange(6).reshape(3, 2), np.arange(8).reshape(4, 2), np.arange(4).reshape(2, 2)],
    [[0, 1], [2, 1, 0], [1]],
    num_actions=4,
    boundaries=[[1], [], []],
    codes=[[7, 8], [9], [7]],
)


def same(one: Any, other: Any) -> bool:
    """Equality of records of arrays."""
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    return one is other if one is None else np.array_equal(one, other)


def test_attributes():
    assert len(DEMOS) == 3
    assert DEMOS.lengths.tolist() == [2, 3, 1]
    assert [part.tolist() for part in DEMOS.actions] == [[0, 1], [2, 1, 0], [1]]
    assert DEMOS.observations[2].tolist() == [[0, 1], [2, 3]]
    assert (DEMOS.observation_kind, DEMOS.observation_shape) == ("vector", (2,))
    assert (DEMOS.action_kind, DEMOS.num_actions, DEMOS.action_dim) == ("discrete", 4, None)
    assert (DEMOS.num_frames, DEMOS.num_steps, DEMOS.max_length) == (9, 6, 3)


def test_attributes_of_continuous_actions():
    demos = Demonstrations.from_arrays([np.zeros((2, 3, 4, 5))], [np.zeros((1, 2))])
    assert (demos.observation_kind, demos.observation_shape) == ("grid", (3, 4, 5))
    assert (demos.action_kind, demos.num_actions, demos.action_dim) == ("continuous", None, 2)


def test_an_integer_gives_one_demonstration():
    demo = DEMOS.reveal()[0]
    assert len(demo) == 2
    assert demo.observations.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert demo.actions.tolist() == [0, 1]
    assert demo.truth.boundaries is not None
    assert demo.truth.boundaries.tolist() == [1]
    assert demo.truth.codes is not None
    assert demo.truth.codes.tolist() == [7, 8]
    assert demo.labels is not None
    assert demo.labels.boundaries.tolist() == [0, 1]
    assert demo.labels.codes.tolist() == [7, 8]
    assert same(DEMOS[np.int32(-1)], DEMOS[2])
    unknown = DEMOS.with_truth()[0].truth
    assert (unknown.boundaries, unknown.codes) == (None, None)
    assert DEMOS[0].labels is None
    only_codes = DEMOS.with_truth(codes=[[1], [1], [1]])[0].truth
    assert only_codes.boundaries is None


@given(recipes(), st.data())
def test_indexing_is_indexing_of_the_list_of_episodes(recipe: Recipe, data: st.DataObject):
    demos = recipe.build()
    episodes = list(demos)
    order = data.draw(st.lists(st.integers(-len(demos), len(demos) - 1), min_size=1, max_size=6))
    for got, i in zip(demos[order], order, strict=True):
        assert same(got, episodes[i])
    first = data.draw(st.integers(0, len(demos) - 1))
    for got, expected in zip(demos[first:], episodes[first:], strict=True):
        assert same(got, expected)
    for got, expected in zip(demos[::-1], episodes[::-1], strict=True):
        assert same(got, expected)
    assert demos[np.arange(len(demos))] == demos[np.ones(len(demos), bool)] == demos[:] == demos


def test_a_mask_selects():
    assert DEMOS[np.array([True, False, True])] == DEMOS[[0, 2]]
    assert DEMOS[DEMOS.lengths > 1].lengths.tolist() == [2, 3]


def test_bad_indices():
    for index in (3, -4, [0, 3]):
        with pytest.raises(IndexError, match="out of"):
            DEMOS[index]
    with pytest.raises(IndexError, match="one axis"):
        DEMOS[np.array([[0, 1]])]
    for empty in (slice(2, 2), [], DEMOS.lengths > 9):
        with pytest.raises(DemonstrationError, match="selects none of the 3 episodes"):
            DEMOS[empty]


def test_nothing_can_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEMOS.storage = DEMOS.storage
    with pytest.raises(ValueError, match="read-only"):
        DEMOS.observations[0][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        DEMOS.lengths[0] = 1


def test_from_arrays_copies():
    actions = np.array([0, 1], np.int32)
    demos = Demonstrations.from_arrays(None, [actions])
    actions[0] = 1
    assert demos.actions[0].tolist() == [0, 1]


EPISODE_NUMBERS = Demonstrations.from_arrays(None, [[i] * (i % 4 + 1) for i in range(20)])


def numbers(demos: Demonstrations) -> list[int]:
    return [int(part[0]) for part in demos.actions]


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.8, 0.95])
def test_split_shares_everything_out(fraction: float):
    first, second = EPISODE_NUMBERS.split(fraction, seed=1)
    assert len(first) == round(20 * fraction)
    assert sorted(numbers(first) + numbers(second)) == list(range(20))
    assert numbers(first) + numbers(second) != list(range(20))
    assert EPISODE_NUMBERS.split(fraction, seed=1) == (first, second)
    assert EPISODE_NUMBERS.split(fraction, seed=2) != (first, second)
    assert first.num_actions == second.num_actions == 20


@pytest.mark.parametrize("fraction", [0.02, 0.99])
def test_split_refuses_an_empty_part(fraction: float):
    with pytest.raises(DemonstrationError, match=r"of 20 episodes is .* either side"):
        EPISODE_NUMBERS.split(fraction)


@pytest.mark.parametrize("fraction", [0.0, 1, 1.5, -0.5, np.nan, np.inf, "half", None])
def test_split_refuses_what_is_no_fraction(fraction: Any):
    with pytest.raises(DemonstrationError, match=r"fraction is .*; it must be a number above 0 and below 1"):
        EPISODE_NUMBERS.split(fraction)


def test_split_refuses_a_single_episode():
    with pytest.raises(DemonstrationError, match="only one episode, and a split needs two or more"):
        EPISODE_NUMBERS[:1].split(0.5)


@pytest.mark.parametrize("seed", [-1, 0.5, "one"])
def test_seeds_are_whole_numbers(seed: Any):
    with pytest.raises(DemonstrationError, match=f"seed is {seed!r}; use a whole number of at least 0"):
        EPISODE_NUMBERS.split(0.5, seed=seed)


@given(recipes(), st.data())
def test_concatenate_undoes_slicing(recipe: Recipe, data: st.DataObject):
    demos = recipe.build()
    cut = data.draw(st.integers(1, len(demos)))
    parts = [part for part in (slice(0, cut), slice(cut, None)) if part.start < len(demos)]
    assert Demonstrations.concatenate([demos[part] for part in parts]) == demos


def test_concatenate_takes_missing_labels_as_unknown():
    joined = Demonstrations.concatenate([DEMOS[:1], DEMOS[1:2].reveal()])
    assert joined.labels is not None
    assert [part.tolist() for part in joined.labels.codes] == [[-1, -1], [9, 9, 9]]
    assert [part.tolist() for part in joined.labels.boundaries] == [[-1, -1], [0, 0, 0]]
    assert joined.with_labels() == DEMOS[:2]


def test_concatenate_takes_missing_segment_codes_as_unknown():
    listed = DEMOS[1:2].with_labels(segment_codes=[[9, None]])
    for parts in ([DEMOS[:1], listed], [DEMOS[:1].reveal(), listed]):
        labels = Demonstrations.concatenate(parts).labels
        assert labels is not None
        assert labels.segment_codes is not None
        assert [part.tolist() for part in labels.segment_codes] == [[], [9, -1]]


def test_concatenate_refuses():
    def vectors(width: int, **options: Any) -> Demonstrations:
        return Demonstrations.from_arrays([np.zeros((3, width))], [[0, 1]], **options)

    with pytest.raises(DemonstrationError, match="nothing to concatenate"):
        Demonstrations.concatenate([])
    with pytest.raises(DemonstrationError, match=r"Part 1 has vector of 3 float32.*part 0 has vector of 2 float32"):
        Demonstrations.concatenate([vectors(2), vectors(3)])
    with pytest.raises(DemonstrationError, match=r"Part 2 has .*9 discrete actions.*same num_actions"):
        Demonstrations.concatenate([vectors(2), vectors(2), vectors(2, num_actions=9)])
    with pytest.raises(
        DemonstrationError, match=r"Part 1 has .*truth unknown; part 0 has .*codes known\..*with_truth\(\)"
    ):
        Demonstrations.concatenate([DEMOS, DEMOS.with_truth()])
    with pytest.raises(DemonstrationError, match=r"Part 1 has .*true boundaries known; part 0 has"):
        Demonstrations.concatenate([DEMOS, DEMOS.with_truth(boundaries=[[], [], []])])


@pytest.mark.parametrize(
    ("demos", "expected"),
    [
        (
            DEMOS,
            "Demonstrations(3 episodes, 1..3 steps, vector of 2 float32, 4 discrete actions, "
            "true boundaries and codes known)",
        ),
        (
            DEMOS[:1].with_truth(),
            "Demonstrations(1 episode, 2 steps, vector of 2 float32, 4 discrete actions, truth unknown)",
        ),
        (
            DEMOS[1:].reveal(fraction=0.5),
            "Demonstrations(2 episodes, 1..3 steps, vector of 2 float32, 4 discrete actions, "
            "true boundaries and codes known, labels in 1 episode)",
        ),
        (
            DEMOS.with_truth().with_labels(segment_codes=[[0, 1], None, None], codes=[None, None, [2]]),
            "Demonstrations(3 episodes, 1..3 steps, vector of 2 float32, 4 discrete actions, truth unknown, "
            "labels in 2 episodes)",
        ),
        (
            Demonstrations.from_arrays([np.zeros((2, 10, 10, 12), int)], [[0.5]], boundaries=[[]]),
            "Demonstrations(1 episode, 1 step, grid 10x10x12 uint8, continuous actions of width 1, "
            "true boundaries known)",
        ),
        (
            Demonstrations.from_arrays([[0, 1]], [[0]], codes=[[0]]),
            "Demonstrations(1 episode, 1 step, symbols, 1 discrete action, true codes known)",
        ),
        (
            Demonstrations.from_arrays(None, [[0]]),
            "Demonstrations(1 episode, 1 step, no states, 1 discrete action, truth unknown)",
        ),
    ],
)
def test_repr(demos: Demonstrations, expected: str):
    assert repr(demos) == expected


def test_equality_is_exact():
    again = Demonstrations.from_arrays(DEMOS.observations, DEMOS.actions, num_actions=4)
    assert again == DEMOS.with_truth()
    assert again != DEMOS
    assert again != again.with_labels(codes=[None, None, None])
    assert again != Demonstrations.from_arrays(DEMOS.observations, DEMOS.actions, num_actions=5)
    assert again != Demonstrations.from_arrays(DEMOS.observations, [[0, 1], [2, 1, 1], [1]], num_actions=4)
    assert again != [again]
    with pytest.raises(TypeError, match="unhashable"):
        hash(again)


def test_copies_are_equal():
    assert copy.deepcopy(DEMOS) == DEMOS


SYMBOLS = Demonstrations.from_arrays([[5, 6, 7], [8, 9]], [[1, 2], [3]])


def test_padded_by_hand():
    padded = SYMBOLS.padded()
    assert padded.observations.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert padded.actions.tolist() == [[1, 2], [3, 0]]
    assert padded.valid.tolist() == [[True, True], [True, False]]
    assert padded.lengths.tolist() == [2, 1]
    wider = SYMBOLS.padded(3)
    assert wider.observations.tolist() == [[5, 6, 7, 0], [8, 9, 0, 0]]
    assert wider.valid.tolist() == [[True, True, False], [True, False, False]]


def test_padded_is_a_tree_for_jax():
    assert jax.tree.map(jnp.asarray, SYMBOLS.padded()).valid.sum() == SYMBOLS.num_steps


def test_a_padding_shorter_than_the_data_is_refused():
    with pytest.raises(DemonstrationError, match=r"max_length is 1; use a whole number of at least 2"):
        SYMBOLS.padded(1)
    with pytest.raises(DemonstrationError, match=r"max_length is 2\.5; use a whole number"):
        SYMBOLS.padded(2.5)
