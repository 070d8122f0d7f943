"""Draws observations of the worlds, as text for terminals and tests, and with matplotlib as images.

Matplotlib is imported inside the functions: worlds are stepped far more often than drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WALL_LETTER, FLOOR_LETTER, PLAYER_LETTER = "#", ".", "@"
OBJECT_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

FLOOR, CHECK, WALL, WALL_EDGE = "#f6f3ec", "#efeadf", "#3d4756", "#2a323e"
INK, WHITE, PLAYER = "#1f2733", "#ffffff", "#ffffff"
PATH_COLORS = ("#1971c2", "#e8590c", "#2f9e44", "#9c36b5", "#c2255c", "#0b7285", "#5f3dc4", "#846358")
"""Colours of segments or skills along a path, used in turn."""
COLORS = ("#e03e52", "#2b8a3e", "#f2b705", "#1098ad", "#6741d9", "#c2740c", "#1c7ed6", "#d6336c", "#5c677d", "#fd7e14")
"""Colours of the types of objects (in the order of `grid.OBJECT_NAMES`) and targets, used in turn."""

_PLOT_ROWS, _PLOT_COLUMNS = 21, 43
_REACH = 2 * LINK_LENGTH


def grid_text(observation: NDArray[np.uint8]) -> str:
    """Writes one character a cell: `#` wall, `.` floor, `@` player, `A` an object of type 0, `B` of type 1, ..."""
    num_types = observation.shape[-1] - 2
    picture = np.full(observation.shape[:2], FLOOR_LETTER)
    for kind in range(num_types):
        picture[observation[..., kind] > 0] = OBJECT_LETTERS[kind % len(OBJECT_LETTERS)]
    picture[observation[..., num_types] > 0] = WALL_LETTER
    picture[observation[..., num_types + 1] > 0] = PLAYER_LETTER
    return "\n".join("".join(row) for row in picture)


def reacher_text(observation: NDArray[np.float32]) -> str:
    """Plots the arm from above: `+` shoulder, `o` elbow, `@` tip, a letter for each target (small once reached)."""
    picture = np.full((_PLOT_ROWS, _PLOT_COLUMNS), " ")

    def put(x: float, y: float, letter: str) -> None:
        row, column = (_REACH - y) / (2 * _REACH) * (_PLOT_ROWS - 1), (x + _REACH) / (2 * _REACH) * (_PLOT_COLUMNS - 1)
        picture[round(row), round(column)] = letter

    for kind, alpha, x, y in _targets(observation):
        letter = OBJECT_LETTERS[kind % len(OBJECT_LETTERS)]
        put(x, y, letter if alpha > 0 else letter.lower())
    for (x, y), letter in zip(arm_joints(observation[None])[0], ("+", "o", PLAYER_LETTER), strict=True):
        put(x, y, letter)
    return "\n".join("".join(row) for row in picture)


def player_cells(observations: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Returns row and column of the player in each observation: T x 2."""
    size = observations.shape[2]
    flat = observations[..., -1].reshape(len(observations), -1).argmax(axis=1)
    return np.stack([flat // size, flat % size], axis=1)


def arm_joints(observations: NDArray[np.float32]) -> NDArray[np.floating]:
    """Returns shoulder, elbow and tip of the arm in each observation: T x 3 x 2."""
    angles = np.stack([observations[:, -2], observations[:, -2] + observations[:, -1]], axis=1)
    links = LINK_LENGTH * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    return np.concatenate([np.zeros_like(links[:, :1]), np.cumsum(links, axis=1)], axis=1)


def fingertips(observations: NDArray[np.float32]) -> NDArray[np.floating]:
    """Returns the position (x, y) of the arm's tip in each observation: T x 2."""
    return arm_joints(observations)[:, 2]


def _targets(observation: NDArray[np.float32]) -> list[tuple[int, float, float, float]]:
    """Returns type, visibility, x and y of each target in the scene."""
    rows = enumerate(observation[:-2].reshape(-1, 3).tolist())
    return [(kind, alpha, x, y) for kind, (alpha, x, y) in rows if alpha or x or y]


def grid_image(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Draws the last observation of a grid with the path so far, as red, green and blue bytes."""
    return _render(lambda axes: draw_grid(axes, observations[-1], path=player_cells(observations)))


def reacher_image(observations: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Draws the last observation of the arm with the trail of its tip, as red, green and blue bytes."""
    return _render(lambda axes: draw_reacher(axes, observations[-1], trail=fingertips(observations)))


def _render(draw: Callable[[Axes], None]) -> NDArray[np.uint8]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.0, 4.0), dpi=120, facecolor=WHITE)
    draw(figure.add_axes((0.0, 0.0, 1.0, 1.0)))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_grid(
    axes: Axes,
    observation: NDArray[np.uint8],
    *,
    path: NDArray[np.int64] | None = None,
    segments: NDArray[np.int64] | None = None,
) -> None:
    """Draws a state of the grid world: walls, objects, the player and, where given, a path.

    The path is the player's row and column at T + 1 times; `segments` picks the colour of each of its T pieces.
    """
    from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

    num_rows, num_columns, num_channels = observation.shape
    axes.add_patch(Rectangle((-0.5, -0.5), num_columns, num_rows, facecolor=FLOOR, zorder=0))
    for row in range(num_rows):
        for column in range(num_columns):
            if observation[row, column, num_channels - 2]:
                corner, shape = (column - 0.42, row - 0.42), "round,pad=0.06,rounding_size=0.14"
                box = FancyBboxPatch(corner, 0.84, 0.84, boxstyle=shape, linewidth=0.6)
                box.set(facecolor=WALL, edgecolor=WALL_EDGE, zorder=1)
                axes.add_patch(box)
            elif (row + column) % 2:
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=CHECK, zorder=0.5))
    if path is not None:
        points_per_cell = axes.get_window_extent().height / axes.figure.dpi * 72 / num_rows
        draw_path(axes, path[:, ::-1] + _lanes(path), segments, width=0.1 * points_per_cell)
    for row, column, kind in np.argwhere(observation[..., : num_channels - 2]).tolist():
        _draw_object(axes, column, row, kind)
    for row, column in np.argwhere(observation[..., num_channels - 1]).tolist():
        axes.add_patch(Circle((column, row), 0.3, facecolor=PLAYER, edgecolor=INK, linewidth=1.6, zorder=5))
        for eye in (-0.1, 0.1):
            axes.add_patch(Circle((column + eye, row - 0.06), 0.045, facecolor=INK, zorder=6))
    _frame(axes, (-0.5, num_columns - 0.5), (num_rows - 0.5, -0.5))


