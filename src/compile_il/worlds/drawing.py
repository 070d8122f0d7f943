"""Drawings of the worlds, from observations alone, so that any saved demonstration can be drawn.

Matplotlib is imported inside the functions: worlds are stepped far more often than drawn.

Shapes and colours of the objects in drawings: ten things that nobody confuses, in colour or in grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.path import Path
from numpy.typing import NDArray

from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FLOOR, CHECK, WALL, WALL_EDGE = "#f6f3ec", "#efeadf", "#3d4756", "#2a323e"


INK, WHITE, PLAYER = "#1f2733", "#ffffff", "#ffffff"


PATH_COLORS = ("#1971c2", "#e8590c", "#2f9e44", "#9c36b5", "#c2255c", "#0b7285", "#5f3dc4", "#846358")
"""Colours of segments or skills along a path, used in turn."""


_IMAGE_INCHES, _IMAGE_DPI = 4.0, 120


def grid_image(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Image of the last observation of a grid with the path so far, as red, green and blue bytes."""
    figure, axes = _new_figure()
    draw_grid(axes, observations[-1], path=player_cells(observations))
    return figure_pixels(figure)


def reacher_image(observations: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Image of the last observation of the arm with the trail of its tip, as red, green and blue bytes."""
    figure, axes = _new_figure()
    draw_reacher(axes, observations[-1], trail=fingertips(observations))
    return figure_pixels(figure)


def player_cells(observations: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Row and column of the player in each observation: T x 2."""
    size = observations.shape[2]
    flat = observations[..., -1].reshape(len(observations), -1).argmax(axis=1)
    return np.stack([flat // size, flat % size], axis=1)


def arm_joints(observations: NDArray[np.float32]) -> NDArray[np.floating]:
    """Shoulder, elbow and tip of the arm in each observation: T x 3 x 2."""
    angles = np.stack([observations[:, -2], observations[:, -2] + observations[:, -1]], axis=1)
    links = LINK_LENGTH * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    return np.concatenate([np.zeros_like(links[:, :1]), np.cumsum(links, axis=1)], axis=1)


def fingertips(observations: NDArray[np.float32]) -> NDArray[np.floating]:
    """Position (x, y) of the arm's tip in each observation: T x 2."""
    return arm_joints(observations)[:, 2]


def draw_grid(
    axes: Axes,
    observation: NDArray[np.uint8],
    *,
    path: NDArray[np.int64] | None = None,
    segments: NDArray[np.int64] | None = None,
) -> None:
    """Draws a state of the grid world: walls, objects, the player and, where given, a path.

    Args:
      axes: where to draw.
      observation: rows x columns x channels, as the world gives it.
      path: row and column of the player over time, T + 1 of them.
      segments: for each of the T steps a number that picks the colour of its piece of the path.
    """
    from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

    num_rows, num_columns, num_channels = observation.shape
    axes.add_patch(Rectangle((-0.5, -0.5), num_columns, num_rows, facecolor=FLOOR, zorder=0))
    for row in range(num_rows):
        for column in range(num_columns):
            if observation[row, column, num_channels - 2]:
                box = FancyBboxPatch(
                    (column - 0.42, row - 0.42),
                    0.84,
                    0.84,
                    boxstyle="round,pad=0.06,rounding_size=0.14",
                    linewidth=0.6,
                )
                box.set(facecolor=WALL, edgecolor=WALL_EDGE, zorder=1)
                axes.add_patch(box)
            elif (row + column) % 2:
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=CHECK, zorder=0.5))
    if path is not None:
        draw_path(
            axes,
            path[:, ::-1] + _lanes(path)[:, ::-1],
            segments,
            width=0.1 * _points_per_unit(axes, num_rows),
        )
    for row, column, kind in np.argwhere(observation[..., : num_channels - 2]).tolist():
        draw_object(axes, column, row, kind)
    for row, column in np.argwhere(observation[..., num_channels - 1]).tolist():
        axes.add_patch(Circle((column, row), 0.3, facecolor=PLAYER, edgecolor=INK, linewidth=1.6, zorder=5))
        for eye in (-0.1, 0.1):
            axes.add_patch(Circle((column + eye, row - 0.06), 0.045, facecolor=INK, zorder=6))
    _frame(axes, (-0.5, num_columns - 0.5), (num_rows - 0.5, -0.5))


def draw_object(axes: Axes, x: float, y: float, kind: int, scale: float = 0.32) -> None:
    """Draws one object of the grid world; y points down, as rows do."""
    from matplotlib.patches import PathPatch
    from matplotlib.transforms import Affine2D

    from compile_il.worlds.drawing import COLORS, GLYPHS

    shape = GLYPHS[kind % len(GLYPHS)].transformed(Affine2D().scale(scale, -scale).translate(x, y))
    # Beyond ten types shapes return, in other colours.
    color = COLORS[(kind + 3 * (kind // len(GLYPHS))) % len(COLORS)]
    axes.add_patch(PathPatch(shape, facecolor=color, edgecolor=WHITE, linewidth=0.7, zorder=4))


def draw_reacher(
    axes: Axes,
    observation: NDArray[np.float32],
    *,
    trail: NDArray[np.floating] | None = None,
    segments: NDArray[np.int64] | None = None,
) -> None:
    """Draws the arm, its targets (hollow once they are reached) and, where given, the trail of the tip."""
    from matplotlib.patches import Circle

    from compile_il.worlds.drawing import COLORS

    reach = 2 * LINK_LENGTH
    axes.add_patch(Circle((0, 0), reach, facecolor=FLOOR, edgecolor=CHECK, linewidth=1.5, zorder=0))
    for kind, (alpha, x, y) in enumerate(observation[:-2].reshape(-1, 3)):
        if alpha == 0 and x == 0 and y == 0:
            continue
        color = COLORS[kind % len(COLORS)]
        style = {"facecolor": color, "edgecolor": WHITE} if alpha > 0 else {"facecolor": "none", "edgecolor": color}
        axes.add_patch(Circle((x, y), TARGET_RADIUS, linewidth=1.4, zorder=2, **style))
    if trail is not None:
        draw_path(axes, trail, segments, width=2.2)
    arm = arm_joints(observation[None])[0]
    axes.plot(
        *arm.T,
        color=INK,
        linewidth=6.5,
        alpha=0.88,
        solid_capstyle="round",
        solid_joinstyle="round",
        zorder=4,
    )
    axes.plot(*arm[:2].T, "o", color=WHITE, markersize=4.5, zorder=5)
    axes.add_patch(Circle((arm[2, 0], arm[2, 1]), 0.009, facecolor=PLAYER, edgecolor=INK, linewidth=1.6, zorder=6))
    limit = reach * 1.04
    _frame(axes, (-limit, limit), (-limit, limit))


def draw_path(axes: Axes, points: NDArray[np.floating], segments: NDArray[np.int64] | None, width: float) -> None:
    """Draws a line through T + 1 points (x, y), in one colour for each segment, or fading in from the past."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    num_steps = len(points) - 1
    if num_steps < 1:
        return
    if segments is None:
        # Mixed with the floor's colour rather than transparent: overlapping ends would show as dots.
        strength = np.linspace(0.3, 1.0, num_steps)[:, None]
        shades = strength * np.array(to_rgba(PATH_COLORS[0])) + (1 - strength) * np.array(to_rgba(FLOOR))
    else:
        shades = np.array([to_rgba(PATH_COLORS[int(segment) % len(PATH_COLORS)]) for segment in segments])
        ends = np.flatnonzero(np.append(np.diff(segments) != 0, True))
        axes.scatter(
            points[ends + 1, 0], points[ends + 1, 1], s=(2.4 * width) ** 2, color=shades[ends], zorder=3.5, linewidths=0
        )
    lines = np.stack([points[:-1], points[1:]], axis=1)
    axes.add_collection(LineCollection(list(lines), colors=shades, linewidths=width, capstyle="round", zorder=3))


def _lanes(path: NDArray[np.int64]) -> NDArray[np.floating]:
    """Small shifts of a path's points, so that it stays readable where it returns over its own cells."""
    seen: dict[tuple[int, int], int] = {}
    lanes = []
    previous = None
    for cell in map(tuple, path.tolist()):
        if cell != previous:
            seen[cell] = seen.get(cell, -1) + 1
        lanes.append(0.13 * min(seen[cell], 2))
        previous = cell
    return np.repeat(np.array(lanes)[:, None], 2, axis=1)


def _points_per_unit(axes: Axes, num_units: int) -> float:
    """Printer's points that one cell will measure once the axes show `num_units` of them."""
    height = axes.get_window_extent().height / axes.figure.dpi * 72
    return float(height) / num_units


def _new_figure() -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_IMAGE_INCHES, _IMAGE_INCHES), dpi=_IMAGE_DPI, facecolor=WHITE)
    return figure, figure.add_axes((0.0, 0.0, 1.0, 1.0))


def figure_pixels(figure: Figure) -> NDArray[np.uint8]:
    """A figure as an array of red, green and blue bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _frame(axes: Axes, x_limits: tuple[float, float], y_limits: tuple[float, float]) -> None:
    axes.set(xlim=x_limits, ylim=y_limits, aspect="equal")
    axes.set_axis_off()


Points = NDArray[np.float64]


COLORS = (
    "#e03e52",  # heart
    "#2b8a3e",  # tree
    "#f2b705",  # star
    "#1098ad",  # gem
    "#6741d9",  # moon
    "#c2740c",  # bell
    "#1c7ed6",  # drop
    "#d6336c",  # flag
    "#5c677d",  # key
    "#fd7e14",  # sun
)


def _closed(points: Points | list[tuple[float, float]]) -> Path:
    points = np.asarray(points, float)
    return Path(np.concatenate([points, points[:1]]), closed=True)


def _arc(start: float, stop: float, radius: float = 1.0, center: tuple[float, float] = (0.0, 0.0)) -> Points:
    """Points on a circle between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, 40))
    return np.stack([center[0] + radius * np.cos(angle), center[1] + radius * np.sin(angle)], axis=1)


