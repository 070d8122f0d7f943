"""Draws portraits of models, as `qualitative.json` holds them: soft segments, skills at work, and where they stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compile_il.worlds.drawing import INK, OBJECT_LETTERS, PLAYER_LETTER, WALL_LETTER, WHITE, draw_grid, draw_path
from compile_il.worlds.grid import OBJECT_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CROSS, FAINT = "#d6203a", "#8b867c"
SEGMENT_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours of segments in order, after Okabe and Ito, as are those of methods in `figures`."""
_COLUMNS, _PANEL_INCHES = 5, 1.75


def draw_skills(portrait: dict[str, Any]) -> Figure:
    """Draws each skill on the same level until it stops, with a red cross on what it picked up, as in the paper."""
    observation = observation_of_text(portrait["level"])
    figure, panels = _sheet(len(portrait["skills"]))
    for number, (axes, skill) in enumerate(zip(panels, portrait["skills"], strict=True)):
        path = np.stack(np.divmod(skill["path"], observation.shape[1]), axis=1)
        draw_grid(axes, observation)
        draw_path(axes, path[:, ::-1].astype(float), np.zeros(len(path) - 1, np.int64), width=2.4)
        if skill["taken"] is not None:
            row, column = divmod(skill["taken"], observation.shape[1])
            # Behind the object, which has to be seen as well.
            axes.plot(column, row, "x", color=CROSS, markersize=17, markeredgewidth=1.7, zorder=3.8)
        # Half of the wall around the level is enough to see it.
        axes.set(xlim=(0, observation.shape[1] - 1), ylim=(observation.shape[0] - 1, 0))
        num_steps = len(path) - 1
        note = f"{num_steps} step{'s' if num_steps > 1 else ''}" if skill["stopped"] else "does not stop"
        inferred = number == portrait["found"]
        _title(axes, number, f"inferred · {note}" if inferred else note, bold=inferred)
    return figure


def draw_terminations(portrait: dict[str, Any]) -> Figure:
    """Draws for each skill the cells in which it stops, over many levels; the outer ring is wall and is left out."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    side = len(portrait["level"])
    counts = np.array([skill["terminations"] for skill in portrait["skills"]])
    shares = 100 * counts.reshape(-1, side, side) / portrait["num_levels"]
    shades = LinearSegmentedColormap.from_list("stops", ("#f6f3ec", "#9ecae1", "#2171b5", "#08306b", "#041b3d"))
    scale = Normalize(0, max(shares.max(), 1))
    figure, panels = _sheet(len(shares))
    for number, (axes, share) in enumerate(zip(panels, shares, strict=True)):
        axes.imshow(share[1:-1, 1:-1], cmap=shades, norm=scale)
        axes.set(xticks=(), yticks=())
        axes.spines[:].set(color=FAINT, linewidth=0.6)
        stops = portrait["skills"][number]["num_stopped"] / portrait["num_levels"]
        _title(axes, number, f"stops in {100 * stops:.0f} %")
    legend = ScalarMappable(scale, shades)
    bar = figure.colorbar(legend, ax=panels, shrink=0.6, aspect=24, pad=0.015, ticks=MaxNLocator(5, integer=True))
    bar.set_label("per cent of levels", fontsize=9, color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, colors=INK)
    return figure


def observation_of_text(rows: list[str]) -> NDArray[np.uint8]:
    """Turns the text that `grid_text` wrote into an observation again."""
    cells = np.array([list(row) for row in rows])
    num_types = len(OBJECT_NAMES)
    letters = [*OBJECT_LETTERS[:num_types], WALL_LETTER, PLAYER_LETTER]
    return np.stack([cells == letter for letter in letters], axis=-1).astype(np.uint8)


def _sheet(num_panels: int) -> tuple[Figure, list[Axes]]:
    """Makes a figure with so many panels, in rows of five."""
    from matplotlib.figure import Figure

    num_rows = -(-num_panels // _COLUMNS)
    size = (_COLUMNS * _PANEL_INCHES + 0.2, num_rows * (_PANEL_INCHES + 0.22))
    figure = Figure(figsize=size, dpi=150, facecolor=WHITE, layout="constrained")
    every = list(figure.subplots(num_rows, _COLUMNS, squeeze=False).flat)
    for axes in every[num_panels:]:
        axes.set_axis_off()
    return figure, every[:num_panels]


def _title(axes: Axes, number: int, note: str, *, bold: bool = False) -> None:
    weight = "bold" if bold else "normal"
    axes.set_title(f"skill {number}", loc="left", fontsize=9.5, color=INK, fontweight=weight)
    axes.set_title(note, loc="right", fontsize=7.5, color=INK if bold else FAINT, fontweight=weight)


def draw_segments(result: dict[str, Any]) -> Figure:
    """Draws how much each step of one demonstration belongs to each segment: a column per step, a panel per model."""
    from matplotlib.figure import Figure

    rows = segment_rows(result)
    shown = next(iter(result["figures"].values()))["portrait"]["segments"]
    figure = Figure(figsize=(9.2, 0.75 + 0.78 * len(rows)), dpi=150, facecolor=WHITE, layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (words, shares) in zip(panels, rows, strict=True):
        _draw_shares(axes, shares, shown["boundaries"])
        axes.set_ylabel(words, rotation=0, ha="right", va="center", fontsize=9, color=INK, labelpad=8)
    ends = [0, *shown["boundaries"], rows[0][1].shape[1]]
    for task, start, end in zip(shown["tasks"], ends[:-1], ends[1:], strict=True):
        words, place = f"pick up {OBJECT_NAMES[task]}", ((start + end) / 2, 1.12)
        panels[0].text(*place, words, ha="center", va="bottom", fontsize=9, color=INK, fontweight="bold")
    panels[-1].set_xlabel("step of the demonstration; lines are its true boundaries", fontsize=9, color=INK)
    panels[-1].tick_params(axis="x", length=0, labelsize=8, colors=INK)
    return figure


def segment_rows(result: dict[str, Any]) -> list[tuple[str, NDArray[np.floating]]]:
    """Returns label and shares of each method early and late in training; of relaxed boundaries q, then a sample."""
    rows = []
    figures = result["figures"]
    for name in sorted(figures, key=lambda name: (name.split(", ")[0], not name.endswith("early"))):
        steps = result["config"]["parts"][name]["config"]["num_iterations"]
        words = f"{name.split(', ')[0]}\n{steps:,} iteration{'s' if steps > 1 else ''}"
        for kind, more in (("probs", ""), ("sample", ", a sample")):
            if kind in (segments := figures[name]["portrait"]["segments"]):
                rows.append((words + more, np.array(segments[kind])))
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