def _draw_object(axes: Axes, x: float, y: float, kind: int) -> None:
    """Draws one object of the grid world; y points down, as rows do."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    # A closed path has one point more, which matplotlib ignores.
    outlines = [np.concatenate([outline, outline[:1]]) for outline in GLYPHS[kind % len(GLYPHS)]]
    parts = [Path(0.32 * outline * (1, -1) + (x, y), closed=True) for outline in outlines]
    shape = Path.make_compound_path(*parts)
    # Beyond ten types shapes return, in other colours.
    color = COLORS[(kind + 3 * (kind // len(GLYPHS))) % len(COLORS)]
    axes.add_patch(PathPatch(shape, facecolor=color, edgecolor=WHITE, linewidth=0.7, zorder=4))


def _lanes(path: NDArray[np.int64]) -> NDArray[np.floating]:
    """Returns a small shift of each point of a path, so that a path that crosses itself stays readable."""
    cells, lanes = list(map(tuple, path.tolist())), []
    visits: dict[tuple[int, ...], int] = {}
    for cell, previous in zip(cells, [None, *cells], strict=False):
        visits[cell] = visits.get(cell, -1) + (cell != previous)
        lanes.append(0.13 * min(visits[cell], 2))
    return np.array(lanes)[:, None]


def draw_reacher(
    axes: Axes,
    observation: NDArray[np.float32],
    *,
    trail: NDArray[np.floating] | None = None,
    segments: NDArray[np.int64] | None = None,
) -> None:
    """Draws the arm, its targets (hollow once they are reached) and, where given, the trail of the tip."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), _REACH, facecolor=FLOOR, edgecolor=CHECK, linewidth=1.5, zorder=0))
    for kind, alpha, x, y in _targets(observation):
        color = COLORS[kind % len(COLORS)]
        style = {"facecolor": color, "edgecolor": WHITE} if alpha > 0 else {"facecolor": "none", "edgecolor": color}
        axes.add_patch(Circle((x, y), TARGET_RADIUS, linewidth=1.4, zorder=2, **style))
    if trail is not None:
        draw_path(axes, trail, segments, width=2.2)
    arm = arm_joints(observation[None])[0]
    (line,) = axes.plot(*arm.T, color=INK, linewidth=6.5, alpha=0.88, zorder=4)
    line.set(solid_capstyle="round", solid_joinstyle="round")
    axes.plot(*arm[:2].T, "o", color=WHITE, markersize=4.5, zorder=5)
    axes.add_patch(Circle((arm[2, 0], arm[2, 1]), 0.009, facecolor=PLAYER, edgecolor=INK, linewidth=1.6, zorder=6))
    _frame(axes, (-1.04 * _REACH, 1.04 * _REACH), (-1.04 * _REACH, 1.04 * _REACH))


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
        x, y = points[ends + 1].T
        axes.scatter(x, y, s=(2.4 * width) ** 2, color=shades[ends], zorder=3.5, linewidths=0)
    lines = np.stack([points[:-1], points[1:]], axis=1)
    axes.add_collection(LineCollection(list(lines), colors=shades, linewidths=width, capstyle="round", zorder=3))


