from typing import Any

import numpy as np
import pytest

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import Truth
from compile_il.data.validation import DemonstrationError

DEMOS = Demonstrations.from_arrays(None, [[0, 1, 2, 3], [0], [1, 1]])
BOUNDARIES, CODES = [[1, 3], [], [1]], [[5, 0, 5], [2], [1, 1]]


def test_truth_is_one_int32_array_per_episode():
    truth = DEMOS.with_truth(BOUNDARIES, CODES).truth
    assert truth.boundaries is not None
    assert truth.codes is not None
    assert [part.tolist() for part in truth.boundaries] == BOUNDARIES
    assert [part.tolist() for part in truth.codes] == CODES
    assert {part.dtype for part in truth.boundaries + truth.codes} == {np.dtype(np.int32)}


def test_half_of_the_truth_may_be_unknown():
    only_boundaries = DEMOS.with_truth(boundaries=BOUNDARIES).truth
    assert only_boundaries.codes is None
    only_codes = DEMOS.with_truth(codes=CODES).truth
    assert only_codes.boundaries is None
    assert (DEMOS.truth.boundaries, DEMOS.truth.codes) == (None, None)
    assert DEMOS.with_truth(BOUNDARIES, CODES).with_truth() == DEMOS


@pytest.mark.parametrize("known", [{"boundaries": BOUNDARIES}, {"codes": CODES}, {}])
def test_boundaries_or_codes_give_the_number_of_segments(known: Any):
    counts = DEMOS.with_truth(**known).truth.num_segments
    assert (None if counts is None else counts.tolist()) == ([3, 1, 2] if known else None)


def test_all_ways_in_take_the_truth():
    expected = DEMOS.with_truth(BOUNDARIES, CODES)
    assert Demonstrations.from_arrays(None, DEMOS.actions, boundaries=BOUNDARIES, codes=CODES) == expected
    truth = Truth([np.array(b, np.int64) for b in BOUNDARIES], [np.array(c, np.uint64) for c in CODES])
    packed = np.concatenate(DEMOS.actions)
    assert Demonstrations.from_packed(None, packed, DEMOS.lengths, truth=truth) == expected


@pytest.mark.parametrize(
    ("boundaries", "codes", "message"),
    [
        ([[0, 3], [], [1]], None, r"Episode 0: entry \d of boundar.* is 0, .* within 1 to 3 in 4 steps"),
        ([[1, 4], [], [1]], None, r"Episode 0: entry \d of boundar.* is 4, .*leave out 0 and 4"),
        ([[1, 3], [1], [1]], None, r"Episode 1: entry \d of boundar.* is 1, .*lie within"),
        (
            [[3, 1], [], [1]],
            None,
            "Episode 0: entry 1 of boundar.* is 1, but inner boundaries increase, .* sort them, give each once",
        ),
        (
            [[2, 2], [], [1]],
            None,
            "Episode 0: entry 1 of boundar.* is 2, but inner boundaries increase, .* sort them, give each once",
        ),
        ([[1, 3], []], None, "boundaries must have one entry for each of the 3 episodes, not 2"),
        ([[1.0, 3.0], [], [1]], None, "boundaries of episode 0 are float64"),
        ([[[1, 3]], [], [1]], None, r"boundaries of episode 0 are int64 of shape \(1, 2\)"),
        (
            [[1, 3], None, [1]],
            None,
            r"boundaries of episode 1 are None: .* demos\[indices\].with_truth\(boundaries=.*\(boundary_places=",
        ),
        (
            None,
            [None, [2], [1]],
            r"codes of episode 0 are None: .*demos\[indices\].with_truth\(codes=.*segment_codes=",
        ),
        ([None] * 3, None, "boundaries of episode 0 are None: the truth must be given for all episodes or for none"),
        (np.zeros((3, 1)), None, "boundaries is a single ndarray"),
        (
            BOUNDARIES,
            [[5, 0], [2], [1, 1]],
            "Episode 0 of length 4: the number of its codes is 2, and should be 3; give one per segment",
        ),
        (BOUNDARIES, [[5, 0, -1], [2], [1, 1]], "Episode 0: entry 2 of codes is -1; use numbers from 0 to"),
        (BOUNDARIES, [[5, 0, 2**31], [2], [1, 1]], "Episode 0: entry 2 of codes is 2147483648"),
        (None, [[1], [], [1]], "the number of its codes is 0, and should be 1"),
        (None, [[1], [1], [1, 2, 3]], "codes is 3, and should be 1 to 2"),
    ],
)
def test_impossible_truth_is_refused(boundaries: Any, codes: Any, message: str):
    with pytest.raises(DemonstrationError, match=message):
        DEMOS.with_truth(boundaries, codes)


def test_the_truth_of_some_episodes_is_theirs_alone():
    """As the error says that refuses it beside unknown truth."""
    some = DEMOS[[0, 2]].with_truth([BOUNDARIES[0], BOUNDARIES[2]])
    assert some == DEMOS.with_truth(BOUNDARIES)[[0, 2]]
