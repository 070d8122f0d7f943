"""A sheet of demonstrations, one row per world, each path coloured by its true segments."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compile_il.data import Demonstration, Demonstrations
from compile_il.worlds import drawing as draw
from compile_il.worlds.drawing import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES = 2.9
_STRIP_INCHES = 0.7


def draw_gallery(named_demos: dict[str, Demonstrations], num_columns: int = 5) -> Figure:
    """Draws the first demonstrations of each world, a row per world."""
    from matplotlib.figure import Figure

    heights = [_PANEL_INCHES if demos.observation_shape != (0,) else _STRIP_INCHES for demos in named_demos.values()]
    figure = Figure(figsize=(_PANEL_INCHES * num_columns, sum(heights)), dpi=110, layout="constrained")
    rows = figure.subplots(len(heights), num_columns, squeeze=False, height_ratios=heights)
    for axes_row, (name, demos) in zip(rows, named_demos.items(), strict=True):
        for column, axes in enumerate(axes_row):
            if column < len(demos):
                draw_demonstration(axes, demos[column])
            else:
                axes.set_axis_off()
        axes_row[0].set_title(name, loc="left", fontsize=13, fontweight="bold", color=draw.INK)
    return figure


def draw_demonstration(axes: Axes, demo: Demonstration) -> None:
    """Draws the grid or the arm with its path, or a strip of symbols, with one colour for each true segment."""
    segments = segment_of_step(demo)
    frames = demo.observations
    if frames.ndim == 4:
        draw.draw_grid(axes, frames[0], path=draw.player_cells(frames), segments=segments)
    elif frames.ndim == 2 and frames.shape[1] > 0:
        draw.draw_reacher(axes, frames[-1], trail=draw.fingertips(frames), segments=segments)
    else:
        _draw_symbols(axes, demo.actions)


def segment_of_step(demo: Demonstration) -> NDArray[np.int64]:
    """Returns the index of each step's true segment, from 0; all zeros where the truth is not known."""
    steps = np.arange(len(demo.actions))
    if demo.truth.boundaries is None:
        return np.zeros_like(steps)
    return np.searchsorted(demo.truth.boundaries, steps, side="right")


def _draw_symbols(axes: Axes, symbols: NDArray[np.int32]) -> None:
    from matplotlib.patches import FancyBboxPatch

    for step, symbol in enumerate(symbols):
        color = COLORS[int(symbol) % len(COLORS)]
        axes.add_patch(FancyBboxPatch((step + 0.12, 0.12), 0.76, 0.76, boxstyle="round,pad=0.05", color=color))
        axes.text(step + 0.5, 0.5, str(symbol), ha="center", va="center", color=draw.WHITE, fontsize=9)
    axes.set(xlim=(0, max(12, len(symbols))), ylim=(0, 1), aspect="equal")
    axes.set_axis_off()


def main(path: str) -> None:
    """Draws the gallery of the README into a file."""
    from compile_il.worlds import WORLDS
    from compile_il.worlds.demonstrate import demonstrate

    names = [name for name in WORLDS if not name.endswith("-window")]  # of the same levels, seen in part
    draw_gallery({name: demonstrate(name, num_demos=5) for name in names}).savefig(path)


if __name__ == "__main__":
    main(sys.argv[1])
