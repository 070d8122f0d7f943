"""What the door lets in, and in which dtype; what it refuses, and what it says."""

import warnings
from typing import Any

import numpy as np
import pytest

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import ActionWarning, DemonstrationError

FRAMES, ACTIONS = [np.zeros((3, 4)), np.zeros((4, 4))], [np.array([0, 1]), np.array([1, 0, 2])]


def grids(values: Any) -> list[np.ndarray]:
    return [np.asarray(values).reshape(2, 1, 1, -1)]


@pytest.mark.parametrize(
    ("observations", "kind", "dtype"),
    [
        (grids(np.array([True, False])), "grid", np.uint8),
        (grids([0, 255]), "grid", np.uint8),
        (grids([0, 256]), "grid", np.float32),
        (grids([-1, 5]), "grid", np.float32),
        (grids([0.0, 1.0]), "grid", np.float32),
        ([np.zeros((2, 3), np.int64)], "vector", np.float32),
        ([np.zeros((2, 3), np.float64)], "vector", np.float32),
        ([np.zeros((2, 0))], "vector", np.float32),
        ([np.array([3, 4], np.int64)], "symbol", np.int32),
        ([[3, 4]], "symbol", np.int32),
        (None, "vector", np.float32),
    ],
)
def test_observations_get_one_dtype_per_kind(observations: Any, kind: str, dtype: type):
    demos = Demonstrations.from_arrays(observations, [[0]])
    assert (demos.observation_kind, demos.observations[0].dtype) == (kind, dtype)
    if observations is not None:
        np.testing.assert_array_equal(demos.observations[0], observations[0])
    assert demos.observations[0].shape[0] == 2


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([[0, 3]], np.array([0, 3], np.int32)),
        ([np.array([0, 3], np.uint8)], np.array([0, 3], np.int32)),
        ([np.array([False, True])], np.array([0, 1], np.int32)),
        ([np.array([[0.5, 1.0], [2.0, 3.0]])], np.array([[0.5, 1.0], [2.0, 3.0]], np.float32)),
        ([np.array([0.5, 1.0])], np.array([[0.5], [1.0]], np.float32)),
    ],
)
def test_actions_get_one_dtype_per_kind(actions: Any, expected: np.ndarray):
    (got,) = Demonstrations.from_arrays(None, actions).actions
    np.testing.assert_array_equal(got, expected, strict=True)


def test_num_actions_is_the_largest_action_plus_one_unless_given():
    assert Demonstrations.from_arrays(None, [[0, 3], [1]]).num_actions == 4
    assert Demonstrations.from_arrays(None, [[0, 3], [1]], num_actions=8).num_actions == 8
    assert Demonstrations.from_arrays(None, [[0.5]]).num_actions is None


def replaced(parts: list[np.ndarray], episode: int, part: Any) -> list[Any]:
    return [part if i == episode else old for i, old in enumerate(parts)]


