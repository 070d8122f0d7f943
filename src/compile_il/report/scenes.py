"""Draws the scene of one demonstration, colored by skill: mazes and arms, images as a film, vectors as charts."""

import base64
import io

import numpy as np
from jaxtyping import Shaped, UInt8
from numpy.typing import NDArray

from compile_il.data import Demonstration
from compile_il.report.markup import count, drawing, points, tag, text
from compile_il.report.runs import Look, Run, few_runs, glyph
from compile_il.worlds.drawing import COLORS, arm_joints, player_cells
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

LANES, LANE_WIDTH = (0, 1, -1, 2, -2), 0.1
"""Lanes that paths of segments take in turn, and their width in cells: where segments share cells, they run side by
side, as the lines of a city's underground do on its map."""
MAX_SEGMENTS, MAX_PATH_POINTS = 40, 400
"""Most segments drawn in a maze or of an arm, and most points of one."""
MAX_PICTURES, FEW_PICTURES = 9, 4
"""Most pictures of a film, and most that leave each other room to be larger."""
MAX_SIDE = 64
"""Most pixels along a side of a picture; larger ones are averaged down."""
MAX_LINES, MAX_LINE_POINTS, MAX_SYMBOLS = 6, 240, 64


def draw_scene(demo: Demonstration, runs: list[Run], look: Look) -> str:
    """Draws what happens in a demonstration, in the way that suits it, for the left side of a card."""
    course = ", then ".join(f"skill {run.code}" for run in runs[:12]) + (" and so on" if len(runs) > 12 else "")
    label = f"Scene of {count(len(demo), 'step')}, {count(len(runs), 'segment')}: {course}"
    match look:
        case "maze":
            return _draw_maze(demo, runs, label)
        case "arm":
            return _draw_arm(demo, runs, label)
        case "image":
            return draw_film(demo, runs)
        case "strip":
            return _draw_strip(demo, runs)
        case "lines":
            return _draw_lines(demo, runs)


def _note(words: str) -> str:
    return tag("p", words, class_="note")


def _draw_maze(demo: Demonstration, runs: list[Run], label: str) -> str:
    """Draws walls, objects and the player as they were at first, and the path since."""
    first = demo.observations[0]
    walls = [
        tag("rect", x=column + 0.04, y=row + 0.04, width=0.92, height=0.92, rx=0.16)
        for row, column in np.argwhere(first[..., -2]).tolist()
    ]
    things = [
        tag("g", glyph(kind), transform=f"translate({column + 0.5} {row + 0.5}) scale(.34)")
        for row, column, kind in np.argwhere(first[..., :-2]).tolist()
    ]
    cells = player_cells(demo.observations)[:, ::-1] + 0.5
    x, y = cells[0].tolist()
    eyes = [tag("circle", cx=x + shift, cy=y - 0.06, r=0.05, class_="eye") for shift in (-0.1, 0.1)]
    player = tag("g", tag("circle", cx=x, cy=y, r=0.3), *eyes, class_="player")
    ways, ends = [], []
    for order, run in enumerate(runs[:MAX_SEGMENTS]):
        path = cells[run.start : run.end + 1]
        if len(path) > 2:  # the points in the middle of straight pieces are left out
            steps = np.diff(path, axis=0)
            path = path[[True, *(steps[1:] != steps[:-1]).any(axis=1), True]]
        path = path[:MAX_PATH_POINTS] + LANE_WIDTH * LANES[order % len(LANES)]
        ways.append(tag("polyline", points=points(path), class_=f"way k{run.code}"))
        column, row = cells[run.end].astype(int)
        # The number moves aside where it would hide an object.
        ends.append(_end_of(run, path[-1] + (0.34 if first[row, column, :-2].any() else 0.0), 0.38))
    num_rows, num_columns, _ = first.shape
    floor = tag("rect", width=num_columns, height=num_rows, class_="floor")
    inner = [floor, tag("g", *walls, class_="walls"), *ways, tag("g", *things, class_="things"), player, *ends]
    # Of a border of walls one half is enough to see it.
    cut = 0.5 if first[[0, -1], :, -2].all() and first[:, [0, -1], -2].all() else 0.0
    scene = tag("g", *inner, transform=f"translate({-cut} {-cut})")
    return drawing(num_columns - 2 * cut, num_rows - 2 * cut, scene, label=label, class_="board")


