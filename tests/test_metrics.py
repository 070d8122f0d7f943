"""Scores against cases worked by hand."""

import numpy as np
import pytest

from compile_il.metrics import boundary_accuracy, boundary_f1, score_boundaries


def lists(*rows: list[int]) -> list[np.ndarray]:
    return [np.array(row, np.int32) for row in rows]


def test_accuracy_compares_boundaries_of_the_same_number() -> None:
    assert boundary_accuracy(lists([3, 6], [2, 5]), lists([3, 7], [2, 5])) == 3 / 4
    assert boundary_accuracy(lists([4, 3]), lists([3, 4])) == 0


def test_a_missing_boundary_is_a_miss_and_one_too_many_moves_the_rest() -> None:
    assert boundary_accuracy(lists([3]), lists([3, 7])) == 1 / 2
    assert boundary_accuracy(lists([1, 3, 7]), lists([3, 7])) == 0
    assert boundary_accuracy(lists([]), lists([3])) == 0


def test_nothing_to_find() -> None:
    scores = score_boundaries(lists([], []), lists([], []))
    assert scores.boundary_accuracy == 1
    assert scores.f1 == 1
    assert scores.f1_tolerance_1 == 1
    assert scores.count_accuracy == 1


def test_f1_looks_at_positions_only() -> None:
    # 2 of 3 found are right, 2 of 4 true are found: 2 * (2/3 * 1/2) / (2/3 + 1/2) = 4/7.
    assert boundary_f1(lists([1, 3, 7]), lists([3, 7, 9, 11])) == pytest.approx(4 / 7)
    assert boundary_f1(lists([2]), lists([3])) == 0
    assert boundary_f1(lists([2]), lists([3]), tolerance=1) == 1


def test_a_boundary_may_match_several_as_in_the_paper() -> None:
    assert boundary_f1(lists([4]), lists([3, 5]), tolerance=1) == 1
    assert boundary_f1(lists([4]), lists([3, 6]), tolerance=1) == pytest.approx(2 / 3)  # precision 1, recall 1/2


def test_all_scores() -> None:
    scores = score_boundaries(lists([3, 6], [4]), lists([3, 7], [4, 8]))
    assert scores.boundary_accuracy == 2 / 4
    assert scores.f1 == pytest.approx(4 / 7)  # precision 2/3, recall 2/4
    assert scores.f1_tolerance_1 == pytest.approx(2 * 0.75 / 1.75)  # precision 3/3, recall 3/4
    assert scores.count_accuracy == 1 / 2
