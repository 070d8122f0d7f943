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
from rich.table import Column, Table

from compile_il.cli import run_program
from compile_il.cli.console import say
from experiments.paper.classic import check_libraries
from experiments.paper.figures import PictureFormat, pictures_of, save_picture
from experiments.paper.jobs import jobs_of, run_several
from experiments.paper.parts import Scale
from experiments.paper.run import check_result, lock_work, reproduce
from experiments.paper.studies import PaperName, Study, StudyName, make_study
from experiments.paper.tables import interval_cells, study_cells


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train and score, or look at, the models of a table or a figure of the paper, of both engines.

    python -m experiments.paper table1 --scale short

    The same command continues an interrupted run; finished parts are not repeated. Numbers go to --results, figures to
    --work. A page with the tables and figures of all results is made by

    python -m experiments.paper.page PAGE.md --results results
    """

    name: Annotated[StudyName | Literal["all"], tyro.conf.arg(metavar="NAME"), tyro.conf.Positional]
    """table1, table2, table3, figure4, figure5, figure7, qualitative, or all of these; or classic: methods without
    networks, which take two hours without an accelerator."""
    scale: Scale = "short"
    """smoke: two steps of tiny networks; short: minutes on one accelerator; paper: the paper's iterations."""
    results: Annotated[Path, tyro.conf.arg(aliases=["--out"])] = Path("results")
    """Folder of the result files."""
    work: Path = Path("runs/reproduce")
    """Folder for checkpoints and results of parts, and for drawings."""
    pictures: PictureFormat = "png"
    """Format of the drawings; svg and pdf are sharp at any size."""
    jobs: int = 1
    """Number of models that are trained at once, each in its own process; they share the accelerator."""
    so_far: bool = False
    """Run nothing; show and write the finished parts of one NAME."""

    def run(self, console: Console) -> None:
        """Checks results and libraries, then runs the parts, and writes one file for each name."""
        if self.jobs < 1:
            raise ValueError(f"--jobs is {self.jobs}: run at least 1 at once.")
        if self.so_far and self.name == "all":
            raise ValueError("--so-far shows one table or figure: name it.")
        studies = [
            make_study(name, self.scale) for name in (get_args(PaperName) if self.name == "all" else [self.name])
        ]
        for study in studies:
            check_result(self.results / f"{study.name}.json", study, self.scale)
        jobs = [job for study in studies for job in jobs_of(study, self.scale, self.work)]
        left = [] if self.so_far else [job for job in jobs if not job.is_done]
        if any(job.study == "classic" for job in left):
            check_libraries()
        self._warn_without_accelerator(console)
        # Finished parts can be shown while another command runs.
        with contextlib.nullcontext() if self.so_far else lock_work(self.work, self.scale):
            if self.jobs > 1:
                run_several(left, self.jobs)
            for study in studies:
                self._reproduce(console, study)

    def _warn_without_accelerator(self, console: Console) -> None:
        """Warns that models of the paper's sizes take days without an accelerator; smoke and classic need none."""
        # The search itself takes some of an accelerator's memory, which several jobs need.
        if self.scale == "smoke" or self.name == "classic" or self.so_far or self.jobs > 1:
            return
        if jax.default_backend() == "cpu":
            words = (
                f" {self.scale} needs an accelerator, and there is none here: it would take days. Try --scale smoke."
            )
            say(console, ("note:", "bold yellow"), words)

    def _reproduce(self, console: Console, study: Study) -> None:
        out, images = self.results / f"{study.name}.json", self.work / self.scale / "images"
        result = reproduce(
            study, self.scale, work=self.work, out=out, say=lambda words: say(console, words), so_far=self.so_far
        )
        for cells in filter(None, (study_cells(result), interval_cells(result))):
            # Where the terminal is narrow, numbers wrap at their signs, and names stay whole.
            columns = [Column(heading, justify="right", overflow="fold") for heading in cells.headings[1:]]
            title, names = f"{study.name}, {self.scale}", Column(cells.headings[0], no_wrap=True)
            table = Table(names, *columns, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
            for row in cells.rows:
                table.add_row(*row)
            console.print(table, "")
        say(console, f"{study.name}: ", (str(out), "bold"))
        images.mkdir(parents=True, exist_ok=True)
        for picture in pictures_of(result):
            say(console, f"{study.name}: ", (str(save_picture(picture, images, out, self.pictures)), "bold"))


def main(arguments: list[str] | None = None) -> None:
    """Runs `python -m experiments.paper` with the given arguments, by default those of the command line."""
    typed = sys.argv[1:] if arguments is None else arguments
    run_program(Reproduce, "python -m experiments.paper", "Tables and figures of the paper.", typed)


if __name__ == "__main__":
    main()