def with_value(parts: list[np.ndarray], where: tuple[int, ...], value: float) -> list[np.ndarray]:
    copies = [np.array(part, float) for part in parts]
    copies[where[0]][where[1:]] = value
    return copies


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "nan": (
        with_value(FRAMES, (1, 2, 0), np.nan),
        ACTIONS,
        "Episode 1, observation 2 holds NaN.*leave the episode",
    ),
    "infinity": (
        with_value(FRAMES, (0, 1, 3), -np.inf),
        ACTIONS,
        "Episode 0, observation 1 holds NaN, infinity",
    ),
    "too large": (
        with_value(FRAMES, (0, 1, 3), 1e300),
        ACTIONS,
        "Episode 0, observation 1 .* too large for float32",
    ),
    "nan in an action": (FRAMES, with_value(ACTIONS, (1, 2), np.nan), "Episode 1, action 2 holds NaN"),
    "rank 2 frames": ([np.zeros((3, 4, 4))], ACTIONS[:1], r"shape \(4, 4\).*frames\[..., None\]"),
    "rank 4 frames": ([np.zeros((3, 1, 1, 1, 1))], ACTIONS[:1], r"shape \(1, 1, 1, 1\).*reshape"),
    "empty grid": ([np.zeros((3, 0, 4, 1))], ACTIONS[:1], r"shape \(0, 4, 1\)"),
    "float symbols": ([np.zeros(3)], ACTIONS[:1], r"one float64 number; cast to integers.*\(T\+1, 1\)"),
    "negative symbol": ([np.array([0, 1, -2])], ACTIONS[:1], "Episode 0, observation 2 is symbol -2.*from 0"),
    "symbol beyond int32": ([np.array([0, 2**31, 1])], ACTIONS[:1], "observation 1 is symbol 2147483648"),
    "wide integer actions": (
        FRAMES,
        [np.zeros((2, 1), int), np.zeros((3, 1), int)],
        r"shape \(1,\).*squeeze.*cast",
    ),
    "rank 2 actions": (None, [np.zeros((2, 3, 3))], r"Each action has shape \(3, 3\)"),
    "empty actions": (None, [np.zeros((2, 0))], r"Each action has shape \(0,\).*at least 1"),
    "no final observation": (
        replaced(FRAMES, 1, np.zeros((3, 4))),
        ACTIONS,
        "Episode 1 has 3 observations for 3 actions; expected 4: the final observation.*repeat the last",
    ),
    "other shape": (
        replaced(FRAMES, 1, np.zeros((4, 5))),
        ACTIONS,
        r"Observations of episode 1 .*\(5,\).*\(4,\)",
    ),
    "other rank": (
        replaced(FRAMES, 1, np.zeros((4, 4, 4, 4))),
        ACTIONS,
        r"Observations of episode 1 .*\(4, 4, 4\)",
    ),
    "float among ints": (
        FRAMES,
        replaced(ACTIONS, 1, np.zeros(3)),
        "Actions of episode 1 are float64.*int64",
    ),
    "other width": (
        None,
        [np.zeros((2, 2)), np.zeros((2, 3))],
        r"Actions of episode 1 .*\(3,\).*\(2,\).*one space",
    ),
    "negative action": (
        FRAMES,
        replaced(ACTIONS, 1, [0, -1, 0]),
        "Episode 1, step 1: action -1 is negative: number actions from 0",
    ),
    "no episodes": ([], [], "no episodes; at least one"),
    "no steps": (replaced(FRAMES, 1, np.zeros((1, 4))), replaced(ACTIONS, 1, []), "Episode 1 has no steps"),
    "lists of two lengths": (FRAMES[:1], ACTIONS, "observations must have one entry for each of the 2 episodes, not 1"),
    "objects": (None, [np.array([0, None])], "Actions of episode 0 have dtype object; convert"),
    "strings": (None, [[0, 1], ["up", "down"]], "Actions of episode 1 have dtype <U4"),
    "string frames": ([["a", "b"]], [[0]], "Observations of episode 0 have dtype <U1"),
    "complex": (None, [np.array([1j])], "dtype complex128"),
    "rows of two lengths": (
        [[[1, 2], [3]]],
        [[0]],
        "Observations of episode 0 are not one array.*same shape",
    ),
    "one array of actions": (
        None,
        np.zeros((2, 3)),
        r"actions is a single ndarray.*\[actions\].*list\(actions\)",
    ),
    "one array of frames": (np.zeros((2, 3)), [[0], [1]], "observations is a single ndarray"),
    "a dict of actions": (
        FRAMES,
        {"first": ACTIONS[0], "second": ACTIONS[1]},
        r"actions is a single dict; .*one array per episode: .*list\(actions\.values\(\)\) for a dictionary",
    ),
    "a dict of frames": (dict(enumerate(FRAMES)), ACTIONS, r"single dict; .*list\(observations\.values\(\)\)"),
    "a string": (None, "up", "actions is a single str"),
    "flat list": (None, [0, 1, 2], "Actions of episode 0 are a single number; expected an array"),
}


