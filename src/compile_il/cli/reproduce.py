"""`compile-il reproduce`: tables and figures of the paper."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from compile_il.cli.console import Interrupted, say
from compile_il.cli.evaluate import ROWS
from compile_il.report.tables import spread
from compile_il.reproduce.names import Scale, StudyName

Names = StudyName | Literal["all"]


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train and score the models of a table or a figure of the paper, of both engines.

    compile-il reproduce table1 --scale short

    What is interrupted goes on where it was when it is started again, and what is done is not done again.
    """

    name: Annotated[Names, tyro.conf.arg(metavar="NAME"), tyro.conf.Positional]
    """table1, table2, table3, figure4, figure7, or all."""
    scale: Scale = "short"
    """smoke: two steps of tiny networks; short: minutes on one accelerator; paper: the paper's iterations."""
    results: Path = Path("results")
    """Folder of the result files."""
    work: Path = Path("runs/reproduce")
    """Folder for what is under way."""

    def run(self, console: Console) -> None:
        """Runs the parts, and writes one file for each name."""
        from compile_il.fit import Stopped
        from compile_il.reproduce.runner import reproduce
        from compile_il.reproduce.studies import make_study

        names = get_args(StudyName) if self.name == "all" else (self.name,)
        for name in names:
            out = self.results / f"{name}.json"
            try:
                found = reproduce(
                    make_study(name, self.scale),
                    self.scale,
                    work=self.work,
                    out=out,
                    say=lambda words: say(console, words),
                )
            except Stopped as stopped:
                raise Interrupted(f"{stopped.where} To go on", []) from stopped
            console.print(score_table(f"{name}, {self.scale}", found))
            say(console, f"{name}: ", (str(out), "bold"))


def score_table(title: str, found: dict[str, Any]) -> Table:
    """Mean and standard deviation over seeds, in per cent; one row a model and number of tasks."""
    table = Table("per cent", *ROWS, title=title)
    for name, part in found.items():
        for tasks, seeds in part["scores"].items():
            table.add_row(
                f"{name}, {tasks} tasks", *(spread([score[field] for score in seeds]) for field in ROWS.values())
            )
    return table
