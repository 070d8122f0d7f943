"""Tables of studies, from their result files, with the paper's figures beside ours."""

from collections.abc import Callable
from typing import Any, NamedTuple

from compile_il.report.markdown import markdown_table
from compile_il.report.scores import SCORE_HEADINGS, interval, spread
from compile_il.reproduce.paper import printed

PAPERS = "paper: "
"""Stands before the heading of a column that the paper printed."""
OF_CUTS = ("boundary_accuracy", "f1", "f1_tolerance_1", "count_accuracy")
"""Scores that say where cuts are."""


class Cells(NamedTuple):
    """A table, its first column names."""

    headings: list[str]
    rows: list[list[str]]


def study_table(result: dict[str, Any]) -> str:
    """The table of a study in Markdown."""
    return markdown_table(*study_cells(result))


def study_cells(result: dict[str, Any]) -> Cells:
    """One row a model, with scores or with what its skills do."""
    if result["config"]["study"] == "figure5":
        return _agent_cells(result["figures"])
    drawn = any("portrait" in part for part in result["figures"].values())
    return _skill_cells(result["figures"]) if drawn else _score_cells(result)


def interval_cells(result: dict[str, Any]) -> Cells | None:
    """The same rows with the 95 % interval of each mean, by the bootstrap over seeds; of scores only."""
    if not all("scores" in part for part in result["figures"].values()):
        return None
    rows = _scored_rows(result)
    columns = {heading: _column(rows, field, interval) for heading, field in _told_by(rows).items()}
    return Cells(
        ["per cent, 95 %", *columns],
        [list(row) for row in zip([row.name for row in rows], *columns.values(), strict=True)],
    )


class _Row(NamedTuple):
    """What one model reaches on lists of one length."""

    model: str
    tasks: int
    seeds: list[dict[str, float | None]]
    makes_cuts: bool
    """A single segment that never ends makes none that could be scored."""

    @property
    def name(self) -> str:
        return f"{self.model}, {self.tasks} tasks"


def _scored_rows(result: dict[str, Any]) -> list[_Row]:
    parts = result["config"]["parts"]
    return [
        _Row(name, int(tasks), seeds, makes_cuts=not parts[name]["unending"])
        for name, part in result["figures"].items()
        for tasks, seeds in part["scores"].items()
    ]


def _score_cells(result: dict[str, Any]) -> Cells:
    """One row a model and number of tasks: mean and standard deviation over seeds, the paper's column before ours."""
    rows, study = _scored_rows(result), result["config"]["study"]
    columns = {"per cent": [row.name for row in rows]}
    for heading, field in _told_by(rows).items():
        papers = [printed(study, row.model, row.tasks, field) for row in rows]
        if set(papers) != {"-"}:
            columns[f"{PAPERS}{heading}"] = papers
        columns[heading] = _column(rows, field, spread)
    return Cells(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def _told_by(rows: list[_Row]) -> dict[str, str]:
    """Headings and fields of the scores that say anything."""
    values = {field: [seed[field] for row in rows for seed in row.seeds] for field in SCORE_HEADINGS.values()}
    return {heading: field for heading, field in SCORE_HEADINGS.items() if _tells(field, values[field])}


def _column(rows: list[_Row], field: str, show: Callable[[list[float | None]], str]) -> list[str]:
    """One score of all rows."""
    return [
        show([seed[field] for seed in row.seeds]) if row.makes_cuts or field not in OF_CUTS else "-" for row in rows
    ]


def _tells(field: str, values: list[float | None]) -> bool:
    """Whether a column says anything; the number of segments does not where it was told to all."""
    nothing = {None, 1.0} if field == "count_accuracy" else {None}
    return not set(values) <= nothing


def _agent_cells(found: dict[str, Any]) -> Cells:
    """One row a panel, one column an agent: success on unseen levels, with options drawn as while it learned."""
    panels: dict[str, dict[str, str]] = {}
    seconds: dict[str, float] = {}
    for name, part in found.items():
        panel, agent = name.split(": ", 1)
        panels.setdefault(panel, {})[agent] = spread([seed["success"] for seed in part["played"]])
        seconds[panel] = seconds.get(panel, 0.0) + part["wall_time"]
    agents = list(dict.fromkeys(agent for row in panels.values() for agent in row))
    rows = [
        [panel, *(row.get(agent, "-") for agent in agents), f"{seconds[panel] / 60:.1f}"]
        for panel, row in panels.items()
    ]
    return Cells(["per cent of levels solved", *agents, "minutes"], rows)


def _skill_cells(found: dict[str, Any]) -> Cells:
    """How often the skills of each model stop by themselves, over all skills and levels, and with what."""
    rows = []
    for name, part in found.items():
        if (skills := part["portrait"].get("skills")) is None:
            continue
        num_levels = len(skills) * part["portrait"]["num_levels"]
        stopped = sum(skill["num_stopped"] for skill in skills)
        with_object = sum(skill["num_stopped_with_object"] for skill in skills)
        steps = sum(skill["num_stopped"] * (skill["mean_steps"] or 0) for skill in skills)
        shares = [f"{100 * count / num_levels:.1f} %" for count in (stopped, with_object)]
        rows.append([name, str(len(skills)), *shares, f"{steps / stopped:.1f}" if stopped else "-"])
    return Cells(["model", "skills", "stop by themselves", "having picked something up", "mean steps until then"], rows)
