"""Draws one demonstration, colored by skill: its scene (maze, arm, film, strip or charts), and a timeline below.

Marks along time are SVG that stretches with the page; numbers and names are HTML on top of it, so that they never do.
"""

import base64
import io
import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped, UInt8
from numpy.typing import NDArray

from compile_il.data import Demonstration, Demonstrations
from compile_il.data.segments import Segments
from compile_il.report.markup import count, drawing, number, per_cent, points, tag, text
from compile_il.report.runs import (
    MAX_COLUMNS,
    Look,
    Run,
    action_name,
    column_edges,
    few_runs,
    glyph,
    segment_runs,
    task_label,
    true_runs,
)
from compile_il.worlds.drawing import COLORS, arm_joints, player_cells
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_RADIUS

LANES = (0, 0.1, -0.1, 0.2, -0.2)
"""Distances from the middle of a cell at which paths of segments run in turn, so that none hides another."""
MAX_SEGMENTS, MAX_PATH_POINTS = 40, 400
"""Most segments drawn in a maze or of an arm, and most points of one."""
MAX_PICTURES, FEW_PICTURES = 9, 4
"""Most pictures of a film, and most that leave each other room to be larger."""
MAX_SIDE = 64
"""Most pixels along a side of a picture; larger ones are averaged down."""
MAX_LINES, MAX_LINE_POINTS, MAX_SYMBOLS = 6, 240, 64


def draw_scene(demo: Demonstration, runs: list[Run], look: Look) -> str:
    """Draws what happens in a demonstration, in the way that suits it, for the left side of a card."""
    draw = {"maze": _draw_maze, "arm": _draw_arm, "image": draw_film, "strip": _draw_strip, "lines": _draw_lines}[look]
    return draw(demo, runs)


def _board(width: float, height: float, runs: list[Run], *inner: str, class_: str) -> str:
    skills = ", ".join(str(run.code) for run in runs[:12]) + (", …" if len(runs) > 12 else "")
    return drawing(width, height, *inner, label=f"{count(len(runs), 'segment')}, skills {skills}", class_=class_)


def _note(words: str) -> str:
    return tag("p", words, class_="note")


def _draw_maze(demo: Demonstration, runs: list[Run]) -> str:
    """Draws walls, objects and the player at the first step, and the path of each segment."""
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
    player = tag("g", tag("circle", cx=x, cy=y, r=0.3), class_="player")
    ways, ends = [], []
    for order, run in enumerate(runs[:MAX_SEGMENTS]):
        path = cells[run.start : run.end + 1][:MAX_PATH_POINTS] + LANES[order % len(LANES)]
        ways.append(tag("polyline", points=points(path), class_=f"way k{run.code}"))
        column, row = cells[run.end].astype(int)
        # The number moves aside where it would hide an object.
        ends.append(_draw_end(run, path[-1] + (0.34 if first[row, column, :-2].any() else 0.0), 0.38))
    num_rows, num_columns, _ = first.shape
    floor = tag("rect", width=num_columns, height=num_rows, class_="floor")
    inner = [floor, tag("g", *walls, class_="walls"), *ways, tag("g", *things, class_="things"), player, *ends]
    return _board(num_columns, num_rows, runs, *inner, class_="board")


def _draw_arm(demo: Demonstration, runs: list[Run]) -> str:
    """Draws targets, the trail of the tip, and the arm at the last step; lengths in hundredths of the world's unit."""
    reach = 200 * LINK_LENGTH
    side = 2.1 * reach

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
        ends.append(_draw_end(run, tips[run.end], 1.75))
    start = tag("circle", cx=tips[0, 0], cy=tips[0, 1], r=0.7, class_="start")
    arm = tag("polyline", points=points(joints[-1]), class_="arm")
    floor = tag("circle", cx=side / 2, cy=side / 2, r=reach, class_="floor")
    inner = [floor, tag("g", *targets, class_="targets"), arm, tag("g", *ways, class_="trail"), start, *ends]
    return _board(side, side, runs, *inner, class_="round board")


def _draw_end(run: Run, place: NDArray[np.floating], radius: float) -> str:
    """Draws the end of a segment as a dot with the skill's number."""
    x, y = place.tolist()
    dot = tag("circle", cx=x, cy=y, r=radius, class_="fill")
    digits = tag("text", str(run.code), x=x, y=y, dy=".35em", font_size=1.25 * radius, class_="on")
    words = tag("title", f"skill {run.code}, steps {run.start} to {run.end - 1}")
    return tag("g", words, dot, digits, class_=f"end k{run.code}")


