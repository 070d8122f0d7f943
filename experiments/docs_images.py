"""Draws a sheet of demonstrations for the README, a row per world, each path coloured by its true segments.

python -m experiments.docs_images docs/images/worlds.png
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from compile_il.data import Demonstration
from compile_il.worlds import WORLDS
from compile_il.worlds import drawing as draw
from compile_il.worlds.demonstrate import demonstrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS, _PANEL_INCHES, _STRIP_INCHES = 5, 2.9, 0.7


def main(path: str) -> None:
    """Draws the sheet into a file."""
    from matplotlib.figure import Figure

    names = [name for name in WORLDS if not name.endswith("-window")]  # of the same levels, seen in part
    heights = [_STRIP_INCHES if name == "symbols" else _PANEL_INCHES for name in names]
    figure = Figure(figsize=(_PANEL_INCHES * _COLUMNS, sum(heights)), dpi=110, layout="constrained")
    rows = figure.subplots(len(names), _COLUMNS, squeeze=False, height_ratios=heights)
    for row, name in zip(rows, names, strict=True):
        for axes, demo in zip(row, demonstrate(name, num_demos=_COLUMNS), strict=True):
            draw_demonstration(axes, demo)
        row[0].set_title(name, loc="left", fontsize=13, fontweight="bold", color=draw.INK)
    figure.savefig(path)


def draw_demonstration(axes: Axes, demo: Demonstration) -> None:
    """Draws the grid or the arm with its path, one colour for each true segment, or a strip of symbols."""
    from matplotlib.patches import FancyBboxPatch

    assert demo.truth.boundaries is not None, "worlds know their boundaries"
    frames = demo.observations
    segments = np.searchsorted(demo.truth.boundaries, np.arange(len(demo.actions)), side="right")
    if frames.ndim == 4:
        draw.draw_grid(axes, frames[0], path=draw.player_cells(frames), segments=segments)
    elif frames.shape[1] > 0:
        draw.draw_reacher(axes, frames[-1], trail=draw.fingertips(frames), segments=segments)
    else:
        for step, symbol in enumerate(demo.actions.tolist()):
            color = draw.COLORS[symbol % len(draw.COLORS)]
            axes.add_patch(FancyBboxPatch((step + 0.12, 0.12), 0.76, 0.76, boxstyle="round,pad=0.05", color=color))
            axes.text(step + 0.5, 0.5, str(symbol), ha="center", va="center", color=draw.WHITE, fontsize=9)
        axes.set(xlim=(0, max(12, len(demo.actions))), ylim=(0, 1), aspect="equal")
        axes.set_axis_off()


if __name__ == "__main__":
    main(sys.argv[1])
