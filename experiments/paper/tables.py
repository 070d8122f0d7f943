"""Makes the tables of studies from their result files, with the paper's numbers beside ours."""

from collections.abc import Callable
from typing import Any, NamedTuple

from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS, interval, spread
from experiments.paper.published import printed
from experiments.tables.markdown import markdown_table

OF_CUTS = ("boundary_accuracy", "f1", "f1_tolerance_1", "count_accuracy")
"""Names of the scores that judge boundaries; they mean nothing for a method that makes none."""
ALL_METHODS = {title: field for title, field in (SCORE_HEADINGS | LABEL_HEADINGS).items() if field != "count_accuracy"}
"""Headings and fields of the table of all methods, which are given the number of segments."""

Show = Callable[[list[float | None]], str]
"""Function that writes one score of several seeds as text."""


class Cells(NamedTuple):
    """Table as text, whose first column names the rows."""

    headings: list[str]
    rows: list[list[str]]


class _Row(NamedTuple):
    """Scores of one model on task lists of one length."""

    model: str
    tasks: int
    seeds: list[dict[str, float | None]]
    makes_cuts: bool
    """Whether its boundaries can be scored; a single segment that never ends makes none."""

    def show(self, field: str, show: Show) -> str:
        """Returns one score as text; a dash for scores of boundaries where it makes none."""
        return show([seed.get(field) for seed in self.seeds]) if self.makes_cuts or field not in OF_CUTS else "-"


def study_cells(result: dict[str, Any]) -> Cells:
    """Returns the table of a study: a row per model with scores or what its skills do; for agents, a row per panel."""
    if result["config"]["study"] == "figure5":
        return _agent_cells(result["figures"])
    if result["config"]["study"] == "qualitative":
        return _skill_cells(result["figures"])
    rows, columns = _rows(result), dict[str, list[str]]()
    for heading, field in _shown_fields(rows).items():
        papers = [printed(result["config"]["study"], row.model, row.tasks, field) for row in rows]
        if set(papers) != {"-"}:
            columns[f"paper: {heading}"] = papers
        columns[heading] = [row.show(field, spread) for row in rows]
    return _cells("per cent", rows, columns)


def interval_cells(result: dict[str, Any]) -> Cells | None:
    """Returns a study's table with the 95 % bootstrap interval over seeds of each mean; None if it has no scores."""
    if not all("scores" in part for part in result["figures"].values()):
        return None
    rows = _rows(result)
    columns = {heading: [row.show(field, interval) for row in rows] for heading, field in _shown_fields(rows).items()}
    return _cells("per cent, 95 %", rows, columns)


def methods_tables(classic: dict[str, Any], studies: dict[Any, dict[str, Any]], show: Show = spread) -> dict[str, str]:
    """Returns for each world a Markdown table of all methods, with a row for each and number of tasks.

    Args:
      classic: contents of the result file of classic methods.
      studies: contents of the result files of the paper's figures and tables, by name.
      show: how the scores of several seeds are written, such as their mean and spread.
    """
    tables = {}
    for world in dict.fromkeys(part["world"] for part in classic["config"]["parts"].values()):
        networks = studies.get("table1" if world == "reacher" else "figure4")
        rows = [
            row._replace(model=row.model.removeprefix(f"{world}, "))
            for result in filter(None, (classic, networks))
            for row in _rows(result)
            if result["config"]["parts"][row.model]["world"] == world
        ]
        columns = {heading: [row.show(field, show) for row in rows] for heading, field in ALL_METHODS.items()}
        shown = {heading: column for heading, column in columns.items() if set(column) != {"-"}}
        tables[world] = markdown_table(*_cells("per cent", rows, shown))
    return tables


def _rows(result: dict[str, Any]) -> list[_Row]:
    parts = result["config"]["parts"]
    return [
        _Row(name, int(tasks), seeds, makes_cuts=not parts[name]["unending"])
        for name, part in result["figures"].items()
        for tasks, seeds in part["scores"].items()
    ]


def _shown_fields(rows: list[_Row]) -> dict[str, str]:
    """Returns headings and fields of scores that some row has, without the number of segments if it is always right."""
    values = {field: {seed[field] for row in rows for seed in row.seeds} for field in SCORE_HEADINGS.values()}
    nothing = {field: {None, 1.0} if field == "count_accuracy" else {None} for field in values}
    return {heading: field for heading, field in SCORE_HEADINGS.items() if not values[field] <= nothing[field]}


def _cells(corner: str, rows: list[_Row], columns: dict[str, list[str]]) -> Cells:
    names = [f"{row.model}, {row.tasks} tasks" for row in rows]
    return Cells([corner, *columns], [list(row) for row in zip(names, *columns.values(), strict=True)])


def _agent_cells(figures: dict[str, Any]) -> Cells:
    """Returns a row per panel, a column per agent: success on unseen levels, with options drawn as while learning."""
    panels: dict[str, dict[str, str]] = {}
    seconds: dict[str, float] = {}
    for name, part in figures.items():
        panel, agent = name.split(": ", 1)
        panels.setdefault(panel, {})[agent] = spread([seed["success"] for seed in part["played"]])
        seconds[panel] = seconds.get(panel, 0.0) + part["wall_time"]
    agents = list(dict.fromkeys(agent for row in panels.values() for agent in row))
    rows = [
        [panel, *(row.get(agent, "-") for agent in agents), f"{seconds[panel] / 60:.1f}"]
        for panel, row in panels.items()
    ]
    return Cells(["per cent of levels solved", *agents, "minutes"], rows)


def _skill_cells(figures: dict[str, Any]) -> Cells:
    """Returns how often each model's skills stop by themselves, over all skills and levels, and in how many steps."""
    rows = []
    for name, part in figures.items():
        if (skills := part["portrait"].get("skills")) is None:
            continue
        num_levels = len(skills) * part["portrait"]["num_levels"]
        stopped = sum(skill["num_stopped"] for skill in skills)
        with_object = sum(skill["num_stopped_with_object"] for skill in skills)
        steps = sum(skill["num_stopped"] * (skill["mean_steps"] or 0) for skill in skills)
        shares = [f"{100 * count / num_levels:.1f} %" for count in (stopped, with_object)]
        rows.append([name, str(len(skills)), *shares, f"{steps / stopped:.1f}" if stopped else "-"])
    return Cells(["model", "skills", "stop by themselves", "having picked something up", "mean steps until then"], rows)
