"""One table of all ways to segment: older methods, the paper's baselines, both engines, on the same levels."""

from collections.abc import Callable
from typing import Any

from compile_il.report.markdown import markdown_table
from compile_il.report.scores import LABEL_HEADINGS, SCORE_HEADINGS, spread
from compile_il.reproduce.draw import OF_CUTS
from compile_il.reproduce.names import PaperName

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
