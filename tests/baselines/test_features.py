"""What libraries are fed."""

import numpy as np
import pytest

from compile_il.baselines import features
from compile_il.baselines.features import Features, View
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.baselines.cases import plateaus


def test_columns_are_standardised_and_actions_follow() -> None:
    demos = plateaus(40)
    rows = np.concatenate(Features.of(demos, View("both"))(demos))
    assert rows.shape == (demos.num_steps, 3 + 2)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(rows.std(axis=0), 1)
    np.testing.assert_array_equal(np.concatenate(Features.of(demos, View("states"))(demos)), rows[:, :3])
    np.testing.assert_array_equal(np.concatenate(Features.of(demos, View("actions"))(demos)), rows[:, 3:])


def test_the_last_observation_belongs_to_no_step() -> None:
    demos = Demonstrations.from_arrays([np.array([[0.0], [2.0], [100.0]])], [np.array([0, 1])], num_actions=2)
    (rows,) = Features.of(demos, View("states"))(demos)
    np.testing.assert_allclose(rows, [[-1.0], [1.0]])


@pytest.mark.parametrize("num_steps", [40, 199], ids=["fewer-than-columns", "more-than-columns"])
def test_many_columns_become_components_of_unit_spread(num_steps: int) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(num_steps + 1, 2))
    frames = (hidden @ rng.normal(size=(2, 5 * 5 * 3))).reshape(-1, 5, 5, 3).astype(np.float32)
    demos = Demonstrations.from_arrays([frames], [np.zeros(num_steps, int)], num_actions=2)
    (rows,) = Features.of(demos, View("states", num_components=4))(demos)
    assert rows.shape[1] == 2  # two numbers are behind it all, and what is left is rounding
    np.testing.assert_allclose(rows.T @ rows / num_steps, np.eye(2), atol=1e-4)


def test_components_are_of_steps_from_all_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first a column changes by itself; what changes most, two columns together, does so in the second."""
    monkeypatch.setattr(features, "MOST_ROWS", 16)
    alone, together = np.random.default_rng(0).normal(size=(2, 41))
    frames = [np.outer(alone[:17], [1, 0, 0]), np.outer(together, [0, 1, 1])]
    demos = Demonstrations.from_arrays(frames, [np.zeros(16, int), np.zeros(40, int)], num_actions=2)
    _, rows = Features.of(demos, View("states", num_components=1))(demos)
    assert abs(np.corrcoef(rows[:, 0], together[:-1])[0, 1]) > 0.99


def test_constant_columns_and_symbols() -> None:
    symbols = [np.array([0, 2, 2, 0]), np.array([2, 0, 0])]
    demos = Demonstrations.from_arrays(symbols, [np.array([[1.0], [1.0], [1.0]]), np.array([[1.0], [1.0]])])
    rows = np.concatenate(Features.of(demos, View("both"))(demos))
    assert rows.shape == (5, 3 + 1)
    np.testing.assert_array_equal(rows[:, [1, 3]], 0)  # the symbol that never occurs, the action that never changes
    with pytest.raises(DemonstrationError, match=r"\(4 symbols.* not as in training \(3"):
        Features.of(demos, View("both"))(Demonstrations.from_arrays([np.array([3, 0])], [np.array([[1.0]])]))


def test_settings_that_cannot_work() -> None:
    without = Demonstrations.from_arrays(None, [np.array([0, 1])])
    with pytest.raises(DemonstrationError, match=r'no states: pass reads="actions"'):
        Features.of(without, View("states"))
    with pytest.raises(ValueError, match=r"reads is 'frames': use"):
        View("frames")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"num_components is 0: use at least 1"):
        View(num_components=0)


def test_states_less_the_first_one() -> None:
    frames = [np.array([[5.0], [7.0], [7.0], [0.0]]), np.array([[-3.0], [-3.0], [0.0]])]
    demos = Demonstrations.from_arrays(frames, [np.zeros(3, int), np.zeros(2, int)], num_actions=2)
    rows = np.concatenate(Features.of(demos, View("states", relative=True))(demos))[:, 0]
    changed = np.array([0.0, 2.0, 2.0, 0.0, 0.0])
    np.testing.assert_allclose(rows, (changed - changed.mean()) / changed.std())
