"""Tables of studies, from their result files, with the paper's figures beside ours."""

from typing import Any, NamedTuple

from compile_il.report.markdown import markdown_table
from compile_il.report.scores import SCORE_HEADINGS, interval, spread
from compile_il.reproduce.paper import PAPER

PAPERS = "paper: "
"""Stands before the heading of a column that the paper printed."""
WITH_INTERVAL = "boundary_accuracy"
"""The score that has an interval, by the bootstrap over seeds, beside its mean and standard deviation."""
INTERVAL = ", 95 %"
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


def _score_cells(result: dict[str, Any]) -> Cells:
    """One row a model and number of tasks: mean and standard deviation over seeds, the paper's column before ours."""
    found, paper = result["figures"], PAPER.get(result["config"]["study"], {})
    parts = result["config"]["parts"]
    scores = [(name, int(tasks), seeds) for name, part in found.items() for tasks, seeds in part["scores"].items()]
    headings, rows = ["per cent"], [[f"{name}, {tasks} tasks"] for name, tasks, _ in scores]
    for heading, field in SCORE_HEADINGS.items():
        if not _tells(field, [seed[field] for _, _, seeds in scores for seed in seeds]):
            continue
        printed = [_printed(paper, name, tasks, field) for name, tasks, _ in scores]
        if any(printed):
            headings.append(f"{PAPERS}{heading}")
            for row, words in zip(rows, printed, strict=True):
                row.append(words or "-")
        columns = {heading: spread} | ({f"{heading}{INTERVAL}": interval} if field == WITH_INTERVAL else {})
        headings += columns
        for row, (name, _, seeds) in zip(rows, scores, strict=True):
            # A single segment that never ends makes no cuts to be scored.
            nothing = field in OF_CUTS and parts[name]["unending"]
            row += ["-" if nothing else show([seed[field] for seed in seeds]) for show in columns.values()]
    return Cells(headings, rows)


def _tells(field: str, values: list[float | None]) -> bool:
    """Whether a column says anything; the number of segments does not where it was told to all."""
    nothing = {None, 1.0} if field == "count_accuracy" else {None}
    return not set(values) <= nothing


def _printed(paper: dict[str, Any], name: str, tasks: int, field: str) -> str:
    """What the paper says, or nothing."""
    row = paper.get(name, {}).get(tasks)
    if row is None or not hasattr(row, field):
        return ""
    mean, deviation = getattr(row, field)
    return f"{mean:.1f} ± {deviation:.1f}"


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
