"""Draws the scene of one demonstration, colored by skill: mazes and arms, images as a film, vectors as charts."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped, UInt8
from numpy.typing import NDArray

from compile_il.data import Demonstration
from compile_il.report.markup import count, picture, points, stretched, tag, text, tooltip
from compile_il.report.runs import Look, Run, few_runs, glyph
from compile_il.worlds.drawing import COLORS, arm_joints, fingertips, player_cells
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

_MAX_PICTURES = 9


_MAX_SIDE = 64
"""Most pixels along a side of a picture; larger ones are averaged down."""


_FEW = 4
"""Most pictures of a film that leave each other room to be larger."""


_COLORS = 3


_WHITE = 255


def draw_film(demo: Demonstration, runs: Sequence[Run]) -> str:
    """Draws pictures over the color of the skill that has just ended; channels that are no colors, as a grey mean."""
    shown = runs[: _MAX_PICTURES - 1]
    steps = [0, *(run.end for run in shown)]
    skills = [None, *(run.code for run in shown)]
    cells = [
        tag(
            "figure", _image(pixels, step), tag("figcaption", text(step)), class_=f"frame k{skill}" if step else "frame"
        )
        for step, skill, pixels in zip(steps, skills, _pixels(demo.observations[steps]), strict=True)
    ]
    words = "What is seen at the first step, and where each segment ends"
    words += f": the first {len(shown)} of {len(runs)}" if len(shown) < len(runs) else ""
    grey = "" if _is_colored(demo.observations) or demo.observations.shape[-1] == 1 else "; mean of the channels"
    return tag("div", *cells, class_="film few" if len(cells) <= _FEW else "film") + tag(
        "p", f"{words}{grey}", class_="note"
    )


def _image(pixels: UInt8[np.ndarray, "H W 3"], step: int) -> str:
    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, pixels, format="png")
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return tag("img", src=address, alt=f"Observation at step {step}")


def _pixels(frames: Shaped[np.ndarray, "N H W C"]) -> UInt8[np.ndarray, "N h w 3"]:
    """Returns pixels in bytes: values in bytes, or between 0 and 1, as those of an image; others from dark to light."""
    values = frames[..., :_COLORS] if _is_colored(frames) else frames.mean(axis=-1, keepdims=True, dtype=float)
    values = np.broadcast_to(values, (*values.shape[:-1], _COLORS)).astype(float)
    low, high = float(frames.min()), float(frames.max())
    if low >= 0 and high <= 1:
        values = _WHITE * values
    elif low < 0 or high > _WHITE:
        spread = np.ptp(values)
        values = _WHITE * (values - values.min()) / (spread if spread > 0 else 1.0)
    stride = -(-max(values.shape[1:3]) // _MAX_SIDE)
    for axis in (1, 2):
        values = _averaged_down(values, axis, stride)
    return values.round().astype(np.uint8)


def _is_colored(frames: Shaped[np.ndarray, "N H W C"]) -> bool:
    """Whether channels are red, green and blue, and perhaps how opaque they are."""
    return frames.shape[-1] in (_COLORS, _COLORS + 1)


def _averaged_down(values: NDArray[np.floating], axis: int, stride: int) -> NDArray[np.floating]:
    side = values.shape[axis]
    starts = np.arange(0, side, stride)
    sizes = np.diff([*starts, side]).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    means: NDArray[np.floating] = np.add.reduceat(values, starts, axis=axis) / sizes
    return means


_LANES, _LANE_WIDTH = (0, 1, -1, 2, -2), 0.1
"""Lanes that paths of segments take in turn, and their width in cells: where segments share cells, they run side by
side, as the lines of a city's underground do on its map."""