def _heart() -> Path:
    t = np.linspace(0, 2 * np.pi, 80)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return _closed(np.stack([x / 17, (y + 2.5) / 15], axis=1))


def _tree() -> Path:
    right = [
        (0.0, 1.0),
        (0.55, 0.3),
        (0.28, 0.3),
        (0.72, -0.25),
        (0.4, -0.25),
        (0.85, -0.72),
        (0.16, -0.72),
        (0.16, -1.0),
    ]
    return _closed(right + [(-x, y) for x, y in reversed(right[1:])])


def _star() -> Path:
    return _closed(np.asarray(Path.unit_regular_star(5, 0.45).vertices, float))


def _gem() -> Path:
    return _closed([(-0.55, 0.75), (0.55, 0.75), (1.0, 0.2), (0.0, -0.95), (-1.0, 0.2)])


def _moon() -> Path:
    # The inner arc runs back from the lower horn to the upper one, round the left of a circle that passes through both.
    return _closed(np.concatenate([_arc(50, 310, 0.95), _arc(282.4, 77.6, 0.747, (0.45, 0.0))]))


def _bell() -> Path:
    dome = _arc(0, 180, 0.52, (0.0, 0.3))
    brim = [(-0.52, -0.2), (-0.9, -0.6), (-0.22, -0.6)]
    clapper = _arc(180, 360, 0.22, (0.0, -0.66))
    return _closed(np.concatenate([dome, brim, clapper, [(0.22, -0.6), (0.9, -0.6), (0.52, -0.2)]]))


