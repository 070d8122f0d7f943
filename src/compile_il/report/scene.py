"""The scene of one demonstration, coloured by skill: mazes and arms as they are, images as films, others as charts."""

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import Demonstration
from compile_il.report.film import draw_film
from compile_il.report.markup import count, points, stretched, tag, text, tooltip
from compile_il.report.names import Look
from compile_il.report.runs import Run, few_runs
from compile_il.report.world_scenes import draw_arm, draw_maze

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
    note = tag("p", f"{kind} in order{part}; coloured by skill", class_="note")
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
    return tag("div", *charts, class_="lines") + tag("p", f"{what}; coloured by skill", class_="note")


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
