"""Draws the figures of studies from their result files alone, into files that name what they were drawn from.

Figures 4 and 7 show scores of many methods, means as dots and seeds as ticks; figure 5 the learning curves of agents,
one panel per world, number of tasks and reward.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from compile_il.data.files import write_atomically
from compile_il.worlds.drawing import INK, WHITE
from experiments.paper.portrait_figures import draw_segments, draw_skills, draw_terminations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Curve = NDArray[np.float64]

PictureFormat = Literal["png", "svg", "pdf"]
METADATA: dict[PictureFormat, tuple[str, ...]] = {
    "png": ("Source", "Software"),
    "svg": ("Source", "Creator", "Date"),
    "pdf": ("Subject", "Creator", "Producer", "CreationDate"),
}
"""Metadata by format: where a file says what it was drawn from, then what it leaves out, program and day, so that
pictures of the same numbers are the same bytes."""
WORLD_NAMES = {"grid-pickup": "Pick up", "grid-visit": "Visit"}
SHOWN = {
    "boundary_accuracy": "Boundaries",
    "reconstruction": "Reconstruction",
    "exact_match": "Exact match",
    "online": "Online",
}
COLORS = {
    "LSTM surprisal": "#7d7d7d",
    "VAE-BC": "#b07aa1",
    "CompILE": "#0072b2",
    "z-CompILE": "#3f97cc",
    "b-CompILE": "#009e73",
    "exact": "#d55e00",
    "exact, effects": "#a33f00",
    "hierarchical, exact": "#d55e00",
    "hierarchical, CompILE": "#0072b2",
    "low-level": "#7d7d7d",
}
"""Colour of each method and agent, after Okabe and Ito: distinct in grey, and to people who see red and green alike."""
GUIDE = "#e3e1dc"
_ROW_INCHES, _PANEL_INCHES, _NAMES_INCHES = 0.36, 2.05, 1.25


class Picture(NamedTuple):
    """Drawing to be made, with the name of its file and its caption."""

    name: str
    caption: str
    draw: Callable[[], Figure]


def pictures_of(result: dict[str, Any]) -> list[Picture]:
    """Returns the drawings of a study, from what stands in its result file."""
    study = result["config"]["study"]
    if study == "figure5":
        caption = "Episodes in which all tasks are done, while agents learn: each seed, as it came and smoothed"
        return [Picture(study, caption, functools.partial(draw_curves, result))]
    if study.startswith("figure"):
        caption = "Each method on lists of three tasks and of five: dots are means, ticks are seeds"
        return [Picture(study, caption, functools.partial(draw_scores, result))]
    if study != "qualitative":
        return []
    caption = (
        "How much each step of one unseen demonstration belongs to each segment, early in training and at its end; of "
        "CompILE first under q, then for one relaxed sample, as training sees it"
    )
    pictures = [Picture("qualitative-segments", caption, functools.partial(draw_segments, result))]
    for method, part in result["figures"].items():
        portrait = part["portrait"]
        if "skills" not in portrait:
            continue
        whose = "the exact engine" if method == "exact" else method
        at_work = (
            f"The skills of {whose} on one level, each until it stops. A red cross is on what was picked up; in bold "
            f"is the skill that the model infers from a demonstration of picking up the {portrait['task']}"
        )
        stops = f"Where the skills of {whose} stop, over {portrait['num_levels']:,} levels: the cell of the player"
        slug = re.sub(r"\W+", "-", method.lower())
        pictures += [
            Picture(f"qualitative-skills-{slug}", at_work, functools.partial(draw_skills, portrait)),
            Picture(f"qualitative-terminations-{slug}", stops, functools.partial(draw_terminations, portrait)),
        ]
    return pictures


def save_picture(picture: Picture, folder: Path, source: Path, form: PictureFormat = "png") -> Path:
    """Draws into `folder/NAME.png`, or another format, notes in it what it was drawn from, and returns its path."""
    import matplotlib as mpl

    target = folder / f"{picture.name}.{form}"
    metadata = dict.fromkeys(METADATA[form]) | {METADATA[form][0]: drawn_from(source)}
    # Names of an SVG file's parts are drawn at random, unless given a salt.
    with write_atomically(target) as temporary, mpl.rc_context({"svg.hashsalt": picture.name}):
        picture.draw().savefig(temporary, format=form, bbox_inches="tight", pad_inches=0.08, metadata=metadata)
    return target


def drawn_from(source: Path) -> str:
    """Returns the name of a result file and a digest of what is in it."""
    return f"{source.name} sha256 {hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"


def draw_scores(result: dict[str, Any]) -> Figure:
    """Draws a row of panels per world, a column per score; methods below each other, 3 tasks filled, 5 tasks hollow.

    Seeds are drawn one by one: where they either work or do not, mean ± deviation would exceed 100.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    by_world = methods_of(result)
    num_methods = max(map(len, by_world.values()))
    size = (_NAMES_INCHES + _PANEL_INCHES * len(SHOWN), len(by_world) * (0.55 + _ROW_INCHES * num_methods) + 0.45)
    figure = Figure(figsize=size, dpi=150, facecolor=WHITE, layout="constrained")
    panels = figure.subplots(len(by_world), len(SHOWN), sharex=True, squeeze=False)
    for row, (world, methods) in zip(panels, by_world.items(), strict=True):
        for axes, field in zip(row, SHOWN, strict=True):
            _draw_panel(axes, {method: seeds_of(result, part, field) for method, part in methods.items()})
        _name_rows(row, list(methods), WORLD_NAMES.get(world, world))
    for top, bottom, title in zip(panels[0], panels[-1], SHOWN.values(), strict=True):
        top.set_title(title, fontsize=10.5, color=INK, pad=9)
        bottom.set_xlabel("per cent", fontsize=8, color=INK)
    tasks = sorted({int(tasks) for part in result["figures"].values() for tasks in part["scores"]})
    fills = [INK if order == 0 else WHITE for order in range(len(tasks))]
    marks = [Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor=fill) for fill in fills]
    words = [f"{count} tasks" + (", as in training" if order == 0 else "") for order, count in enumerate(tasks)]
    figure.legend(marks, words, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=9, labelcolor=INK)
    return figure


