import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_il.data.ragged import Ragged, Storage

PARTS = [[10, 11], [], [20], [30, 31, 32]]


def ragged(parts: list[list[int]]) -> Ragged:
    return Ragged.pack([np.array(part, np.int32) for part in parts])


def lists(packed: Ragged) -> list[list[int]]:
    return [part.tolist() for part in packed.parts]


def test_parts_lie_end_to_end():
    packed = ragged(PARTS)
    assert packed.values.tolist() == [10, 11, 20, 30, 31, 32]
    assert packed.counts.tolist() == [2, 0, 1, 3]
    assert packed.starts.tolist() == [0, 2, 2, 3]
    assert packed.part_index.tolist() == [0, 0, 2, 3, 3, 3]
    assert lists(packed) == PARTS


def test_locate_finds_the_part_of_a_row_and_skips_empty_parts():
    packed = ragged(PARTS)
    assert [packed.locate(row) for row in range(6)] == [(0, 0), (0, 1), (2, 0), (3, 0), (3, 1), (3, 2)]


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5).flatmap(
        lambda parts: st.tuples(st.just(parts), st.lists(st.integers(0, len(parts) - 1), min_size=1, max_size=6))
    )
)
def test_take_is_indexing_of_the_list(drawn: tuple[list[list[int]], list[int]]):
    parts, indices = drawn
    assert lists(ragged(parts).take(np.array(indices))) == [parts[i] for i in indices]


def test_take_of_neighbours_is_a_view_and_of_others_a_copy():
    packed = ragged(PARTS)
    assert np.shares_memory(packed.take(np.array([0, 1, 2])).values, packed.values)
    assert not np.shares_memory(packed.take(np.array([2, 0])).values, packed.values)


def test_join_appends_parts():
    assert lists(Ragged.join([ragged(PARTS), ragged([[7]])])) == [*PARTS, [7]]


def test_padded_fills_with_zeros():
    assert ragged(PARTS).padded(3).tolist() == [[10, 11, 0], [0, 0, 0], [20, 0, 0], [30, 31, 32]]


def test_arrays_are_read_only_and_the_callers_array_is_not():
    values = np.arange(3)
    packed = Ragged(values, np.array([1, 2]))
    with pytest.raises(ValueError, match="read-only"):
        packed.parts[0][0] = 5
    with pytest.raises(ValueError, match="read-only"):
        packed.counts[0] = 5
    values[0] = 5


@pytest.mark.parametrize(
    "other",
    [
        Ragged(np.array([1, 2, 4], np.int32), np.array([1, 2])),
        Ragged(np.array([1, 2, 3], np.int32), np.array([2, 1])),
        Ragged(np.array([1, 2, 3], np.float32), np.array([1, 2])),
    ],
    ids=["values", "counts", "dtype"],
)
def test_equality(other: Ragged):
    one = Ragged(np.array([1, 2, 3], np.int32), np.array([1, 2]))
    assert one == Ragged(np.array([1, 2, 3], np.int32), np.array([1, 2]))
    assert one != other
    assert Storage(one, one) == Storage(one, one)
    assert Storage(one, one) != Storage(one, other)
    assert Storage(one, one) != Storage(one, one, num_actions=4)
    assert Storage(one, one) != Storage(one, one, true_codes=one)
