"""Scores against cases worked by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from compile_il.evaluation.metrics import (
    boundary_accuracy,
    boundary_f1,
    match_labels,
    mean_iou,
    normalised_mutual_information,
    score_boundaries,
    score_labels,
    segmental_f1,
    shuffled_labels,
    step_labels,
    summarise,
)


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


def test_the_paper_counts_a_prediction_at_the_end() -> None:
    """Of ten steps, with two segments left empty: 2 of 3 predictions are right there, and 2 of 2 here."""
    assert boundary_f1(lists([3, 7, 10, 10]), lists([3, 7])) == pytest.approx(4 / 5)
    assert boundary_f1(lists([3, 7]), lists([3, 7])) == 1


def test_all_scores() -> None:
    scores = score_boundaries(lists([3, 6], [4]), lists([3, 7], [4, 8]))
    assert scores.boundary_accuracy == 2 / 4
    assert scores.f1 == pytest.approx(4 / 7)  # precision 2/3, recall 2/4
    assert scores.f1_tolerance_1 == pytest.approx(2 * 0.75 / 1.75)  # precision 3/3, recall 3/4
    assert scores.count_accuracy == 1 / 2


def test_labels_of_steps() -> None:
    found = step_labels(lists([2, 3], []), lists([7, 1, 7], [4]), [5, 2])
    np.testing.assert_array_equal(np.concatenate(found), [7, 7, 1, 7, 7, 4, 4])


def test_agreement_is_that_of_the_best_names() -> None:
    # Skill 5 is type 0 in 3 steps and type 1 in 1, skill 2 is type 0 in 1 and type 1 in 2: 5 of 7 agree.
    found, true = lists([5, 5, 5, 2], [5, 2, 2]), lists([0, 0, 0, 0], [1, 1, 1])
    assert score_labels(found, true).agreement == 5 / 7
    np.testing.assert_array_equal(np.concatenate(match_labels(found, true)), [0, 0, 0, 1, 0, 1, 1])


def test_chance_is_what_labels_reach_that_say_nothing() -> None:
    rng = np.random.default_rng(0)
    true = [np.repeat(rng.permutation(4), rng.integers(1, 6, 4)) for _ in range(200)]
    perfect, nothing = score_labels(true, true), score_labels(shuffled_labels(true, seed=99), true)
    assert perfect.agreement == 1
    assert 0.25 < perfect.agreement_by_chance < 0.3
    assert perfect.nmi_by_chance < 0.02
    assert nothing.agreement == pytest.approx(perfect.agreement_by_chance, abs=0.03)
    few = score_labels(true[:4], true[:4])
    assert few.nmi_by_chance > 0.1, "a few demonstrations look as if they agreed"


def test_labels_are_dealt_out_to_the_same_segments() -> None:
    given = lists([0, 0, 1, 2, 2, 2], [3, 0, 0])
    dealt = shuffled_labels(given, seed=0)
    spans = [[0, 0, 1, 2, 2, 2], [0, 1, 1]]
    names = [part[np.unique(span, return_index=True)[1]] for part, span in zip(dealt, spans, strict=True)]
    for part, span, name in zip(dealt, spans, names, strict=True):
        np.testing.assert_array_equal(part, name[span])
    assert sorted(np.concatenate(names)) == [0, 0, 1, 2, 3]
    orders = {tuple(np.concatenate(shuffled_labels(given, seed))) for seed in range(10)}
    assert len(orders) > 5


def test_agreement_weighs_all_pairs_at_once() -> None:
    # Taking the best pair first, skill 0 for type 0 (4 steps), would leave nothing for skill 1: 4 of 10 agree.
    found, true = lists([0] * 7 + [1] * 3), lists([0] * 4 + [1] * 3 + [0] * 3)
    assert score_labels(found, true).agreement == 6 / 10


def test_a_skill_without_a_type_is_never_right() -> None:
    for first, second in ((0, 3), (-1, 3), (-2, -1)):
        found, true = lists([0, 1, 2, 2]), lists([first, first, second, second])
        assert score_labels(found, true).agreement == 3 / 4
        (matched,) = match_labels(found, true)
        assert len(np.unique(matched)) == 3
        assert sum(np.isin(matched, [first, second])) == 3


def test_skills_without_a_type_stay_apart() -> None:
    """Lest two of them, one after the other, became one segment."""
    (matched,) = match_labels(lists([2, 0, 1, 0, 0]), lists([5, 5, 5, 5, 5]))
    assert matched[[1, 3, 4]].tolist() == [5, 5, 5]
    assert len({*matched[[0, 2]], 5}) == 3


def test_iou_counts_steps_of_each_label() -> None:
    # Label 0: 2 in common of 4 in either; label 1: 1 of 4; label 9 is only found, and is no class of its own.
    assert mean_iou(lists([0, 0, 0, 1], [1, 9]), lists([0, 0, 1, 1], [0, 1])) == (2 / 4 + 1 / 4) / 2


def test_segments_are_found_if_they_overlap_enough() -> None:
    true = lists([0] * 4 + [1] * 6)
    found = lists([0] * 2 + [1] * 8)  # overlaps are 2/4 and 6/8
    assert segmental_f1(found, true, overlap=0.5) == 1
    assert segmental_f1(found, true, overlap=0.6) == 1 / 2
    assert segmental_f1(found, true, overlap=0.76) == 0


def test_segments_count_once_and_only_with_their_label() -> None:
    true = lists([0] * 6)
    # Three segments are found for one, and only one can be right: precision 1/3, recall 1.
    assert segmental_f1(lists([0, 0, 0, 1, 0, 0]), true, overlap=0.25) == pytest.approx(2 * (1 / 3) / (1 / 3 + 1))
    assert segmental_f1(lists([1] * 6), true, overlap=0.1) == 0


def test_a_segment_is_compared_with_the_one_it_shares_most_with_used_or_not() -> None:
    # Both found segments of label 0 share most with the first true one, 2/7 and 4/10; the second shares 2/7 with the
    # last one, which must not count as a hit in place of the one that is used.
    true = lists([0] * 7 + [1] + [0] * 2)
    found = lists([0] * 2 + [1] + [0] * 7)
    assert segmental_f1(found, true, overlap=0.25) == pytest.approx(2 * 1 / (3 + 3))


def test_segments_do_not_reach_into_other_demonstrations() -> None:
    assert segmental_f1(lists([0, 0], [0, 0]), lists([0, 0], [0, 0]), overlap=1.0) == 1
    # One of two found, one of three true: 2 * 1/2 * 1/3 / (5/6).
    assert segmental_f1(lists([0, 0], [0, 0]), lists([0, 0], [1, 2]), overlap=0.5) == pytest.approx(2 / 5)


ragged = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=9), min_size=1)


def apart(pairs: list[list[tuple[int, int]]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return lists(*([a for a, _ in row] for row in pairs)), lists(*([b for _, b in row] for row in pairs))


@given(ragged, st.permutations(range(5)))
def test_how_skills_are_numbered_changes_nothing(pairs: list[list[tuple[int, int]]], names: list[int]) -> None:
    found, true = apart(pairs)
    renamed = [np.array(names, np.int32)[part] for part in found]
    first, second = score_labels(found, true), score_labels(renamed, true)
    # Of matchings that agree equally often, either may be taken, and the other scores may then differ.
    np.testing.assert_allclose(first[:2], second[:2], atol=1e-12)
    assert all(0 <= score <= 1 for score in (*first, *second))


@given(ragged, st.permutations(range(5)))
def test_perfect_labels_have_perfect_scores(pairs: list[list[tuple[int, int]]], names: list[int]) -> None:
    _, true = apart(pairs)
    renamed = [np.array(names, np.int32)[part] for part in true]
    *perfect, _, _ = score_labels(renamed, true)  # but for what they would be by chance
    np.testing.assert_allclose(perfect, 1.0)


@given(ragged)
def test_information_and_agreement_as_in_scikit_learn(pairs: list[list[tuple[int, int]]]) -> None:
    found, true = apart(pairs)
    ours, theirs = np.concatenate(found), np.concatenate(true)
    expected = normalized_mutual_info_score(theirs, ours)
    assert normalised_mutual_information(found, true) == pytest.approx(expected, abs=1e-9)
    table = contingency_matrix(ours, theirs)
    best = max(sum(table[rows, columns]) for rows, columns in every_matching(*table.shape))
    assert score_labels(found, true).agreement == pytest.approx(best / len(theirs))


def every_matching(num_rows: int, num_columns: int) -> Any:
    """All ways to pair rows with columns, as many as there can be."""
    if num_rows > num_columns:
        return ((columns, rows) for rows, columns in every_matching(num_columns, num_rows))
    return ((list(range(num_rows)), list(p)) for p in itertools.permutations(range(num_columns), num_rows))


def test_independent_labels_share_no_information() -> None:
    assert normalised_mutual_information(lists([0, 0, 1, 1]), lists([0, 1, 0, 1])) == pytest.approx(0, abs=1e-12)
    assert normalised_mutual_information(lists([0, 0]), lists([0, 1])) == 0


@pytest.mark.parametrize(
    ("found", "true", "message"),
    [
        ([np.zeros((3, 2))], lists([0, 0, 0]), r"demonstration 0 are float64 of shape \(3, 2\), not .*Gaussian codes"),
        (lists([0, 0]), lists([0, 0, 0]), r"Demonstration 0 has 2 predicted labels and 3 true ones"),
        (lists([0], [1]), lists([0]), r"labels of 2 and of 1 demonstrations"),
        ([], [], r"labels of 0 and of 0"),
    ],
)
def test_labels_that_cannot_be_compared(found: Any, true: Any, message: str) -> None:
    for score in (score_labels, mean_iou, normalised_mutual_information):
        with pytest.raises(ValueError, match=message):
            score(found, true)


def test_an_overlap_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"overlap is 50: use a share"):
        segmental_f1(lists([0]), lists([0]), overlap=50)


def test_a_summary_of_seeds() -> None:
    summary = summarise([0.9, 0.7, 0.8])
    assert summary.mean == pytest.approx(0.8)
    assert summary.std == pytest.approx(0.1)  # over n - 1
    # The lowest of 27 equally likely resamples is 0.7 three times, with probability 1/27 > 2.5 %.
    assert summary.low == pytest.approx(0.7)
    assert summary.high == pytest.approx(0.9)
    assert summarise([0.9, 0.7, 0.8]) == summary  # the same each time


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    trials = [summarise(rng.normal(size=40), num_resamples=500) for _ in range(400)]
    assert 0.90 < np.mean([trial.low <= 0 <= trial.high for trial in trials]) < 0.98


def test_the_interval_of_five_seeds_is_narrow() -> None:
    """As docs/results.md says."""
    rng = np.random.default_rng(0)
    trials = [summarise(rng.normal(size=5), num_resamples=500) for _ in range(1000)]
    assert np.mean([trial.low <= 0 <= trial.high for trial in trials]) == pytest.approx(0.85, abs=0.03)
    with pytest.raises(ValueError, match=r"Values are \[None, 1.0\]: leave out what is no number"):
        summarise([None, 1.0])  # type: ignore[list-item]


def test_labels_in_plain_lists_will_do() -> None:
    found, true = [[0, 0, 1], [1]], [[2, 2, 3], [3]]
    assert score_labels(found, true) == score_labels(lists(*found), lists(*true))
    assert segmental_f1(found, found, overlap=0.5) == 1
    assert step_labels([[2]], [[4, 5]], [5])[0].tolist() == [4, 4, 5, 5, 5]
    least = np.iinfo(np.int8).min
    assert segmental_f1([np.array([least, 0], np.int8)], [np.array([least, 0], np.int8)], overlap=0.5) == 1


def test_small_kinds_of_numbers_are_as_good_as_lists() -> None:
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        assert boundary_f1([np.array([2], kind)], [np.array([3], kind)], tolerance=1) == 1
        assert boundary_f1([np.array([3], kind)], [np.array([2], kind)]) == 0
    assert boundary_f1([np.array([100], np.int8)], [np.array([-100], np.int8)], tolerance=60) == 0
    mixed = [np.array([0, 1], np.uint32), np.array([1], np.int64)]
    assert score_labels(mixed, mixed) == score_labels([[0, 1], [1]], [[0, 1], [1]])
    for other in (np.array([2.0]), np.array([True])):
        with pytest.raises(ValueError, match="not a list of whole numbers"):
            boundary_f1([other], [[2]])


def test_a_boundary_that_is_named_twice_counts_once() -> None:
    assert boundary_f1([[3, 3, 5]], [[3, 7]]) == boundary_f1([[3, 5]], [[3, 7]]) == 0.5


def test_a_single_seed_has_no_spread() -> None:
    summary = summarise([0.5])
    assert (summary.mean, summary.low, summary.high) == (0.5, 0.5, 0.5)
    assert np.isnan(summary.std)
    with pytest.raises(ValueError, match=r"shape \(0,\): give a list with one number for each seed"):
        summarise([])


def test_plain_lists_of_boundaries_will_do() -> None:
    assert boundary_accuracy([[3, 6]], [[3, 6]]) == 1.0
    assert boundary_f1([[1, 2], []], [[1, 2], [4]]) == pytest.approx(4 / 5)
    assert score_boundaries([[1], []], [[2], []]) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("found", "true", "message"),
    [
        ([[1]], [[1], [2]], "boundaries of 1 and of 2 demonstrations"),
        ([], [], "boundaries of 0 and of 0"),
        ([np.ones((2, 2), int)], [[1]], "demonstration 0 are .* not a list of whole numbers"),
        ([[1.5]], [[1]], "demonstration 0 are .* not a list of whole numbers"),
    ],
)
def test_what_is_no_list_of_boundaries_is_refused(found: Any, true: Any, message: str) -> None:
    for score in (boundary_accuracy, boundary_f1, score_boundaries):
        with pytest.raises(ValueError, match=message):
            score(found, true)


def test_all_scores_are_put_in_their_places() -> None:
    # Of three segments of ten steps 2, 4 and 6 are found to be of the right type.
    true = lists([0] * 10, [0] * 10, [0] * 10)
    found = lists([0] * 2 + [1] * 8, [0] * 4 + [2] * 6, [0] * 6 + [3] * 4)
    scores = score_labels(found, true)
    matched = match_labels(found, true)
    by_overlap = [segmental_f1(matched, true, overlap=overlap) for overlap in (0.10, 0.25, 0.50)]
    assert len(set(by_overlap)) == 3
    assert scores.segmental_f1_50 == by_overlap[2]
    assert scores.nmi == normalised_mutual_information(found, true) != scores.agreement
    assert scores.agreement == np.mean(np.concatenate(matched) == np.concatenate(true)) == 12 / 30
    assert scores.mean_iou == mean_iou(matched, true)


def test_more_boundaries_than_there_are_is_a_wrong_number() -> None:
    scores = score_boundaries([[2, 6], [4]], [[2], [2]])
    assert scores.count_accuracy == 0.5
    assert scores.f1_tolerance_1 == pytest.approx(boundary_f1([[2, 6], [4]], [[2], [2]], tolerance=1))
    assert boundary_f1([[2, 6], [4]], [[2], [2]], tolerance=2) > scores.f1_tolerance_1
    assert boundary_f1([[]], [[1]]) == boundary_f1([[1]], [[]]) == 0.0
    assert boundary_f1([[]], [[]]) == 1.0
