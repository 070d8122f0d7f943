"""Tables of studies, from their result files, with the paper's numbers beside ours.

One table of all ways to segment: older methods, the paper's baselines, both engines, on the same levels.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS, interval, spread
from experiments.paper.names import PaperName
from experiments.paper.published import printed
from experiments.tables.markdown import markdown_table

PAPERS = "paper: "
"""Prefix of the heading of a column with the numbers that the paper printed."""


OF_CUTS = ("boundary_accuracy", "f1", "f1_tolerance_1", "count_accuracy")
"""Names of the scores that judge boundaries; they mean nothing for a method that makes none."""


class Cells(NamedTuple):
    """Table as text, whose first column names the rows."""

    headings: list[str]
    rows: list[list[str]]


def study_table(result: dict[str, Any]) -> str:
    """Returns the table of a study in Markdown."""
    return markdown_table(*study_cells(result))


def study_cells(result: dict[str, Any]) -> Cells:
    """Returns the table of a study: a row per model with scores or what its skills do; for agents, a row per panel."""
    if result["config"]["study"] == "figure5":
        return _agent_cells(result["figures"])
    drawn = any("portrait" in part for part in result["figures"].values())
    return _skill_cells(result["figures"]) if drawn else _score_cells(result)


def interval_cells(result: dict[str, Any]) -> Cells | None:
    """Returns a study's table with the 95 % bootstrap interval over seeds of each mean; None if it has no scores."""
    if not all("scores" in part for part in result["figures"].values()):
        return None
    rows = _scored_rows(result)
    columns = {heading: _column(rows, field, interval) for heading, field in _told_by(rows).items()}
    return Cells(
        ["per cent, 95 %", *columns],
        [list(row) for row in zip([row.name for row in rows], *columns.values(), strict=True)],
    )


class _Row(NamedTuple):
    """Scores of one model on task lists of one length."""

    model: str
    tasks: int
    seeds: list[dict[str, float | None]]
    makes_cuts: bool
    """Whether its boundaries can be scored; a single segment that never ends makes none."""

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
    """Returns a row per model and number of tasks: mean and standard deviation over seeds, the paper's before ours."""
    rows, study = _scored_rows(result), result["config"]["study"]
    columns = {"per cent": [row.name for row in rows]}
    for heading, field in _told_by(rows).items():
        papers = [printed(study, row.model, row.tasks, field) for row in rows]
        if set(papers) != {"-"}:
            columns[f"{PAPERS}{heading}"] = papers
        columns[heading] = _column(rows, field, spread)
    return Cells(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def _told_by(rows: list[_Row]) -> dict[str, str]:
    """Returns headings and fields of the scores that are worth a column."""
    values = {field: [seed[field] for row in rows for seed in row.seeds] for field in SCORE_HEADINGS.values()}
    return {heading: field for heading, field in SCORE_HEADINGS.items() if _tells(field, values[field])}


def _column(rows: list[_Row], field: str, show: Callable[[list[float | None]], str]) -> list[str]:
    """Returns one score of all rows as text; a dash for scores of boundaries where a row makes none."""
    return [
        show([seed[field] for seed in row.seeds]) if row.makes_cuts or field not in OF_CUTS else "-" for row in rows
    ]


def _tells(field: str, values: list[float | None]) -> bool:
    """Whether a score is worth a column: not if nobody has it, nor the number of segments if it is right everywhere."""
    nothing = {None, 1.0} if field == "count_accuracy" else {None}
    return not set(values) <= nothing


def _agent_cells(found: dict[str, Any]) -> Cells:
    """Returns a row per panel, a column per agent: success on unseen levels, with options drawn as while learning."""
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
    """Returns how often each model's skills stop by themselves, over all skills and levels, and in how many steps."""
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


METHODS_INTRODUCTION = """All methods on the same unseen levels, all told how many segments there are.

- What older methods look at, and whether the hidden Markov model has 10 or 32 states, was chosen on other levels. They
  learn from 1,000 demonstrations; networks get fresh ones throughout training.
- b-CompILE and z-CompILE were told boundaries and codes in training.
- Only methods with policies can reconstruct actions and be run. The reacher's actions are continuous, and none is
  reconstructed exactly. VAE-BC has one code for a whole demonstration and makes no cuts.
- Only methods that name what they find can agree with what tasks are about. Each name counts for one type of ten: names
  that say nothing agree in a little over one step of ten, and of 32 skills ("exact" on grids) most count for none.
- Reconstruction of networks on grids is over the steps of all demonstrations together, as in figure 4.
"""


FIELDS = {heading: field for heading, field in (SCORE_HEADINGS | LABEL_HEADINGS).items() if field != "count_accuracy"}


Show = Callable[[list[float | None]], str]
"""Function that writes one score of several seeds as text."""


def methods_tables(
    classic: dict[str, Any], studies: dict[PaperName, dict[str, Any]], show: Show = spread
) -> dict[str, str]:
    """Returns for each world a Markdown table with a row for each method and number of tasks.

    Args:
      classic: contents of the result file of older methods.
      studies: contents of the result files of the paper's figures and tables, by name.
      show: how the scores of several seeds are written, such as their mean and spread.
    """
    worlds = dict.fromkeys(part["world"] for part in classic["config"]["parts"].values())
    tables = {}
    for world in worlds:
        networks = studies.get("table1" if world == "reacher" else "figure4")
        rows = [*_rows(world, classic, show), *(_rows(world, networks, show) if networks else [])]
        told = [heading for heading in FIELDS if any(row[heading] != "-" for row in rows)]
        tables[world] = markdown_table(["per cent", *told], [[row[""], *map(row.__getitem__, told)] for row in rows])
    return tables


def _rows(world: str, result: dict[str, Any], show: Show) -> list[dict[str, str]]:
    """Returns the rows of one world by heading; method and number of tasks stand under the empty heading."""
    parts = result["config"]["parts"]
    rows = []
    for name, part in result["figures"].items():
        if parts[name]["world"] != world:
            continue
        nothing = OF_CUTS if parts[name]["unending"] else ()
        for tasks, seeds in part["scores"].items():
            row = {"": f"{name.removeprefix(f'{world}, ')}, {tasks} tasks"}
            for heading, field in FIELDS.items():
                row[heading] = "-" if field in nothing else show([seed.get(field) for seed in seeds])
            rows.append(row)
    return rows
