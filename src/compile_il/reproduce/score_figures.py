"""Scores of many methods, means as dots and seeds as ticks: figures 4 and 7 of the paper, from their result files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from compile_il.metrics import summarise
from compile_il.worlds.draw import INK, WHITE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
}
"""Colour of each method, after Okabe and Ito: told apart in grey, and by those who see red and green as alike."""
OTHER_COLORS = ("#b8860b", "#332288", "#882255", "#117733")
"""Colours for methods that have none of their own."""
GUIDE = "#e3e1dc"
_ROW_INCHES, _PANEL_INCHES, _NAMES_INCHES = 0.36, 2.05, 1.25


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


def color_of(method: str, number: int) -> str:
    """Returns the colour of a method; one that has none of its own gets another by its place in the list."""
    return COLORS.get(method, OTHER_COLORS[number % len(OTHER_COLORS)])


def _draw_panel(axes: Axes, methods: dict[str, dict[int, Dot]]) -> None:
    for number, (method, dots) in enumerate(methods.items()):
        color = color_of(method, number)
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
        label.set(color=color_of(methods[number], number), fontweight="bold")
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
