"""Trains and scores the models of the paper's tables and figures: `python -m experiments.paper NAME`."""

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

import jax
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from compile_il.cli import run_program
from compile_il.cli.console import Interrupted, say
from compile_il.training.loop import Stopped
from experiments.paper.figures import PictureFormat, pictures_of, save_picture
from experiments.paper.jobs import jobs_left, run_several
from experiments.paper.parts import Scale, read_done
from experiments.paper.run import alone_at_work, check_result, part_folder, reproduce
from experiments.paper.studies import PaperName, Study, StudyName, make_study
from experiments.paper.tables import PAPERS, Cells, interval_cells, study_cells


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train and score, or look at, the models of a table or a figure of the paper, of both engines.

    python -m experiments.paper table1 --scale short

    What is interrupted goes on where it was when it is started again, and what is done is not done again. Numbers go
    to --results, figures are drawn into --work. A page with tables and figures of all that has been run is made by

    python -m experiments.paper.page PAGE.md --results results
    """

    name: Annotated[StudyName | Literal["all"], tyro.conf.arg(metavar="NAME"), tyro.conf.Positional]
    """table1, table2, table3, figure4, figure5, figure7, qualitative, or all of these; or classic, methods without
    networks, which need no accelerator, but two hours."""
    scale: Scale = "short"
    """smoke: two steps of tiny networks; short: minutes on one accelerator; paper: the paper's iterations."""
    results: Annotated[Path, tyro.conf.arg(aliases=["--out"])] = Path("results")
    """Folder of the result files."""
    work: Path = Path("runs/reproduce")
    """Folder for checkpoints and results of parts, and for drawings."""
    pictures: PictureFormat = "png"
    """Format of the drawings; svg and pdf are sharp at any size."""
    jobs: int = 1
    """Models that are trained at once, each in a process of its own; they share the accelerator."""
    so_far: bool = False
    """Run nothing; show and write what is done by now, for one NAME."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then runs the parts, and writes one file for each name."""
        if self.jobs < 1:
            raise ValueError(f"--jobs is {self.jobs}: run at least 1 at once.")
        if self.so_far and self.name == "all":
            raise ValueError("--so-far shows one table or figure: name it.")
        names = get_args(PaperName) if self.name == "all" else (self.name,)
        studies = [make_study(name, self.scale) for name in names]
        for study in studies:
            check_result(self.results / f"{study.name}.json", study, self.scale)
            for part in study.parts:
                if (
                    not self.so_far
                    and read_done(part_folder(self.work, self.scale, study.name, part.name), part) is None
                ):
                    part.check_libraries()
        self._warn_without_accelerator(console)
        # What is done so far can be shown while another command runs.
        with contextlib.nullcontext() if self.so_far else alone_at_work(self.work, self.scale):
            try:
                if self.jobs > 1 and not self.so_far:
                    run_several(jobs_left(names, self.scale, self.work), self.jobs)
                for study in studies:
                    self._reproduce(console, study)
            except KeyboardInterrupt as stopped:
                where = stopped.where if isinstance(stopped, Stopped) else "what was done is saved."
                raise Interrupted(f"{where} To go on", []) from stopped

    def _warn_without_accelerator(self, console: Console) -> None:
        """Warns that models of the paper's sizes take days without an accelerator; smoke and classic need none."""
        # With several jobs it is theirs to look for an accelerator: to look is to take some of its memory.
        if self.scale == "smoke" or self.name == "classic" or self.so_far or self.jobs > 1:
            return
        if jax.default_backend() == "cpu":
            words = (
                f" {self.scale} is meant for an accelerator, and there is none here: what takes minutes on one takes "
                "days. --scale smoke, with --results of its own, shows how it goes."
            )
            say(console, ("note:", "bold yellow"), words)

    def _reproduce(self, console: Console, study: Study) -> None:
        out, images = self.results / f"{study.name}.json", self.work / self.scale / "images"
        result = reproduce(
            study, self.scale, work=self.work, out=out, say=lambda words: say(console, words), so_far=self.so_far
        )
        for cells in (study_cells(result), interval_cells(result)):
            for table in cell_tables(f"{study.name}, {self.scale}", cells, console.width) if cells else []:
                console.print(table, "")
        say(console, f"{study.name}: ", (str(out), "bold"))
        images.mkdir(parents=True, exist_ok=True)
        for picture in pictures_of(result):
            say(console, f"{study.name}: ", (str(save_picture(picture, images, out, self.pictures)), "bold"))


def cell_tables(title: str, cells: Cells, width: int) -> list[Table]:
    """Returns a study's table for a terminal: where it is too wide, several below each other with the same rows."""
    columns = list(zip(cells.headings, *cells.rows, strict=True))
    widths = [max(len(word) for word in [*heading.split(), *column]) for heading, *column in columns]
    blocks: list[list[int]] = [[]]
    for group in _groups(cells.headings):
        together = [0, *blocks[-1], *group]
        if blocks[-1] and sum(widths[number] + 2 for number in together) > width:
            blocks.append([])
        blocks[-1] += group
    tables: list[Table] = []
    for block in blocks:
        table = Table(title=None if tables else title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for number in (0, *block):
            # A heading may take several lines; what stands below it may not.
            table.add_column(cells.headings[number], justify="right" if number else "left", width=widths[number])
        for row in cells.rows:
            table.add_row(*(row[number] for number in (0, *block)))
        tables.append(table)
    return tables


def _groups(headings: list[str]) -> list[list[int]]:
    """Returns the numbers of columns that belong together: the paper's stands before ours."""
    groups: list[list[int]] = []
    for number, heading in enumerate(headings[1:], start=1):
        if groups and headings[number - 1] == f"{PAPERS}{heading}":
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def main(arguments: list[str] | None = None) -> None:
    """Runs `python -m experiments.paper` with the arguments that were typed."""
    typed = sys.argv[1:] if arguments is None else arguments
    run_program(Reproduce, "python -m experiments.paper", "Tables and figures of the paper.", typed)


if __name__ == "__main__":
    main()
