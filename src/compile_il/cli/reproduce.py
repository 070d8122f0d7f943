"""`compile-il reproduce`: tables and figures of the paper."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from compile_il.cli.console import Interrupted, say
from compile_il.reproduce.draw import Cells, study_cells
from compile_il.reproduce.names import Scale, StudyName

Names = StudyName | Literal["all"]


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train and score, or look at, the models of a table or a figure of the paper, of both engines.

    compile-il reproduce table1 --scale short

    What is interrupted goes on where it was when it is started again, and what is done is not done again. This writes
    numbers; the page with tables and pictures of all that has been run is made of them by

    python -m compile_il.reproduce.page PAGE.md --results results
    """

    name: Annotated[Names, tyro.conf.arg(metavar="NAME"), tyro.conf.Positional]
    """table1, table2, table3, figure4, figure5, figure7, qualitative, or all."""
    scale: Scale = "short"
    """smoke: two steps of tiny networks; short: minutes on one accelerator; paper: the paper's iterations."""
    results: Path = Path("results")
    """Folder of the result files."""
    work: Path = Path("runs/reproduce")
    """Folder for what is under way."""
    jobs: int = 1
    """Models under way at once, each in a process of its own; they share the accelerator."""

    def run(self, console: Console) -> None:
        """Runs the parts, and writes one file for each name."""
        from compile_il.reproduce.runner import reproduce
        from compile_il.reproduce.studies import make_study
        from compile_il.under_way import Stopped

        if self.jobs < 1:
            raise ValueError(f"--jobs is {self.jobs}: run at least 1 at once.")
        names = get_args(StudyName) if self.name == "all" else (self.name,)
        if self.jobs > 1:
            self._run_several(names)
        for name in names:
            out = self.results / f"{name}.json"
            try:
                result = reproduce(
                    make_study(name, self.scale),
                    self.scale,
                    work=self.work,
                    out=out,
                    say=lambda words: say(console, words),
                )
            except Stopped as stopped:
                raise Interrupted(f"{stopped.where} To go on", []) from stopped
            console.print(cell_table(f"{name}, {self.scale}", study_cells(result)))
            say(console, f"{name}: ", (str(out), "bold"))

    def _run_several(self, names: tuple[StudyName, ...]) -> None:
        from compile_il.reproduce.several import jobs_left, run_several

        try:
            run_several(jobs_left(names, self.scale, self.work), self.jobs)
        except KeyboardInterrupt as stopped:
            raise Interrupted("all is saved. To go on", []) from stopped


def cell_table(title: str, cells: Cells) -> Table:
    """The table of a study, for a terminal."""
    table = Table(title=title)
    for number, heading in enumerate(cells.headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in cells.rows:
        table.add_row(*row)
    return table
