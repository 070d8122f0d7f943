"""Tables of studies in Markdown, from their result files, with the paper's figures beside ours."""

from typing import Any

from compile_il.report.tables import markdown_table, spread
from compile_il.reproduce.paper import PAPER

COLUMNS = {
    "boundaries": "boundary_accuracy",
    "F1": "f1",
    "F1, 1 step off": "f1_tolerance_1",
    "reconstruction": "reconstruction",
    "exact match": "exact_match",
    "online": "online",
}
"""Headings and what they show; those without a single figure are left out."""


def study_table(result: dict[str, Any]) -> str:
    """One row a model and number of tasks: mean and standard deviation over seeds, the paper's column before ours."""
    found, paper = result["figures"], PAPER.get(result["config"]["study"], {})
    scores = [(name, int(tasks), seeds) for name, part in found.items() for tasks, seeds in part["scores"].items()]
    shown = {
        heading: field
        for heading, field in COLUMNS.items()
        if any(seed[field] is not None for _, _, seeds in scores for seed in seeds)
    }
    headings, rows = ["per cent"], [[f"{name}, {tasks} tasks"] for name, tasks, _ in scores]
    for heading, field in shown.items():
        printed = [_printed(paper, name, tasks, field) for name, tasks, _ in scores]
        if any(printed):
            headings.append(f"paper: {heading}")
            for row, words in zip(rows, printed, strict=True):
                row.append(words or "-")
        headings.append(heading)
        for row, (_, _, seeds) in zip(rows, scores, strict=True):
            row.append(spread([seed[field] for seed in seeds]))
    return markdown_table(headings, rows)


def _printed(paper: dict[str, Any], name: str, tasks: int, field: str) -> str:
    """What the paper says, or nothing."""
    row = paper.get(name, {}).get(tasks)
    if row is None or not hasattr(row, field):
        return ""
    mean, deviation = getattr(row, field)
    return f"{mean:.1f} ± {deviation:.1f}"