_MAX_WORLD_POINTS = 400


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
        way = _corners(cells[run.start : run.end + 1])[:_MAX_WORLD_POINTS] + lane
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
    stride = max(1, -(-len(tips) // _MAX_WORLD_POINTS))
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
    words = tooltip(f"skill {run.code}, steps {run.start} to {run.end - 1}")
    return tag("g", words, dot, digits, class_=f"end k{run.code}")


def _player(x: float, y: float) -> str:
    eyes = [tag("circle", cx=float(x) + shift, cy=float(y) - 0.06, r=0.05, class_="eye") for shift in (-0.1, 0.1)]
    return tag("g", tag("circle", cx=float(x), cy=float(y), r=0.3), *eyes, class_="player")


def _course(runs: list[Run]) -> str:
    """Returns the skills in order, in words."""
    course = ", then ".join(f"skill {run.code}" for run in runs[:12])
    return course + (" and so on" if len(runs) > 12 else "")


_MAX_LINES, _MAX_POINTS = 6, 240


_MAX_SYMBOLS, _STRIP_COLUMNS = 64, 8


def draw_scene(demo: Demonstration, runs: list[Run], look: Look) -> str:
    """Draws what happens in a demonstration, in the way that suits it, for the left side of a card."""
    words = f"Scene of {count(len(demo), 'step')}, {count(len(runs), 'segment')}"
    match look:
        case "maze":
            return draw_maze(demo, runs, words)
        case "arm":
            return draw_arm(demo, runs, words)
        case "image":
            return draw_film(demo, runs)
        case "strip":
            return _draw_strip(demo, runs)
        case "lines":
            return _draw_lines(demo, runs)


def _draw_strip(demo: Demonstration, runs: list[Run]) -> str:
    """Draws symbols one by one, in rows: those observed, or the actions where nothing is observed."""
    observed = demo.observations.ndim == 1
    symbols = (demo.observations[:-1] if observed else demo.actions)[:_MAX_SYMBOLS].tolist()
    skills = [
        run.code for run in runs for _ in range(run.start, min(run.end, _MAX_SYMBOLS)) if run.start < _MAX_SYMBOLS
    ]
    ends = {run.end - 1 for run in runs}
    cells = [
        tag("span", text(symbol), class_=f"symbol k{skill}{' last' if step in ends else ''}", title=f"step {step}")
        for step, (symbol, skill) in enumerate(zip(symbols, skills, strict=True))
    ]
    kind = "Observed symbols" if observed else "Actions"
    part = f", the first {_MAX_SYMBOLS} of {len(demo):,}" if len(demo) > _MAX_SYMBOLS else ""
    note = tag("p", f"{kind} in order{part}; colored by skill", class_="note")
    return tag("div", *cells, class_="strip") + note


def _draw_lines(demo: Demonstration, runs: list[Run]) -> str:
    """Draws small charts of the components of observations, or else of actions, that vary most."""
    observed = demo.observations.ndim == 2 and demo.observations.shape[1] > 0
    values = (demo.observations if observed else demo.actions).astype(float)
    letter = "x" if observed else "a"
    varied = np.argsort(-values.std(axis=0), kind="stable")[:_MAX_LINES]
    charts = [_line_chart(values[:, i], runs, f"{letter}{i}") for i in sorted(varied.tolist())]
    left_out = values.shape[1] - len(charts)
    kind = "observation" if observed else "action"
    what = (
        f"The {len(charts)} {kind} components that vary most, of {values.shape[1]}" if left_out else f"{kind.title()}s"
    )
    return tag("div", *charts, class_="lines") + tag("p", f"{what}; colored by skill", class_="note")


def _line_chart(values: NDArray[np.floating], runs: list[Run], name: str) -> str:
    low, high = float(values.min()), float(values.max())
    height = (high - values) / (high - low) if high > low else np.full(len(values), 0.5)
    stride = max(1, -(-len(values) // _MAX_POINTS))
    pieces = []
    for run in few_runs(runs, runs[-1].end):
        # A piece reaches the first value of the next one, so that the line has no gaps.
        times = np.unique([*range(run.start, run.end, stride), min(run.end, len(values) - 1)])
        pieces.append(
            tag("polyline", points=points(np.stack([times, height[times]], axis=1)), class_=f"line k{run.code}")
        )
    label = f"{name} between {low:.3g} and {high:.3g}"
    svg = stretched(max(len(values) - 1, 1), 1, tooltip(label), *pieces, label=label, class_="spark")
    return tag("div", tag("span", text(name), class_="name"), svg, class_="component")