def _draw_arm(demo: Demonstration, runs: list[Run], label: str) -> str:
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
    joints = place(arm_joints(demo.observations))
    tips = joints[:, 2]
    stride = -(-len(tips) // MAX_PATH_POINTS)
    ways, ends = [], []
    for run in runs[:MAX_SEGMENTS]:
        times = np.unique([*range(run.start, run.end, stride), run.end])
        ways.append(tag("polyline", points=points(tips[times]), class_=f"way k{run.code}"))
        ends.append(_end_of(run, tips[run.end], 1.75))
    start = tag("circle", cx=float(tips[0, 0]), cy=float(tips[0, 1]), r=0.7, class_="start")
    arm = tag("polyline", points=points(joints[-1]), class_="arm")
    floor = tag("circle", cx=side / 2, cy=side / 2, r=100 * reach, class_="floor")
    inner = [floor, tag("g", *targets, class_="targets"), arm, tag("g", *ways, class_="trail"), start, *ends]
    return drawing(side, side, *inner, label=label, class_="round board")


def _end_of(run: Run, place: NDArray[np.floating], radius: float) -> str:
    """Draws the end of a segment: a dot that bears the skill's number."""
    x, y = place.tolist()
    dot = tag("circle", cx=x, cy=y, r=radius, class_="fill")
    digits = tag("text", str(run.code), x=x, y=y, dy=".35em", font_size=1.25 * radius, class_="on")
    words = tag("title", f"skill {run.code}, steps {run.start} to {run.end - 1}")
    return tag("g", words, dot, digits, class_=f"end k{run.code}")


def draw_film(demo: Demonstration, runs: list[Run]) -> str:
    """Draws pictures over the color of the skill that has just ended; channels that are no colors, as a grey mean."""
    from matplotlib.image import imsave

    shown = runs[: MAX_PICTURES - 1]
    steps = [0, *(run.end for run in shown)]
    frames = []
    for step, color, pixels in zip(
        steps, ["", *(f" k{run.code}" for run in shown)], _pixels(demo.observations[steps]), strict=True
    ):
        imsave(file := io.BytesIO(), pixels, format="png")
        address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        image = tag("img", src=address, alt=f"Observation at step {step}")
        frames.append(tag("figure", image, tag("figcaption", text(step)), class_=f"frame{color}"))
    words = "What is seen at the first step, and where each segment ends"
    words += f": the first {len(shown)} of {len(runs)}" if len(shown) < len(runs) else ""
    words += "; mean of the channels" if demo.observations.shape[-1] not in (1, 3, 4) else ""
    return tag("div", *frames, class_="film few" if len(frames) <= FEW_PICTURES else "film") + _note(words)


def _pixels(frames: Shaped[np.ndarray, "N H W C"]) -> UInt8[np.ndarray, "N h w 3"]:
    """Returns pixels in bytes: values in bytes, or between 0 and 1, as those of an image; others from dark to light.

    Three channels are red, green and blue, of four the last one says how opaque they are.
    """
    colored = frames.shape[-1] in (3, 4)
    values = frames[..., :3] if colored else frames.mean(axis=-1, keepdims=True, dtype=float)
    values = np.broadcast_to(values, (*values.shape[:-1], 3)).astype(float)
    low, high = float(frames.min()), float(frames.max())
    if low >= 0 and high <= 1:
        values = 255 * values
    elif low < 0 or high > 255:
        values = 255 * (values - values.min()) / (np.ptp(values) or 1.0)
    stride = -(-max(values.shape[1:3]) // MAX_SIDE)
    for axis in (1, 2):
        starts = np.arange(0, values.shape[axis], stride)
        values = np.add.reduceat(values, starts, axis) / np.add.reduceat(np.ones_like(values), starts, axis)
    return values.round().astype(np.uint8)


def _draw_strip(demo: Demonstration, runs: list[Run]) -> str:
    """Draws symbols one by one, in rows: those observed, or the actions where nothing is observed."""
    observed = demo.observations.ndim == 1
    symbols = (demo.observations[:-1] if observed else demo.actions)[:MAX_SYMBOLS].tolist()
    skills = np.repeat([run.code for run in runs], [run.end - run.start for run in runs])
    ends = {run.end - 1 for run in runs}
    cells = [
        tag("span", text(symbol), class_=f"symbol k{skills[t]}{' last' if t in ends else ''}", title=f"step {t}")
        for t, symbol in enumerate(symbols)
    ]
    part = f", the first {MAX_SYMBOLS} of {len(demo):,}" if len(demo) > MAX_SYMBOLS else ""
    kind = "Observed symbols" if observed else "Actions"
    return tag("div", *cells, class_="strip") + _note(f"{kind} in order{part}; colored by skill")


def _draw_lines(demo: Demonstration, runs: list[Run]) -> str:
    """Draws small charts of the components of observations, or else of actions, that vary most."""
    observed = demo.observations.ndim == 2 and demo.observations.shape[1] > 0
    values = (demo.observations if observed else demo.actions).astype(float)
    letter, kind = ("x", "observation") if observed else ("a", "action")
    varied = sorted(np.argsort(-values.std(axis=0), kind="stable")[:MAX_LINES].tolist())
    charts = [_line_chart(values[:, i], runs, f"{letter}{i}") for i in varied]
    which = f"{kind.title()}s"
    if len(charts) < values.shape[1]:
        which = f"The {len(charts)} {kind} components that vary most, of {values.shape[1]}"
    return tag("div", *charts, class_="lines") + _note(f"{which}; colored by skill")


def _line_chart(values: NDArray[np.floating], runs: list[Run], name: str) -> str:
    low, high = float(values.min()), float(values.max())
    height = (high - values) / (high - low) if high > low else np.full(len(values), 0.5)
    stride = -(-len(values) // MAX_LINE_POINTS)
    pieces = []
    for run in few_runs(runs):
        # A piece reaches the first value of the next one, so that the line has no gaps.
        times = np.unique([*range(run.start, run.end, stride), min(run.end, len(values) - 1)])
        path = points(np.stack([times, height[times]], axis=1))
        pieces.append(tag("polyline", points=path, class_=f"line k{run.code}"))
    label = f"{name} between {low:.3g} and {high:.3g}"
    inner = [tag("title", text(label)), *pieces]
    chart = drawing(max(len(values) - 1, 1), 1, *inner, label=label, class_="spark", stretched=True)
    return tag("div", tag("span", text(name), class_="name"), chart, class_="component")
