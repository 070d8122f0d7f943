"""Learning curves of agents, one panel per world, number of tasks and reward: figure 5, from its result file alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from compile_il.worlds.draw import INK, WHITE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

AGENT_COLORS = {
    "hierarchical, exact": "#d55e00",
    "hierarchical, CompILE": "#0072b2",
    "VAE-BC": "#b07aa1",
    "low-level": "#7d7d7d",
}
REACH = 1
"""Number of neighbours on either side that a smoothed point is averaged with."""
GUIDE = "#e3e1dc"


class Curve(NamedTuple):
    """Learning curve of one kind of agent in one panel."""

    steps: NDArray[np.float64]
    success: NDArray[np.float64]
    """Per cent of episodes solved, one row per seed, one column per entry of `steps`; NaN where no episode ended."""


def panels_of(result: dict[str, Any]) -> dict[str, dict[str, Curve]]:
    """Returns each agent's curve by panel, such as "grid-visit, 3 tasks, dense"; parts are named "panel: agent"."""
    panels: dict[str, dict[str, Curve]] = {}
    for name, part in result["figures"].items():
        panel, agent = name.split(": ", 1)
        success = np.array(part["curve"]["success"], float)  # None, where no episode has ended, is not a number
        panels.setdefault(panel, {})[agent] = Curve(np.array(part["curve"]["steps"], float), 100 * success)
    return panels


def smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Averages each point with its neighbours, as many on either side: a curve that rises does not begin too high.

    NaN stays NaN, and is left out of the means of its neighbours.
    """
    last = len(values) - 1
    reaches = [min(REACH, i, last - i) for i in range(last + 1)]
    around = [values[i - reach : i + reach + 1] for i, reach in enumerate(reaches)]
    return np.array([np.nan if np.isnan(own) else np.nanmean(row) for own, row in zip(values, around, strict=True)])


def draw_curves(result: dict[str, Any]) -> Figure:
    """Draws success while learning, a panel per task setting: each seed's curve as it came, pale, and smoothed."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = panels_of(result)
    num_columns = min(len(panels), 4)
    num_rows = -(-len(panels) // num_columns)
    figure = Figure(figsize=(2.6 * num_columns, 2.1 * num_rows + 0.5), dpi=150, facecolor=WHITE, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    for axes, (panel, curves) in zip(grid, panels.items(), strict=False):
        _draw_panel(axes, panel, curves)
    for axes in grid[::num_columns]:
        axes.set_ylabel("episodes solved, %", fontsize=7.5, color=INK)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    agents = list(dict.fromkeys(agent for curves in panels.values() for agent in curves))
    lines = [Line2D([], [], color=AGENT_COLORS[agent], linewidth=2) for agent in agents]
    figure.legend(lines, agents, loc="outside lower center", ncols=len(agents), frameon=False, fontsize=9)
    return figure


def _draw_panel(axes: Axes, panel: str, curves: dict[str, Curve]) -> None:
    for agent, curve in curves.items():
        for seed in curve.success:
            axes.plot(curve.steps / 1e6, seed, color=AGENT_COLORS[agent], alpha=0.25, linewidth=0.8)
            axes.plot(curve.steps / 1e6, smooth(seed), color=AGENT_COLORS[agent], linewidth=1.4)
    axes.set_title(panel, fontsize=9, color=INK)
    axes.set(ylim=(-3, 103), yticks=(0, 50, 100))
    axes.set_xlabel("million steps", fontsize=7.5, color=INK)
    axes.tick_params(length=0, labelsize=7.5, colors=INK)
    axes.grid(color=GUIDE, linewidth=0.6)
    axes.spines[:].set_visible(False)
