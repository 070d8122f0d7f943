"""`compile-il demo`: trains in two worlds, scores on unseen levels, and writes a page for each."""

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from compile_il.cli.console import Interrupted, check_numbers, say
from compile_il.config import TEST_SEED

if TYPE_CHECKING:
    from compile_il.data import Demonstrations
    from compile_il.evaluation.evaluate import Evaluation


MARK = "demo.json"
"""File that marks a folder as made by a demo, so that no other folder is cleared."""
RESULT_FILE = "result.json"
"""File with the scores and the time of a demo."""

DEMO_WORLDS: dict[str, dict[str, Any]] = {
    "grid-pickup": {"num_skills": 32, "num_iterations": 1000},
    "reacher": {"num_skills": 10, "num_iterations": 1000},
}
"""Settings of training by world. Boundaries are right after 400 iterations; skills that can be run need more of them,
and more skills."""


PAPER_UNSUPERVISED = {("reacher", 3): "62.0 ± 4.5", ("reacher", 5): "41.7 ± 8.0"}
"""The paper's boundary accuracy without labels (table 1, CompILE), as text, by world and number of tasks."""

TEST_TASKS = (3, 5)
"""Numbers of tasks to score on. Training sees lists of three; lists of five are longer than any it has seen."""


@dataclasses.dataclass(frozen=True)
class Demo:
    """Find skills in two worlds, put them to work on unseen levels, show it all.

    compile-il demo --out demo
    """

    out: Path = Path("demo")
    """The folder to write to: demonstrations, runs with their models, and a page for each world."""
    num_demos: int = 512
    """Number of unseen demonstrations of 3 tasks, and as many of 5."""
    num_iterations: Annotated[
        int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: what each world needs)")
    ] = None
    """Steps of training."""
    seed: int = 0
    """Seed of training."""
    overwrite: bool = False
    """Replace what an earlier demo left in the folder."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then does one world after the other."""
        check_numbers(self.num_demos, self.seed)
        if self.num_iterations is not None and self.num_iterations < 1:
            raise ValueError(f"--num-iterations is {self.num_iterations}: use at least 1.")
        self._clear_folder()
        try:
            self._run_worlds(console)
        except KeyboardInterrupt as interrupt:
            more = [] if self.overwrite else ["--overwrite"]
            raise Interrupted("before the demo was complete. To start it again", more) from interrupt

    def _clear_folder(self) -> None:
        """Makes the folder, or deletes an earlier demo in it; refuses a folder that no demo made."""
        if self.out.is_symlink() or (self.out.exists() and not self.out.is_dir()):
            raise NotADirectoryError(f"{self.out} is not a folder: name another one with --out.")
        if self.out.exists() and any(self.out.iterdir()):
            if not (self.out / MARK).exists():
                raise FileExistsError(f"{self.out} was not made by a demo: name another folder with --out.")
            if not self.overwrite:
                raise FileExistsError(
                    f"{self.out} holds a demo: pass --overwrite to replace it, or name another with --out."
                )
            for folder in filter(Path.exists, (self.out / world for world in DEMO_WORLDS)):
                shutil.rmtree(folder)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).touch()

    def _run_worlds(self, console: Console) -> None:
        from compile_il.cli.show import score_table
        from compile_il.evaluation.results import Measurement

        measurement = Measurement()
        scores: dict[str, Evaluation] = {}
        for number, world in enumerate(DEMO_WORLDS, start=1):
            say(console, (f"{number} of {len(DEMO_WORLDS)}: {world}", "bold"))
            scores |= self._run_world(console, world)
        paper = {f"{world}, {tasks} tasks": figure for (world, tasks), figure in PAPER_UNSUPERVISED.items()}
        console.print(score_table(scores, paper))
        say(
            console,
            f"Trained without labels on three tasks; scored on {self.num_demos} unseen levels a column. The paper "
            "shows its grid world in figures only.",
        )
        measurement.write(
            self.out / RESULT_FILE,
            config={"worlds": DEMO_WORLDS, "num_demos": self.num_demos, "num_iterations": self.num_iterations},
            seeds=[self.seed],
            figures={name: evaluation._asdict() for name, evaluation in scores.items()},
        )
        pages = " and ".join(str(self._page(world)) for world in DEMO_WORLDS)
        say(console, f"{measurement.seconds:.0f} s in all. Look at ", (pages, "bold"))

    def _run_world(self, console: Console, world: str) -> "dict[str, Evaluation]":
        from compile_il.evaluation.evaluate import evaluate
        from compile_il.report.page import write_report
        from compile_il.report.summary import Shown
        from compile_il.training.fit import fit
        from compile_il.training.log import read_log

        folder = self.out / world
        settings = DEMO_WORLDS[world]
        if self.num_iterations is not None:
            settings = settings | {"num_iterations": self.num_iterations}
        model = fit(world, num_segments=3, seed=self.seed, out=folder, progress=True, **settings)
        sets: list[Shown] = []
        scores: dict[str, Evaluation] = {}
        for tasks in TEST_TASKS:
            with console.status(f"segmenting and executing {self.num_demos} unseen levels of {tasks} tasks"):
                demos = self._unseen(world, tasks)
                name = f"{world}, {tasks} tasks"
                scores[name] = evaluate(model, world, num_tasks=tasks, num_demos=self.num_demos)
                paper = PAPER_UNSUPERVISED.get((world, tasks))
                beside = {} if paper is None else {"boundary_accuracy": paper}
                sets.append(Shown(name, demos, model.segment(demos, tasks), scores[name], paper=beside))
        title = f"Skills found in {world}"
        write_report(self._page(world), model, sets, title=title, history=read_log(folder), overwrite=True)
        return scores

    def _unseen(self, world: str, tasks: int) -> "Demonstrations":
        """Makes the very demonstrations that `evaluate` scores, and saves them in a file."""
        from compile_il.worlds.demonstrate import demonstrate

        demos = demonstrate(world, num_demos=self.num_demos, num_tasks=tasks, seed=TEST_SEED)
        demos.save(self.out / world / f"unseen-{tasks}-tasks.npz", overwrite=True)
        return demos

    def _page(self, world: str) -> Path:
        return self.out / ("report.html" if world == "grid-pickup" else f"{world}.html")
