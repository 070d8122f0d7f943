"""Curves of a training: one small chart for each quantity of its log."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from compile_il.report.markup import count, per_cent, points, stretched, tag, text

_MAX_POINTS = 300


class Quantity(NamedTuple):
    """Column of a training log: its key, its name on the page, and whether it is a share between 0 and 1."""

    key: str
    name: str
    share: bool


QUANTITIES = (
    Quantity("loss", "Loss", False),
    Quantity("held_out_log_likelihood", "Held-out log-likelihood", False),
    Quantity("boundary_accuracy", "Boundary accuracy", True),
    Quantity("loss_reconstruction", "Loss of reconstruction", False),
    Quantity("loss_codes", "Loss of codes", False),
    Quantity("loss_boundaries", "Loss of boundaries", False),
    Quantity("loss_termination", "Loss of termination", False),
    Quantity("temperature", "Temperature", False),
)


def draw_curves(history: Sequence[Mapping[str, Any]]) -> str:
    """Draws charts of what the log holds; empty where it holds fewer than two values of each."""
    charts = [chart for quantity in QUANTITIES if (chart := _draw_curve(history, quantity))]
    if not charts:
        return ""
    seconds = [value for row in history if (value := _value(row, "seconds")) is not None]
    took = f" It took {_time(max(seconds))}." if seconds else ""
    iterations = [value for row in history if (value := _value(row, "iteration")) is not None]
    steps = f" over {count(int(max(iterations)), 'iteration')}" if iterations else ""
    note = tag("p", text(f"How the model learned{steps}.{took}"), class_="note")
    return tag("section", tag("h2", "Training"), note, tag("div", *charts, class_="curves"))


def _draw_curve(history: Sequence[Mapping[str, Any]], quantity: Quantity) -> str:
    pairs = []
    for order, row in enumerate(history):
        value, at = _value(row, quantity.key), _value(row, "iteration")
        if value is not None:
            pairs.append((float(order) if at is None else at, value))
    if len(pairs) < 2:
        return ""
    stride = -(-len(pairs) // _MAX_POINTS)
    # Counted from the end, so that the last value is always drawn.
    x, y = np.array(pairs[::-1][::stride][::-1]).T
    low, high = (0.0, 1.0) if quantity.share else (float(y.min()), float(y.max()))
    spread = (high - low) or 1.0
    line = np.stack([x - x[0], (high - y) / spread], axis=1)
    width = float(x[-1] - x[0]) or 1.0
    show = per_cent if quantity.share else _plain
    label = f"{quantity.name}: from {show(float(y[0]))} to {show(float(y[-1]))}"
    curve = tag("polyline", points=points(line), class_="curve")
    chart = stretched(width, 1, curve, label=label, class_="plot")
    scale = tag("div", tag("span", text(show(high))), tag("span", text(show(low))), class_="scale")
    ends = tag("div", tag("span", f"{x[0]:,.0f}"), tag("span", f"{x[-1]:,.0f}"), class_="axis")
    title = tag("figcaption", text(quantity.name), tag("b", text(show(float(y[-1])))))
    return tag("figure", title, tag("div", scale, chart, class_="plot-row"), ends, class_="chart")


def _value(row: Mapping[str, Any], key: str) -> float | None:
    """Returns a number of a row of the log; None where it is missing or not a finite number."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        return None
    return float(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")


def _time(seconds: float) -> str:
    if seconds < 120:
        return count(round(seconds), "second")
    return count(round(seconds / 60), "minute") if seconds < 7200 else f"{seconds / 3600:.1f} hours"