def _frame(axes: Axes, x_limits: tuple[float, float], y_limits: tuple[float, float]) -> None:
    axes.set(xlim=x_limits, ylim=y_limits, aspect="equal")
    axes.set_axis_off()


def _arc(start: float, stop: float, radius: float = 1.0, x: float = 0.0, y: float = 0.0) -> NDArray[np.float64]:
    """Returns points on a circle around (x, y) between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, 40))
    return np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1)


def _heart() -> NDArray[np.float64]:
    t = np.linspace(0, 2 * np.pi, 80)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x / 17, (y + 2.5) / 15], axis=1)


def _tree() -> NDArray[np.float64]:
    x = np.array([0.0, 0.55, 0.28, 0.72, 0.4, 0.85, 0.16, 0.16])
    y = np.array([1.0, 0.3, 0.3, -0.25, -0.25, -0.72, -0.72, -1.0])
    return np.stack([np.append(x, -x[:0:-1]), np.append(y, y[:0:-1])], axis=1)


def _star() -> NDArray[np.float64]:
    angle, radius = np.pi * (0.5 + np.arange(10) / 5), np.where(np.arange(10) % 2, 0.45, 1.0)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _bell() -> NDArray[np.float64]:
    dome, clapper = _arc(0, 180, 0.52, y=0.3), _arc(180, 360, 0.22, y=-0.66)
    left, right = [(-0.52, -0.2), (-0.9, -0.6), (-0.22, -0.6)], [(0.22, -0.6), (0.9, -0.6), (0.52, -0.2)]
    return np.concatenate([dome, left, clapper, right])


def _sun() -> NDArray[np.float64]:
    rays = [((-12, -11, 0.62), (0, 1, 1.0), (12, 13, 0.62)) for _ in range(10)]
    return np.concatenate([_arc(36 * i + a, 36 * i + b, r) for i, ray in enumerate(rays) for a, b, r in ray])


def _key() -> tuple[NDArray[np.float64], ...]:
    x = [-0.17, -0.17, 0.62, 0.62, 0.17, 0.17, 0.52, 0.52, 0.17, 0.17]
    y = [0.0, -1.05, -1.05, -0.74, -0.74, -0.52, -0.52, -0.24, -0.24, 0.0]
    bow, hole = _arc(0, 360, 0.58, y=0.5), _arc(360, 0, 0.22, y=0.5)
    return bow, hole, np.stack([x, y], axis=1)


GLYPHS: tuple[tuple[NDArray[np.float64], ...], ...] = (
    (_heart(),),
    (_tree(),),
    (_star(),),
    (np.array([(-0.55, 0.75), (0.55, 0.75), (1.0, 0.2), (0.0, -0.95), (-1.0, 0.2)]),),  # gem
    # The moon's inner arc runs back from the lower horn to the upper one, on a circle that passes through both.
    (np.concatenate([_arc(50, 310, 0.95), _arc(282.4, 77.6, 0.747, x=0.45)]),),
    (_bell(),),
    (np.concatenate([[(0.0, 1.0)], _arc(150, 390, 0.66, y=-0.3)]),),  # drop
    (np.array([(-0.62, 1.0), (0.85, 0.5), (-0.38, 0.02), (-0.38, -1.0), (-0.62, -1.0)]),),  # flag
    _key(),
    (_sun(),),
)
"""Closed outlines of one shape for each of the names in `grid.OBJECT_NAMES`, in the box from -1 to 1."""
