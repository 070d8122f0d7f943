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
from compile_il.evaluation.metrics import summarise
from compile_il.worlds.drawing import INK, WHITE
from experiments.paper.portrait_figures import draw_segments, draw_skills, draw_terminations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

PictureFormat = Literal["png", "svg", "pdf"]
NAMELESS: dict[PictureFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
"""Metadata that files leave out, program and day, by format: pictures of the same numbers shall be the same bytes."""
SOURCE_KEYS: dict[PictureFormat, str] = {"png": "Source", "svg": "Source", "pdf": "Subject"}
"""Metadata key under which a file says what it was drawn from, by format."""
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
REACH = 1
"""Number of neighbours on either side that a smoothed point is averaged with."""
_ROW_INCHES, _PANEL_INCHES, _NAMES_INCHES = 0.36, 2.05, 1.25


class Picture(NamedTuple):
    """Drawing to be made, with its name and caption."""

    name: str
    """Name of the file, without its ending."""
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
    if study == "qualitative":
        return _portrait_pictures(result)
    return []


def _portrait_pictures(result: dict[str, Any]) -> list[Picture]:
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
    metadata = {**NAMELESS[form], SOURCE_KEYS[form]: drawn_from(source)}
    # Names of an SVG file's parts are drawn at random, unless told from what.
    with write_atomically(target) as temporary, mpl.rc_context({"svg.hashsalt": picture.name}):
        picture.draw().savefig(temporary, format=form, bbox_inches="tight", pad_inches=0.08, metadata=metadata)
    return target


def drawn_from(source: Path) -> str:
    """Returns the name of a result file and a digest of what is in it."""
    return f"{source.name} sha256 {hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"


class Dot(NamedTuple):
    """One method's score in one world, for one number of tasks, in per cent."""

    mean: float
    seeds: list[float]
    """Score of each seed, drawn one by one: where seeds either work or do not, mean ± deviation would exceed 100."""


def draw_scores(result: dict[str, Any]) -> Figure:
    """Draws a row of panels per world, a column per score; methods below each other, 3 tasks filled, 5 tasks hollow."""
    from matplotlib.figure import Figure

    by_world = methods_of(result)
    num_methods = max(map(len, by_world.values()))
    size = (_NAMES_INCHES + _PANEL_INCHES * len(SHOWN), len(by_world) * (0.55 + _ROW_INCHES * num_methods) + 0.45)
    figure = Figure(figsize=size, dpi=150, facecolor=WHITE, layout="constrained")
    panels = figure.subplots(len(by_world), len(SHOWN), sharex=True, squeeze=False)
    for row, (world, methods) in zip(panels, by_world.items(), strict=True):
        for axes, field in zip(row, SHOWN, strict=True):
            _draw_panel(axes, {method: dots_of(result, part, field) for method, part in methods.items()})
        _name_rows(row, list(methods), WORLD_NAMES.get(world, world))
    for top, bottom, title in zip(panels[0], panels[-1], SHOWN.values(), strict=True):
        top.set_title(title, fontsize=10.5, color=INK, pad=9)
        bottom.set_xlabel("per cent", fontsize=8, color=INK)
    _explain(figure, sorted({tasks for part in result["figures"].values() for tasks in map(int, part["scores"])}))
    return figure


def methods_of(result: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Returns for each world its methods with the names of their parts, "world, method"."""
    by_world: dict[str, dict[str, str]] = {}
    for part in result["figures"]:
        world, method = part.split(", ", 1)
        by_world.setdefault(world, {})[method] = part
    return by_world


def dots_of(result: dict[str, Any], part: str, field: str) -> dict[int, Dot]:
    """Returns one score of a part in per cent, by the number of tasks; empty where the method has no such score."""
    if field == "boundary_accuracy" and result["config"]["parts"][part]["unending"]:
        return {}  # a single segment that never ends is not in that race
    dots = {}
    for tasks, seeds in result["figures"][part]["scores"].items():
        values = [100 * seed[field] for seed in seeds if seed[field] is not None]
        if values:
            dots[int(tasks)] = Dot(summarise(values).mean, values)
    return dots


def _draw_panel(axes: Axes, methods: dict[str, dict[int, Dot]]) -> None:
    for number, (method, dots) in enumerate(methods.items()):
        color = COLORS[method]
        if dots:
            axes.axhline(number, color=GUIDE, linewidth=0.8, zorder=0)
        for order, (_, dot) in enumerate(sorted(dots.items())):
            # Side by side, the fewer tasks above: dots of one method would else lie on each other.
            height = number + (order - (len(dots) - 1) / 2) * 0.34
            axes.plot(dot.seeds, [height] * len(dot.seeds), color=color, linewidth=1.3, zorder=2)
            axes.plot(dot.seeds, [height] * len(dot.seeds), "|", color=color, markersize=6, zorder=2)
            fill = color if order == 0 else WHITE
            axes.plot(dot.mean, height, "o", color=color, markerfacecolor=fill, markersize=5.2, zorder=3)
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
    first.annotate(
        world,
        (0, 1),
        xycoords="axes fraction",
        xytext=(-8, 6),
        textcoords="offset points",
        ha="right",
        fontsize=11.5,
        fontweight="bold",
        color=INK,
    )


def _explain(figure: Figure, tasks: list[int]) -> None:
    from matplotlib.lines import Line2D

    fills = [INK if order == 0 else WHITE for order in range(len(tasks))]
    marks = [Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor=fill) for fill in fills]
    words = [f"{count} tasks" + (", as in training" if order == 0 else "") for order, count in enumerate(tasks)]
    figure.legend(marks, words, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=9, labelcolor=INK)


class Curve(NamedTuple):
    """Learning curve of one kind of agent in one panel."""

    steps: NDArray[np.float64]
    success: NDArray[np.float64]
    """Per cent of episodes solved, one row per seed, one column per entry of `steps`; NaN where no episode ended."""


def panels_of(result: dict[str, Any]) -> dict[str, dict[str, Curve]]:
    """Returns each agent's curve by panel, such as "grid-visit, 3 tasks, dense"; parts are named "panel: agent"."""
    panels: dict[str, dict[str, Curve]] = {}
    for name, part in result["figures"].items():
        panel, agent = name.split(": ", 1)
        success = np.array(part["curve"]["success"], float)  # None, where no episode has ended, is not a number
        panels.setdefault(panel, {})[agent] = Curve(np.array(part["curve"]["steps"], float), 100 * success)
    return panels


def smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Averages each point with its neighbours, as many on either side: a curve that rises does not begin too high.

    NaN stays NaN, and is left out of the means of its neighbours.
    """
    last = len(values) - 1
    reaches = [min(REACH, i, last - i) for i in range(last + 1)]
    around = [values[i - reach : i + reach + 1] for i, reach in enumerate(reaches)]
    return np.array([np.nan if np.isnan(own) else np.nanmean(row) for own, row in zip(values, around, strict=True)])


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
        _draw_agents_panel(axes, panel, curves)
    for axes in grid[::num_columns]:
        axes.set_ylabel("episodes solved, %", fontsize=7.5, color=INK)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    agents = list(dict.fromkeys(agent for curves in panels.values() for agent in curves))
    lines = [Line2D([], [], color=COLORS[agent], linewidth=2) for agent in agents]
    figure.legend(lines, agents, loc="outside lower center", ncols=len(agents), frameon=False, fontsize=9)
    return figure


def _draw_agents_panel(axes: Axes, panel: str, curves: dict[str, Curve]) -> None:
    for agent, curve in curves.items():
        for seed in curve.success:
            axes.plot(curve.steps / 1e6, seed, color=COLORS[agent], alpha=0.25, linewidth=0.8)
            axes.plot(curve.steps / 1e6, smooth(seed), color=COLORS[agent], linewidth=1.4)
    axes.set_title(panel, fontsize=9, color=INK)
    axes.set(ylim=(-3, 103), yticks=(0, 50, 100))
    axes.set_xlabel("million steps", fontsize=7.5, color=INK)
    axes.tick_params(length=0, labelsize=7.5, colors=INK)
    axes.grid(color=GUIDE, linewidth=0.6)
    axes.spines[:].set_visible(False)
