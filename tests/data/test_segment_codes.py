"""Codes of segments without their places: what is kept, and what is refused."""

from typing import Any

import numpy as np
import pytest

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.data.test_labels import DEMOS, labels_of, lists


def segment_codes_of(demos: Demonstrations) -> list[list[int]]:
    segment_codes = labels_of(demos).segment_codes
    assert segment_codes is not None
    return lists(segment_codes)


def test_unknown_codes_and_episodes():
    labelled = DEMOS.with_labels(segment_codes=[[5, None, 5], None, np.array([1, -1])])
    assert segment_codes_of(labelled) == [[5, -1, 5], [], [1, -1]]
    assert {part.dtype for part in labels_of(labelled).segment_codes or []} == {np.dtype(np.int32)}
    assert lists(labels_of(labelled).codes) == [[-1, -1, -1, -1], [-1], [-1, -1]]
    assert labelled.truth.codes is DEMOS.truth.codes or lists(labelled.truth.codes or []) == lists(
        DEMOS.truth.codes or []
    )


def test_they_go_where_their_episode_goes():
    labelled = DEMOS.with_labels(segment_codes=[[5, -1, 5], None, [1, -1]])
    assert segment_codes_of(labelled[[2, 0]]) == [[1, -1], [5, -1, 5]]
    assert segment_codes_of(labelled[1:2]) == [[]]
    one = labelled[2].labels
    assert one is not None
    assert one.segment_codes is not None
    assert one.segment_codes.tolist() == [1, -1]
    first, second = labelled.split(0.67)
    assert sorted(map(tuple, segment_codes_of(first) + segment_codes_of(second))) == [(), (1, -1), (5, -1, 5)]
    assert Demonstrations.concatenate([labelled[:1], labelled[1:]]) == labelled


def test_they_are_replaced_and_dropped_with_other_labels():
    labelled = DEMOS.with_labels(segment_codes=[[5], None, None])
    assert labelled != DEMOS
    assert labelled.with_labels() == DEMOS
    assert labelled.reveal() == DEMOS.reveal()
    assert labelled.with_labels(codes=[None] * 3) == DEMOS.with_labels(codes=[None] * 3)
    assert labels_of(DEMOS.reveal()).segment_codes is None


def test_reveal_gives_them_for_a_fraction():
    labelled = DEMOS.with_truth(codes=DEMOS.truth.codes).reveal(boundaries=False, codes=False, segment_codes=True)
    assert segment_codes_of(labelled) == [[5, 0, 5], [2], [1, 1]]
    assert lists(labels_of(labelled).codes) == [[-1, -1, -1, -1], [-1], [-1, -1]]
    some = DEMOS.reveal(segment_codes=True, fraction=0.5)
    boundary_labels, label_codes = labels_of(some).boundaries, segment_codes_of(some)
    for boundaries, in_order, true in zip(boundary_labels, label_codes, DEMOS.truth.codes, strict=True):
        assert in_order == ([] if (boundaries == -1).all() else true.tolist())
    assert some.with_labels(labels_of(some).boundaries, labels_of(some).codes, segment_codes_of(some)) == some
    with pytest.raises(DemonstrationError, match="true codes are unknown"):
        DEMOS.with_truth().reveal(boundaries=False, codes=False, segment_codes=True)


def test_from_packed_takes_them():
    labelled = DEMOS.with_labels(segment_codes=[[5, -1], None, None])
    packed = np.concatenate(DEMOS.actions)
    again = Demonstrations.from_packed(None, packed, DEMOS.lengths, truth=DEMOS.truth, labels=labelled.labels)
    assert again == labelled


def test_minari_says_that_it_does_not_keep_them():
    with pytest.raises(DemonstrationError, match="do not keep the codes of segments"):
        DEMOS.with_labels(segment_codes=[[5], None, None]).to_minari("test/codes-v0")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"segment_codes": [[1, -2], None, None]}, "Episode 0: entry 1 of segment_codes is -2; use numbers from -1 to"),
        ({"segment_codes": [[1], None]}, "segment_codes must have one entry for each of the 3 episodes, not 2"),
        ({"segment_codes": [[0.5], None, None]}, "segment_codes of episode 0 are float64"),
        ({"segment_codes": np.zeros((3, 2), int)}, "segment_codes is a single ndarray"),
        (
            {"segment_codes": [None, [1, 2], None]},
            "Episode 1 of length 1: the number of its segment_codes is 2, and should be 1;",
        ),
        (
            {"segment_codes": [[1, 2], None, None], "boundaries": [[0, 1, 1, -1], None, None]},
            "segment_codes is 2, and should be 3 to 4; give one per segment",
        ),
        (
            {"segment_codes": [[1, 2, 3], None, None], "boundaries": [[0, 0, 1, 0], None, None]},
            "segment_codes is 3, and should be 2; .* or correct the boundaries",
        ),
        (
            {
                "segment_codes": [[1, 2, 3], None, None],
                "boundary_places": [[1, 3], None, None],
                "codes": [[1, -1, 4, 3], None, None],
            },
            "Episode 0, segment 1: segment_codes gives code 2, and codes gives 4 at one of its steps",
        ),
    ],
)
def test_contradictions_are_refused(labels: dict[str, Any], message: str):
    with pytest.raises(DemonstrationError, match=message):
        DEMOS.with_labels(**labels)
