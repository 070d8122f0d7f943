"""Change points where everybody sees them."""

import numpy as np
import pytest

import compile_il as cil
from compile_il.baselines.base import best_on
from compile_il.baselines.change_points import ChangePoints, EqualCuts
from compile_il.baselines.features import View, views_for
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.baselines.cases import assert_found, plateaus

METHODS = ("dynp", "kernel")


@pytest.mark.parametrize("method", METHODS)
def test_plateaus_are_found(method: str) -> None:
    cutter = ChangePoints(method, View("states")).fit(plateaus(40))
    for num_segments in (2, 3, 4):
        demos = plateaus(20, num_segments, seed=num_segments)
        found = cutter.segment(demos, num_segments)
        assert_found(found.boundaries, demos)
        assert found.labels is None


@pytest.mark.parametrize("method", METHODS)
def test_runs_of_symbols_are_found(method: str) -> None:
    demos = cil.demonstrate("symbols", num_demos=50, seed=0)
    assert_found(ChangePoints(method).fit(demos).segment(demos, 3).boundaries, demos)


def test_a_kernel_sees_spreads_change_where_means_stay() -> None:
    states = np.append(np.zeros(8), [2.0, -2.0] * 4)
    demos = Demonstrations.from_arrays([np.append(states, 0.0)[:, None]], [np.zeros(16, int)], num_actions=2)
    kernel, means = ChangePoints("kernel", View("states")), ChangePoints("dynp", View("states"))
    assert kernel.fit(demos).segment(demos, 2).boundaries[0].tolist() == [8]
    assert means.fit(demos).segment(demos, 2).boundaries[0].tolist() != [8]


def test_other_methods_are_refused() -> None:
    with pytest.raises(ValueError, match=r"method is 'pelt': use"):
        ChangePoints("pelt")


def test_the_view_that_shows_boundaries_is_chosen() -> None:
    candidates = [ChangePoints(view=view) for view in views_for(plateaus(40))]
    choice = best_on(candidates, plateaus(40), plateaus(20, seed=1))
    assert choice.baseline == ChangePoints(view=View("states"))
    assert choice.f1 == 1
    demos = plateaus(20, seed=2)
    assert_found(choice.fitted.segment(demos, 3).boundaries, demos)
    with pytest.raises(ValueError, match=r"give at least one candidate"):
        best_on([], plateaus(6), plateaus(6))
    unknown = Demonstrations.from_arrays(None, [np.zeros(3, int)], num_actions=2)
    assert views_for(unknown) == [View("actions")]  # there is nothing else to see
    with pytest.raises(DemonstrationError, match=r"true boundaries of these demonstrations are not known"):
        best_on([EqualCuts()], unknown, unknown)
