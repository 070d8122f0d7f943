"""What people hand to skills one by one is checked."""

from typing import Any

import numpy as np
import pytest

from compile_il.data.spaces import Space, check_action, check_observation

VECTOR = Space("vector", (2,), 0, 3, 0)
SYMBOL = Space("symbol", (), 5, 0, 2)


@pytest.mark.parametrize(
    ("observation", "space", "message"),
    [
        (
            np.zeros(1),
            VECTOR,
            r"The observation is of type float64 and shape \(1,\): give finite numbers of shape \(2,\)",
        ),
        (0.0, VECTOR, r"of type float64 and shape \(\)"),
        (np.array([0.0, np.nan]), VECTOR, "give finite numbers"),
        (np.array(["a", "b"]), VECTOR, "of type <U1 .* give finite numbers"),
        (5, SYMBOL, r"The observation is 5: the model was trained with symbols 0 to 4"),
        (-1, SYMBOL, r"symbols 0 to 4"),
        (1.0, SYMBOL, r"symbols 0 to 4"),
    ],
)
def test_observations(observation: Any, space: Space, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_observation(observation, space)


@pytest.mark.parametrize(
    ("action", "space", "message"),
    [
        (3, VECTOR, r"The action is 3: the model was trained with actions 0 to 2"),
        (1.0, VECTOR, r"actions 0 to 2"),
        (np.zeros(3), SYMBOL, r"The action is of type float64 and shape \(3,\): give finite numbers of shape \(2,\)"),
        (np.array([np.inf, 0]), SYMBOL, "give finite numbers"),
    ],
)
def test_actions(action: Any, space: Space, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_action(action, space)


def test_what_is_right_passes() -> None:
    assert check_observation([1, 2], VECTOR).shape == (2,)
    assert check_observation(np.int64(4), SYMBOL) == 4
    assert check_action(2, VECTOR) == 2
    assert check_action([0.5, 1.0], SYMBOL).shape == (2,)
