"""Learning curves of figure 5, from logs."""

from typing import Any

from experiments.paper.agents import NUM_POINTS, curve_of


def row(steps: int, *success: float | None) -> dict[str, Any]:
    return {"steps": float(steps), "by_seed": [{"success": value, "reward": value} for value in success]}


def test_short_logs_are_kept_as_they_are() -> None:
    found = curve_of([row(10, 0.1, None), row(20, 0.3, 0.5)])
    assert found == {"steps": [10, 20], "success": [[0.1, 0.3], [None, 0.5]], "reward": [[0.1, 0.3], [None, 0.5]]}


def test_long_ones_are_averaged_and_nothing_is_left_out() -> None:
    found = curve_of([row(n + 1, float(n % 5), None if n % 2 else 1.0) for n in range(5 * NUM_POINTS)])
    assert found["steps"] == [5 * n for n in range(1, NUM_POINTS + 1)]
    assert found["success"] == [[2.0] * NUM_POINTS, [1.0] * NUM_POINTS]
