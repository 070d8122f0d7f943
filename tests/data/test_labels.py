from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN, PartialLabels
from compile_il.data.validation import DemonstrationError
from tests.data.strategies import Recipe, recipes

DEMOS = Demonstrations.from_arrays(
    None, [[0, 1, 2, 3], [0], [1, 1]], boundaries=[[1, 3], [], [1]], codes=[[5, 0, 5], [2], [1, 1]]
)


def labels_of(demos: Demonstrations) -> PartialLabels:
    assert demos.labels is not None
    return demos.labels


def lists(parts: list[np.ndarray]) -> list[list[int]]:
    return [part.tolist() for part in parts]


def test_reveal_labels_steps_with_the_truth():
    labels = labels_of(DEMOS.reveal())
    assert lists(labels.boundaries) == [[0, 1, 0, 1], [0], [0, 1]]
    assert lists(labels.codes) == [[5, 0, 0, 5], [2], [1, 1]]
    assert {part.dtype for part in labels.boundaries + labels.codes} == {np.dtype(np.int32)}


def test_reveal_can_leave_out_boundaries_or_codes():
    assert lists(labels_of(DEMOS.reveal(boundaries=False)).boundaries) == [[-1, -1, -1, -1], [-1], [-1, -1]]
    assert lists(labels_of(DEMOS.reveal(boundaries=False)).codes) == [[5, 0, 0, 5], [2], [1, 1]]
    assert lists(labels_of(DEMOS.reveal(codes=False)).codes) == [[-1, -1, -1, -1], [-1], [-1, -1]]
    assert lists(labels_of(DEMOS.reveal(codes=False)).boundaries) == [[0, 1, 0, 1], [0], [0, 1]]


def shown(demos: Demonstrations) -> set[int]:
    return {i for i, part in enumerate(labels_of(demos).codes) if (part != UNKNOWN).any()}


def test_reveal_shows_a_fraction_at_least_one_and_nested():
    many = DEMOS[np.arange(300) % 3]
    assert len(shown(many.reveal(fraction=0.1))) == 30
    assert len(shown(many.reveal(fraction=1e-9))) == 1
    assert shown(many.reveal(fraction=0.1)) < shown(many.reveal(fraction=0.2))
    assert shown(many.reveal(fraction=0.1)) != shown(many.reveal(fraction=0.1, seed=1))
    assert many.reveal(fraction=0.1, seed=1) == many.reveal(fraction=0.1, seed=1)


@settings(max_examples=50)
@given(recipes(), st.floats(0.01, 1.0), st.integers(0, 3))
def test_revealed_labels_pass_the_door_and_give_the_truth_back(recipe: Recipe, fraction: float, seed: int):
    assume(recipe.boundaries is not None and recipe.codes is not None)
    labelled = recipe.build().reveal(fraction=fraction, seed=seed)
    assert labelled.with_labels(labels_of(labelled).boundaries, labels_of(labelled).codes) == labelled
    for demo in labelled:
        assert demo.truth.codes is not None
        assert demo.labels is not None
        if (demo.labels.boundaries == UNKNOWN).all():
            assert (demo.labels.codes == UNKNOWN).all()
        else:
            starts = np.flatnonzero(demo.labels.boundaries)
            np.testing.assert_array_equal(starts, demo.truth.boundaries)
            np.testing.assert_array_equal(demo.labels.codes[[0, *starts]], demo.truth.codes)


@pytest.mark.parametrize(
    ("demos", "options", "message"),
    [
        (DEMOS, {"fraction": 0.0}, "fraction is 0.0; it must be a number above 0"),
        (DEMOS, {"fraction": 1.5}, "fraction is 1.5"),
        (DEMOS, {"fraction": float("nan")}, "fraction is nan"),
        (DEMOS, {"seed": -1}, "seed is -1; use a whole number of at least 0"),
        (DEMOS, {"boundaries": False, "codes": False}, "Nothing to reveal"),
        (DEMOS.with_truth(), {}, "true boundaries are unknown"),
        (DEMOS.with_truth(codes=[[1], [1], [1]]), {"boundaries": False}, "true boundaries are unknown"),
        (DEMOS.with_truth(boundaries=[[], [], []]), {}, "true codes are unknown; pass codes=False"),
    ],
)
def test_reveal_refuses(demos: Demonstrations, options: dict[str, Any], message: str):
    with pytest.raises(DemonstrationError, match=message):
        demos.reveal(**options)


def test_what_is_not_given_is_unknown():
    labels = labels_of(DEMOS.with_labels(boundaries=[None, [0], None]))
    assert lists(labels.boundaries) == [[-1, -1, -1, -1], [0], [-1, -1]]
    assert lists(labels.codes) == [[-1, -1, -1, -1], [-1], [-1, -1]]
    assert DEMOS.labels is None
    assert DEMOS.reveal().with_labels() == DEMOS


def test_a_segment_starts_at_step_0_whether_it_is_labelled_or_not():
    assert DEMOS.with_labels([[1, 0, 1, 0], [1], None]) == DEMOS.with_labels([[0, 0, 1, 0], [0], None])


def test_from_packed_takes_labels():
    labelled = DEMOS.reveal()
    packed = np.concatenate(DEMOS.actions)
    again = Demonstrations.from_packed(None, packed, DEMOS.lengths, truth=DEMOS.truth, labels=labelled.labels)
    assert again == labelled