def draw_film(demo: Demonstration, runs: list[Run]) -> str:
    """Draws the first frame and those where segments end, each over the color of the skill that ends there."""
    from matplotlib.image import imsave

    shown = runs[: MAX_PICTURES - 1]
    steps, colors = [0, *(run.end for run in shown)], ["", *(f" k{run.code}" for run in shown)]
    frames = []
    for step, color, pixels in zip(steps, colors, _pixels(demo.observations[steps]), strict=True):
        imsave(file := io.BytesIO(), pixels, format="png")
        address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        image = tag("img", src=address, alt=f"Observation at step {step}")
        frames.append(tag("figure", image, tag("figcaption", text(step)), class_=f"frame{color}"))
    words = "Observations at the first step, and where each segment ends"
    words += f": the first {len(shown)} of {len(runs)}" if len(shown) < len(runs) else ""
    words += "; mean of the channels" if demo.observations.shape[-1] not in (1, 3, 4) else ""
    return tag("div", *frames, class_="film few" if len(frames) <= FEW_PICTURES else "film") + _note(words)


def _pixels(frames: Shaped[np.ndarray, "N H W C"]) -> UInt8[np.ndarray, "N h w 3"]:
    """Returns colored pixels where there are 3 or 4 channels, of which the fourth is opacity, else their mean in grey.

    Values between 0 and 1 or between 0 and 255 are those of an image; others are scaled from darkest to lightest.
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
    which = f"{len(charts)} of {count(values.shape[1], f'{kind} component')}; colored by skill"
    return tag("div", *charts, class_="lines") + _note(which)


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


def draw_timeline(segments: Segments, demos: Demonstrations, index: int, look: Look) -> str:
    """Draws probabilities of boundaries, skills and true tasks over one axis of time, with a tooltip for each step."""
    runs, truth, probs = segment_runs(segments, index), true_runs(demos, index), segments.boundary_probs[index]
    length = len(probs)
    # Starts of segments that are chosen and not true, or true and not chosen.
    stray = set() if truth is None else {run.start for run in runs} ^ {run.start for run in truth}

    def bands(runs: list[Run], draw: Callable[[Run], str], color: str = "") -> str:
        drawn = []
        for run in few_runs(runs):
            place = f"left:{number(100 * run.start / length)}%;width:{number(100 * (run.end - run.start) / length)}%"
            classes = f"band{color.format(run.code)}{' stray' if run.start in stray else ''}"
            drawn.append(tag("div", draw(run), class_=classes, style=place))
        return "".join(drawn)

    rows = [("boundary probability", "probs", _draw_probs(runs, probs))]
    rows.append(("skills", "inferred", bands(runs, lambda run: tag("b", str(run.code)), " k{}")))
    if truth is not None:
        rows.append(("true tasks", "true", bands(truth, lambda run: task_label(look, run.code))))
    named = [
        tag("div", name, class_="row-name") + tag("div", inner, class_=f"row {kind}") for name, kind, inner in rows
    ]
    axis = tag("div", tag("span", "0"), tag("span", text(count(length, "step"))), class_="axis")

    # Invisible columns over all rows have tooltips.
    starts, actions, columns = [run.start for run in runs], demos[index].actions, []
    for start, end in itertools.pairwise(column_edges(length).tolist()):
        skill = runs[int(np.searchsorted(starts, start, side="right")) - 1].code
        p = per_cent(float(probs[start:end].max()))
        words = f"steps {start} to {end - 1} · skill {skill} · boundary up to {p}"
        if end - start == 1:
            words = f"step {start} · action {action_name(demos, look, actions[start])} · skill {skill} · boundary {p}"
        columns.append(tag("rect", tag("title", text(words)), x=start, width=end - start, height=1))
    hits = drawing(length, 1, *columns, class_="hits", stretched=True)
    return tag("div", *named, axis, hits, class_="timeline")


def _draw_probs(runs: list[Run], probs: NDArray[np.floating]) -> str:
    """Draws a bar per column, as high as the highest probability in it, and thin lines at the chosen boundaries."""
    length, edges = len(probs), column_edges(len(probs))
    columns = np.stack([edges[:-1], np.diff(edges), np.maximum.reduceat(probs, edges[:-1])], axis=1).tolist()
    bars = [
        # A bar begins at its step, which is where the segment would begin, and is never too thin to be seen.
        tag("rect", x=start, y=1 - p, width=max(0.42 * width, length / 400), height=p)
        for start, width, p in columns
        if p >= 0.004
    ]
    # Where there are more ticks than columns they would only make a grey area.
    ticked = runs[1:] if len(runs) <= MAX_COLUMNS else []
    ticks = [tag("line", x1=run.start, x2=run.start, y1=0, y2=1, class_="tick") for run in ticked]
    label = f"Boundaries: {', '.join(str(run.start) for run in runs[1:13]) or 'none'}{', …' if len(runs) > 13 else ''}"
    return drawing(length, 1, *ticks, *bars, label=label, class_="bars", stretched=True)