def _drop() -> Path:
    return _closed(np.concatenate([[(0.0, 1.0)], _arc(150, 390, 0.66, (0.0, -0.3))]))


def _flag() -> Path:
    return _closed([(-0.62, 1.0), (0.85, 0.5), (-0.38, 0.02), (-0.38, -1.0), (-0.62, -1.0)])


def _key() -> Path:
    bow, hole = _closed(_arc(0, 360, 0.58, (0.0, 0.5))), _closed(_arc(360, 0, 0.22, (0.0, 0.5)))
    blade, bit = [(-0.17, 0.0), (-0.17, -1.05), (0.62, -1.05), (0.62, -0.74)], [(0.52, -0.52), (0.52, -0.24)]
    shaft = _closed([*blade, (0.17, -0.74), (0.17, -0.52), *bit, (0.17, -0.24), (0.17, 0.0)])
    return Path.make_compound_path(bow, hole, shaft)


def _sun() -> Path:
    points = []
    for ray in range(10):
        middle = 36.0 * ray
        points += [
            _arc(middle - 12, middle - 11, 0.62),
            _arc(middle, middle + 1, 1.0),
            _arc(middle + 12, middle + 13, 0.62),
        ]
    return _closed(np.concatenate(points))


GLYPHS = (
    _heart(),
    _tree(),
    _star(),
    _gem(),
    _moon(),
    _bell(),
    _drop(),
    _flag(),
    _key(),
    _sun(),
)
"""One shape for each of the names in `grid.OBJECT_NAMES`, in the box from -1 to 1."""