@pytest.mark.parametrize(
    ("boundaries", "codes"),
    [
        ([[0, 1, 0, 0], None, None], [[3, 4, 4, 4], None, None]),
        ([[0, 0, 0, 0], None, None], [[3, -1, -1, 3], None, None]),
        ([[0, 0, -1, 0], None, None], [[3, -1, -1, 4], None, None]),
        ([[0, 1, 0, 0], None, None], [[3, 3, 3, 3], None, None]),  # two segments of one code
        ([[0, 0, 0, 0], [0], None], [[3, 3, 3, 3], [4], None]),  # a new episode starts a segment
        ([[-1, 1, 0, 0], None, None], None),
    ],
)
def test_labels_that_can_be_true_are_taken(boundaries: Any, codes: Any):
    assert labels_of(DEMOS.with_labels(boundaries, codes)).boundaries[0].tolist() == boundaries[0]


@pytest.mark.parametrize(
    ("boundaries", "codes", "message"),
    [
        ([None, None, [0, 0]], [None, None, [3, 4]], "Episode 2, step 1: code 4 differs"),
        ([[0, 1, 0, 0], None, None], [[3, 4, -1, 3], None, None], "Episode 0, step 3: code 3 differs"),
        (
            [None, None, [0, 2]],
            None,
            r"Episode 2: entry 1 of boundaries is 2; use numbers from -1 to 1 \(-1: unknown\)",
        ),
        ([None, None, [-2, 0]], None, "Episode 2: entry 0 of boundaries is -2"),
        (None, [None, None, [0, -2]], "Episode 2: entry 1 of codes is -2"),
        (
            [None, None, [0]],
            None,
            r"Episode 2 of length 2: the number of its boundaries is 1, .* or boundary_places=\[\[15, 23\], None\]",
        ),
        (
            None,
            [None, None, [0, 1, 1]],
            "Episode 2 of length 2: the number of its codes is 3, and should be 2; .*segment_codes=",
        ),
        (None, [None, None], "codes must have one entry for each of the 3 episodes, not 2"),
        (None, [None, None, [0.5, 1.0]], "codes of episode 2 are float64"),
    ],
)
def test_labels_that_contradict_themselves_are_refused(boundaries: Any, codes: Any, message: str):
    with pytest.raises(DemonstrationError, match=message):
        DEMOS.with_labels(boundaries, codes)


def test_places_of_boundaries_are_the_same_as_labels_of_steps():
    """The code of each segment goes with them."""
    labelled = DEMOS.with_labels(boundary_places=[[1, 3], [], None])
    assert labelled == DEMOS.with_labels(boundaries=[[0, 1, 0, 1], [0], None])
    assert DEMOS.with_labels(boundary_places=[np.array([1, 3]), np.zeros(0), None]) == labelled
    codes, in_order = [None, None, [4, -1]], [[5, 0, -1], None, [4]]
    both = DEMOS.with_labels(boundary_places=[[1, 3], [], None], codes=codes, segment_codes=in_order)
    assert both == DEMOS.with_labels([[0, 1, 0, 1], [0], None], codes, in_order)
    unknown = DEMOS.with_labels(boundary_places=[None, None, None])
    assert lists(labels_of(unknown).boundaries) == [[-1, -1, -1, -1], [-1], [-1, -1]]


@settings(max_examples=50)
@given(recipes())
def test_places_of_true_boundaries_say_what_reveal_says(recipe: Recipe):
    assume(recipe.boundaries is not None)
    demos = recipe.build()
    assert demos.with_labels(boundary_places=demos.truth.boundaries) == demos.reveal(codes=False)


@pytest.mark.parametrize(
    ("given_labels", "message"),
    [
        ({"boundary_places": [None, None, [2]]}, r"Episode 2: entry \d of boundar.* is 2, .* within 1 to 1 in 2 steps"),
        ({"boundary_places": [[0, 3], None, None]}, r"Episode 0: entry \d of boundar.* is 0, .*leave out 0 and 4"),
        (
            {"boundary_places": [[3, 1], None, None]},
            "Episode 0: entry 1 of boundar.* is 1, but inner boundaries increase, .* sort them, give each once",
        ),
        ({"boundary_places": [None, [1], None]}, r"Episode 1: entry \d of boundar.* is 1, .*lie within"),
        ({"boundary_places": [[1, 3], None]}, "boundary_places must have one entry for each of the 3 episodes, not 2"),
        ({"boundary_places": [[1.0, 3.0], None, None]}, "boundary_places of episode 0 are float64"),
        ({"boundary_places": np.zeros((3, 1))}, "boundary_places is a single ndarray"),
        (
            {"boundary_places": [[1], None, None], "segment_codes": [[5, 0, 5], None, None]},
            "the number of its segment_codes is 3, and should be 2; give one per segment",
        ),
        (
            {"boundary_places": [[3], None, None], "codes": [[5, 0, 0, 5], None, None]},
            "Episode 0, step 1: code 0 differs",
        ),
        (
            {"boundary_places": [[1], None, None], "boundaries": [None, None, [0, 1]]},
            "Both boundaries and boundary_places are given; .* one of them",
        ),
    ],
)
def test_impossible_places_are_refused(given_labels: dict[str, Any], message: str):
    with pytest.raises(DemonstrationError, match=message):
        DEMOS.with_labels(**given_labels)