def methods_of(result: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns for each world its methods with the names of their parts, "world, method"."""
    by_world: dict[str, dict[str, str]] = {}
    for part in result["figures"]:
        world, method = part.split(", ", 1)
        by_world.setdefault(world, {})[method] = part
    return by_world


def seeds_of(result: dict[str, Any], part: str, field: str) -> dict[int, list[float]]:
    """Returns one score of a part in per cent, by the number of tasks; empty where the method has no such score."""
    if field == "boundary_accuracy" and result["config"]["parts"][part]["unending"]:
        return {}  # a single segment that never ends is not in that race
    by_tasks = {
        int(tasks): [100 * seed[field] for seed in seeds if seed[field] is not None]
        for tasks, seeds in result["figures"][part]["scores"].items()
    }
    return {tasks: by_tasks[tasks] for tasks in sorted(by_tasks) if by_tasks[tasks]}


def _draw_panel(axes: Axes, methods: dict[str, dict[int, list[float]]]) -> None:
    for number, (method, by_tasks) in enumerate(methods.items()):
        color = COLORS[method]
        if by_tasks:
            axes.axhline(number, color=GUIDE, linewidth=0.8, zorder=0)
        for order, seeds in enumerate(by_tasks.values()):
            # Side by side, the fewer tasks above: dots of one method would else lie on each other.
            height = number + (order - (len(by_tasks) - 1) / 2) * 0.34
            axes.plot(seeds, [height] * len(seeds), color=color, linewidth=1.3, zorder=2)
            axes.plot(seeds, [height] * len(seeds), "|", color=color, markersize=6, zorder=2)
            fill = color if order == 0 else WHITE
            axes.plot(np.mean(seeds), height, "o", color=color, markerfacecolor=fill, markersize=5.2, zorder=3)
    axes.set(xlim=(-2.5, 102.5), ylim=(len(methods) - 0.45, -0.55), xticks=(0, 50, 100), yticks=())
    axes.tick_params(axis="x", length=0, labelsize=7.5, colors=INK)
    axes.grid(axis="x", color=GUIDE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _name_rows(row: Any, methods: list[str], world: str) -> None:
    """Writes names of methods where the eye reads the row, in the colour of its dots; no legend is needed."""
    first = row[0]
    # The paper has no exact inference.
    first.set_yticks(range(len(methods)), [f"{m} (ours)" if m.startswith("exact") else m for m in methods])
    first.tick_params(axis="y", length=0, labelsize=9, pad=8)
    for number, label in enumerate(first.get_yticklabels()):
        label.set(color=COLORS[methods[number]], fontweight="bold")
    above = {"xycoords": "axes fraction", "xytext": (-8, 6), "textcoords": "offset points", "ha": "right"}
    first.annotate(world, (0, 1), **above, fontsize=11.5, fontweight="bold", color=INK)


def panels_of(result: dict[str, Any]) -> dict[str, dict[str, tuple[Curve, Curve]]]:
    """Returns steps and success of each agent by panel, such as "grid-visit, 3 tasks, dense".

    Success is the per cent of episodes solved, a row per seed; NaN where no episode ended.
    """
    panels: dict[str, dict[str, tuple[Curve, Curve]]] = {}
    for name, part in result["figures"].items():
        panel, agent = name.split(": ", 1)
        success = np.array(part["curve"]["success"], float)  # None, where no episode has ended, is not a number
        panels.setdefault(panel, {})[agent] = np.array(part["curve"]["steps"], float), 100 * success
    return panels


def smooth(values: Curve) -> Curve:
    """Averages each point with its neighbour on either side, which the first and the last one lack and do without.

    NaN stays NaN, and is left out of the means of its neighbours.
    """
    smoothed = values.copy()
    for i in range(1, len(values) - 1):
        if not np.isnan(values[i]):
            smoothed[i] = np.nanmean(values[i - 1 : i + 2])
    return smoothed


def draw_curves(result: dict[str, Any]) -> Figure:
    """Draws success while learning, a panel per task setting: each seed's curve as it came, pale, and smoothed."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = panels_of(result)
    num_columns = min(len(panels), 4)
    num_rows = -(-len(panels) // num_columns)
    figure = Figure(figsize=(2.6 * num_columns, 2.1 * num_rows + 0.5), dpi=150, facecolor=WHITE, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    for axes, (panel, curves) in zip(grid, panels.items(), strict=False):
        for agent, (steps, success) in curves.items():
            for seed in success:
                axes.plot(steps / 1e6, seed, color=COLORS[agent], alpha=0.25, linewidth=0.8)
                axes.plot(steps / 1e6, smooth(seed), color=COLORS[agent], linewidth=1.4)
        axes.set_title(panel, fontsize=9, color=INK)
        axes.set(ylim=(-3, 103), yticks=(0, 50, 100))
        axes.set_xlabel("million steps", fontsize=7.5, color=INK)
        axes.tick_params(length=0, labelsize=7.5, colors=INK)
        axes.grid(color=GUIDE, linewidth=0.6)
        axes.spines[:].set_visible(False)
    for axes in grid[::num_columns]:
        axes.set_ylabel("episodes solved, %", fontsize=7.5, color=INK)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    agents = list(dict.fromkeys(agent for curves in panels.values() for agent in curves))
    lines = [Line2D([], [], color=COLORS[agent], linewidth=2) for agent in agents]
    figure.legend(lines, agents, loc="outside lower center", ncols=len(agents), frameon=False, fontsize=9)
    return figure
