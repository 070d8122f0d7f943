"""Mazes and arms as drawings in SVG, with the path coloured by skill and each segment's end numbered."""

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import Demonstration
from compile_il.report.markup import picture, points, tag, tooltip
from compile_il.report.names import glyph
from compile_il.report.runs import Run
from compile_il.worlds.draw import arm_joints, fingertips, player_cells
from compile_il.worlds.glyphs import COLORS
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

_LANES, _LANE_WIDTH = (0, 1, -1, 2, -2), 0.1
"""Lanes that paths of segments take in turn, and their width in cells: where segments share cells, they run side by
side, as the lines of a city's underground do on its map."""
_MAX_POINTS = 400
_MAX_SEGMENTS = 40


def draw_maze(demo: Demonstration, runs: list[Run], words: str) -> str:
    """Draws walls, objects and the player as they were at first, and the path since."""
    first = demo.observations[0]
    num_rows, num_columns, num_channels = first.shape
    walls = [
        tag("rect", x=column + 0.04, y=row + 0.04, width=0.92, height=0.92, rx=0.16)
        for row, column in np.argwhere(first[..., -2]).tolist()
    ]
    things = [
        tag("g", glyph(kind), transform=f"translate({column + 0.5} {row + 0.5}) scale(.34)")
        for row, column, kind in np.argwhere(first[..., : num_channels - 2]).tolist()
    ]
    cells = player_cells(demo.observations)[:, ::-1] + 0.5
    shown = runs[:_MAX_SEGMENTS]
    ways, ends = [], []
    for order, run in enumerate(shown):
        lane = _LANE_WIDTH * _LANES[order % len(_LANES)]
        way = _corners(cells[run.start : run.end + 1])[:_MAX_POINTS] + lane
        ways.append(tag("polyline", points=points(way), class_=f"way k{run.code}"))
        ends.append(_numbered(way[-1] + _beside(cells[run.end], first), run, 0.38))
    floor = tag("rect", width=num_columns, height=num_rows, class_="floor")
    inner = [
        floor,
        tag("g", *walls, class_="walls"),
        *ways,
        tag("g", *things, class_="things"),
        _player(*cells[0]),
        *ends,
    ]
    # Of a border of walls one half is enough to see it.
    cut = 0.5 if first[[0, -1], :, -2].all() and first[:, [0, -1], -2].all() else 0.0
    scene = tag("g", *inner, transform=f"translate({-cut} {-cut})")
    label = f"{words}: {_course(runs)}"
    return picture(num_columns - 2 * cut, num_rows - 2 * cut, scene, label=label, class_="board")


def draw_arm(demo: Demonstration, runs: list[Run], words: str) -> str:
    """Draws targets, the trail of the tip, and the arm where it ended; lengths in hundredths of the world's unit."""
    reach = 2 * LINK_LENGTH
    side = 200 * reach * 1.05

    def place(xy: NDArray[np.floating]) -> NDArray[np.floating]:
        return side / 2 + 100 * xy * np.array([1, -1])

    targets = []
    for kind, (flag, x, y) in enumerate(demo.observations[0][:-2].reshape(-1, 3).astype(float)):
        if flag or x or y:
            cx, cy = place(np.array([x, y])).tolist()
            targets.append(tag("circle", cx=cx, cy=cy, r=100 * TARGET_RADIUS, fill=COLORS[kind % len(COLORS)]))
    tips = place(fingertips(demo.observations))
    stride = max(1, -(-len(tips) // _MAX_POINTS))
    ways, ends = [], []
    for run in runs[:_MAX_SEGMENTS]:
        times = np.unique([*range(run.start, run.end, stride), run.end])
        ways.append(tag("polyline", points=points(tips[times]), class_=f"way k{run.code}"))
        ends.append(_numbered(tips[run.end], run, 1.75))
    start = tag("circle", cx=float(tips[0, 0]), cy=float(tips[0, 1]), r=0.7, class_="start")
    arm = tag("polyline", points=points(place(arm_joints(demo.observations[-1:])[0])), class_="arm")
    floor = tag("circle", cx=side / 2, cy=side / 2, r=100 * reach, class_="floor")
    inner = [floor, tag("g", *targets, class_="targets"), arm, tag("g", *ways, class_="trail"), start, *ends]
    return picture(side, side, *inner, label=f"{words}: {_course(runs)}", class_="round board")


def _corners(cells: NDArray[np.floating]) -> NDArray[np.floating]:
    """Returns the same path without the points in the middle of straight pieces."""
    if len(cells) < 3:
        return cells
    steps = np.diff(cells, axis=0)
    turns = (steps[1:] != steps[:-1]).any(axis=1)
    return cells[np.concatenate([[True], turns, [True]])]


def _beside(cell: NDArray[np.floating], first: NDArray[np.uint8]) -> float:
    """Returns how far, in cells, a number moves aside where it would hide an object."""
    column, row = cell.astype(int)
    return 0.34 if first[row, column, :-2].any() else 0.0


def _numbered(place: NDArray[np.floating], run: Run, radius: float) -> str:
    """Draws the end of a segment: a dot that bears the skill's number."""
    x, y = place.tolist()
    dot = tag("circle", cx=x, cy=y, r=radius, class_="fill")
    digits = tag("text", str(run.code), x=x, y=y, dy=".35em", font_size=1.25 * radius, class_="on")
    told = tooltip(f"skill {run.code}, steps {run.start} to {run.end - 1}")
    return tag("g", told, dot, digits, class_=f"end k{run.code}")


def _player(x: float, y: float) -> str:
    eyes = [tag("circle", cx=float(x) + shift, cy=float(y) - 0.06, r=0.05, class_="eye") for shift in (-0.1, 0.1)]
    return tag("g", tag("circle", cx=float(x), cy=float(y), r=0.3), *eyes, class_="player")


def _course(runs: list[Run]) -> str:
    """Returns the skills in order, in words."""
    named = ", then ".join(f"skill {run.code}" for run in runs[:12])
    return named + (" and so on" if len(runs) > 12 else "")
