"""One table of all ways to segment: older methods, the paper's baselines, both engines, on the same levels."""

from typing import Any

from compile_il.report.markdown import markdown_table
from compile_il.report.scores import LABEL_HEADINGS, SCORE_HEADINGS, spread
from compile_il.reproduce.names import StudyName

METHODS_INTRODUCTION = """On the same unseen levels. All methods are told how many segments there are; what older ones
look at, and whether the hidden Markov model has 10 or 32 states, was chosen on other levels. b-CompILE and z-CompILE
were told boundaries and codes in training. Older methods learn from 1,000 demonstrations, networks from fresh ones
without end. Only methods that name what they find can agree with what tasks are about; each name counts for one type,
so that of 32 skills ("exact" on grids) most count for none.
"""
FIELDS = {name: SCORE_HEADINGS[name] for name in ("boundaries", "F1", "F1, 1 step off")} | LABEL_HEADINGS


def methods_tables(classic: dict[str, Any], studies: dict[StudyName, dict[str, Any]]) -> dict[str, str]:
    """For each world a table with a row for each method and number of tasks.

    Args:
      classic: the result file of older methods.
      studies: those of the paper's figures and tables, by name.
    """
    tables = {}
    for world, older in classic["figures"].items():
        methods = {name: method["scores"] for name, method in older.items()} | networks_in(world, studies)
        rows = [
            [f"{name}, {tasks} tasks", *(spread([seed.get(field) for seed in seeds]) for field in FIELDS.values())]
            for name, scores in methods.items()
            for tasks, seeds in scores.items()
        ]
        tables[world] = markdown_table(["per cent", *FIELDS], rows)
    return tables


def networks_in(world: str, studies: dict[StudyName, dict[str, Any]]) -> dict[str, Any]:
    """Scores of methods with networks in one world; those that make no cuts are left out."""
    result = studies.get("table1" if world == "reacher" else "figure4")
    if result is None:
        return {}
    parts = result["config"]["parts"]
    return {
        name.removeprefix(f"{world}, "): part["scores"]
        for name, part in result["figures"].items()
        if parts[name]["world"] == world and not parts[name]["unending"]
    }