@pytest.mark.parametrize(("observations", "actions", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_from_arrays_refuses(observations: Any, actions: Any, message: str):
    with pytest.raises(DemonstrationError, match=message):
        Demonstrations.from_arrays(observations, actions)


def test_from_arrays_refuses_actions_outside_num_actions():
    with pytest.raises(DemonstrationError, match="Episode 1, step 2: action 2 is not among the 2 actions 0 to 1"):
        Demonstrations.from_arrays(FRAMES, ACTIONS, num_actions=2)
    with pytest.raises(DemonstrationError, match="num_actions is 4, but the actions are float64"):
        Demonstrations.from_arrays(None, [[0.5]], num_actions=4)
    with pytest.raises(DemonstrationError, match="step 0: action 2147483647 is not among"):
        Demonstrations.from_arrays(None, [[2**31 - 1]])


def test_from_packed_equals_from_arrays_and_copies_nothing_that_fits():
    frames = np.concatenate(FRAMES).astype(np.float32)
    packed = Demonstrations.from_packed(frames, np.concatenate(ACTIONS), [2, 3])
    assert packed == Demonstrations.from_arrays(FRAMES, ACTIONS)
    assert np.shares_memory(packed.observations[0], frames)
    assert Demonstrations.from_packed(None, [0.5, 1.5], [2]) == Demonstrations.from_arrays(None, [[0.5, 1.5]])


@pytest.mark.parametrize(
    ("num_frames", "num_actions", "lengths", "message"),
    [
        (7, 6, [2, 3], "do not add up to the 6 actions"),
        (6, 5, [2, 3], "do not add up to the 6 frames, where an episode has one more"),
        (7, 5, [2, 0, 3], "Episode 1 has no steps"),
        (7, 5, [-2, 7], "Episode 0 has no steps"),
        (7, 5, [], "no episodes"),
        (7, 5, [2.0, 3.0], "lengths is float64"),
        (7, 5, [[2, 3]], r"lengths is int64 of shape \(1, 2\)"),
        (7, 5, 5, "lengths are a single number; expected an array"),
        (7, 5, np.array([2**63 - 1, 2**63 - 1, 7]), "do not add up"),  # the sum of these is 5 in int64
    ],
)
def test_from_packed_refuses(num_frames: int, num_actions: int, lengths: Any, message: str):
    with pytest.raises(DemonstrationError, match=message):
        Demonstrations.from_packed(np.zeros((num_frames, 4)), np.zeros(num_actions, int), lengths)


def test_from_packed_names_the_episode_of_a_bad_value():
    frames = np.zeros((7, 4))
    frames[5, 1] = np.nan
    with pytest.raises(DemonstrationError, match="Episode 1, observation 2 holds NaN"):
        Demonstrations.from_packed(frames, np.zeros(5, int), [2, 3])


def test_unsigned_lengths_are_lengths():
    lengths = np.array([2, 3], np.uint64)
    assert len(Demonstrations.from_packed(None, np.zeros(5, int), lengths)) == 2


@pytest.mark.parametrize("num_actions", [2.5, 0, -1, 2**31, 2**40, "four", True, np.nan, np.array([3, 3])])
def test_num_actions_is_a_whole_number(num_actions: Any):
    with pytest.raises(DemonstrationError, match=r"num_actions is .*; use a whole number from 1 to 2147483647\."):
        Demonstrations.from_arrays(None, [[0, 0]], num_actions=num_actions)


def test_whole_numbers_of_numpy_are_whole_numbers():
    demos = Demonstrations.from_arrays(None, [[0]], num_actions=np.int64(3))
    assert type(demos.num_actions) is int
    assert demos.num_actions == 3


def masked(values: Any) -> Any:
    return np.ma.masked_equal(np.asarray(values), 1)


@pytest.mark.parametrize(
    ("observations", "actions", "boundaries", "what"),
    [
        ([masked([0, 1, 2])], [[0, 0]], None, "Observations of episode 0"),
        ([[masked([0.0]), masked([1.0])]], [[0]], None, "Observations of episode 0"),
        (None, [[0], masked([0, 1])], None, "Actions of episode 1"),
        (None, [[0, 0]], [masked([1])], "boundaries of episode 0"),
    ],
)
def test_masks_are_not_lost_in_silence(observations: Any, actions: Any, boundaries: Any, what: str):
    with pytest.raises(DemonstrationError, match=rf"{what} are a masked array.*leave masked .* or fill them"):
        Demonstrations.from_arrays(observations, actions, boundaries=boundaries)


def test_from_packed_refuses_masks():
    for arrays in (
        (masked(np.zeros((3, 1))), [0, 0], [2]),
        (None, masked([0, 0]), [2]),
        (None, [0, 0], masked([2])),
    ):
        with pytest.raises(DemonstrationError, match="are a masked array"):
            Demonstrations.from_packed(*arrays)


@pytest.mark.parametrize("offset", [2**31, -(2**40)])
@pytest.mark.parametrize("shape", [(60, 2), (10, 2, 3, 2)])
def test_whole_numbers_whose_differences_float32_loses_are_refused(offset: int, shape: tuple[int, ...]):
    frames = offset + np.arange(120, dtype=np.int64).reshape(shape)
    with pytest.raises(DemonstrationError, match="observations cannot be kept in float32"):
        Demonstrations.from_arrays([frames], [np.zeros(len(frames) - 1, int)])


@pytest.mark.parametrize("value", [2**24, -(2**24)])
def test_whole_numbers_that_float32_holds_are_kept(value: int):
    (frames,) = Demonstrations.from_arrays([np.array([[value], [0]])], [[0]]).observations
    assert frames[0, 0] == value
    (unsigned,) = Demonstrations.from_arrays([np.array([[abs(value)], [0]], np.uint64)], [[0]]).observations
    assert unsigned[0, 0] == abs(value)


TIMES = 1.7e9 + 0.1 * np.arange(61)


def test_columns_whose_differences_float32_loses_are_refused():
    frames = np.stack([np.linspace(0, 1, 61), TIMES], axis=1)
    message = r"Column 1 of the observations .* 1\.7e\+09.*subtract the mean \(or the first value\).*or leave it out"
    with pytest.raises(DemonstrationError, match=message):
        Demonstrations.from_arrays([frames, frames], [np.zeros(60, int)] * 2)
    with pytest.raises(DemonstrationError, match=r"Column 0 of the actions .*subtract the mean"):
        Demonstrations.from_arrays(None, [TIMES])
    with pytest.raises(DemonstrationError, match="Column 0 of the observations cannot be kept"):
        Demonstrations.from_arrays([TIMES[:60].reshape(5, 2, 2, 3)], [np.zeros(4, int)])


@pytest.mark.parametrize(
    "column",
    [
        TIMES - TIMES[0],
        TIMES.astype(np.float32),  # somebody has chosen to lose digits
        TIMES.astype(np.float32).astype(np.float64),  # nothing is lost
        np.full(61, 0.1),
        np.full(61, 1e30),
        0.3 + np.linspace(-1e-15, 1e-15, 61),  # what sums in float64 leave of a constant
        0.3 + np.linspace(-1e-4, 1e-4, 61),
        np.linspace(-1e-30, 1e-30, 61),
    ],
)
def test_columns_that_float32_can_hold_are_kept(column: np.ndarray):
    (frames,) = Demonstrations.from_arrays([column[:, None]], [np.zeros(60, int)]).observations
    np.testing.assert_array_equal(frames[:, 0], column.astype(np.float32))


@pytest.mark.parametrize(
    ("make", "actions"),
    [
        (Demonstrations.from_arrays, ([[0.0, 1.0], [2.0, 0.0]],)),
        (Demonstrations.from_packed, (np.array([0.0, 1.0, 2.0, 0.0]), [2, 2])),
    ],
)
def test_discrete_actions_as_floats_bring_a_warning(make: Any, actions: Any):
    message = r"whole numbers as floats.*taken for continuous.*values\.astype\(int\).*reshape to \(T, 1\)"
    with pytest.warns(ActionWarning, match=message):
        demos = make(None, *actions)
    assert (demos.action_kind, demos.action_dim) == ("continuous", 1)


@pytest.mark.parametrize(
    "actions",
    [
        [[[0.0], [1.0]], [[2.0], [0.0]]],  # somebody has said that they are vectors
        [[0.0, 1.0], [2.0, 0.5]],
        [[0.0, 1.0], [2.0, 3.0]],  # each only once
        [[0.0, 0.0], [0.0, 0.0]],
        [np.arange(102.0), np.arange(102.0)],  # many
    ],
)
def test_actions_that_look_continuous_bring_no_warning(actions: Any):
    with warnings.catch_warnings(action="error"):
        assert Demonstrations.from_arrays(None, actions).action_dim == 1
