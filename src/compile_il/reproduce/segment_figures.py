"""Soft segments of one demonstration, as several models see them: drawn from `qualitative.json` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.worlds.draw import INK, WHITE
from compile_il.worlds.grid import OBJECT_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEGMENT_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours of segments in order, after Okabe and Ito, as are those of methods in `score_figures`."""


class SegmentRow(NamedTuple):
    """How much the steps of the demonstration belong to each segment, for one model at one time of its training."""

    method: str
    when: str
    shares: NDArray[np.floating]


def draw_segments(result: dict[str, Any]) -> Figure:
    """Draws how much each step of one demonstration belongs to each segment: a column per step, a panel per model."""
    from matplotlib.figure import Figure

    rows = segment_rows(result)
    shown = next(iter(result["figures"].values()))["portrait"]["segments"]
    figure = Figure(figsize=(9.2, 0.75 + 0.78 * len(rows)), dpi=150, facecolor=WHITE, layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axes, row in zip(panels, rows, strict=True):
        _draw_shares(axes, row.shares, shown["boundaries"])
        words = f"{row.method}\n{row.when}"
        axes.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=9, color=INK, labelpad=8)
    _mark_tasks(panels[0], shown["tasks"], shown["boundaries"], rows[0].shares.shape[1])
    panels[-1].set_xlabel("step of the demonstration; lines are its true boundaries", fontsize=9, color=INK)
    panels[-1].tick_params(axis="x", length=0, labelsize=8, colors=INK)
    return figure


def segment_rows(result: dict[str, Any]) -> list[SegmentRow]:
    """Returns a row for each method early and late in training; of relaxed boundaries, q before a sample from it."""
    rows = []
    figures = result["figures"]
    for name in sorted(figures, key=lambda name: (name.split(", ")[0], not name.endswith("early"))):
        steps = result["config"]["parts"][name]["config"]["num_iterations"]
        segments = figures[name]["portrait"]["segments"]
        when = f"{steps:,} iteration{'s' if steps > 1 else ''}"
        rows.append(SegmentRow(name.split(", ")[0], when, np.array(segments["probs"])))
        if "sample" in segments:
            rows.append(SegmentRow(name.split(", ")[0], f"{when}, a sample", np.array(segments["sample"])))
    return rows


def _draw_shares(axes: Axes, shares: NDArray[np.floating], boundaries: list[int]) -> None:
    num_steps = shares.shape[1]
    below = np.zeros(num_steps)
    for number, share in enumerate(shares):
        color = SEGMENT_COLORS[number % len(SEGMENT_COLORS)]
        axes.bar(np.arange(num_steps) + 0.5, share, width=0.94, bottom=below, color=color, linewidth=0)
        below = below + share
    for boundary in boundaries:
        axes.axvline(boundary, color=INK, linewidth=1.6)
    axes.set(xlim=(0, num_steps), ylim=(0, 1), yticks=(), xticks=range(0, num_steps + 1, 2))
    axes.tick_params(axis="x", length=0)
    axes.spines[:].set_visible(False)


def _mark_tasks(axes: Axes, tasks: list[int], boundaries: list[int], num_steps: int) -> None:
    """Writes each task above its true segment."""
    ends = [0, *boundaries, num_steps]
    for task, start, end in zip(tasks, ends[:-1], ends[1:], strict=True):
        words = f"pick up {OBJECT_NAMES[task]}"
        axes.text((start + end) / 2, 1.12, words, ha="center", va="bottom", fontsize=9, color=INK, fontweight="bold")
