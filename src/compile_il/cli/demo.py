"""`compile-il demo`: the whole way once, from demonstrations to skills at work, in a few minutes on two cores."""

import dataclasses
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from compile_il.cli.console import check_numbers, say

if TYPE_CHECKING:
    from compile_il.demos import Demonstrations
    from compile_il.evaluate import Evaluation

DEMO_WORLDS = {"grid-pickup": 450, "reacher": 400}
"""Iterations that bring the boundaries of each world to all but perfection with the default sizes."""
TEST_TASKS = (3, 5)
"""Training sees lists of three tasks; lists of five are longer than any it has seen."""


@dataclasses.dataclass(frozen=True)
class Demo:
    """Train without labels, segment unseen demonstrations, run the skills in unseen levels, and show it all.

    compile-il demo --out demo
    """

    out: Path = Path("demo")
    """The folder to write to: demonstrations, runs with their models, and a page for each world."""
    num_demos: int = 512
    """Unseen demonstrations of 3 tasks, and as many of 5."""
    num_iterations: int | None = None
    """Steps of training; what each world needs if None."""
    seed: int = 0
    """Of training."""
    overwrite: bool = False
    """Replace what an earlier demo left there."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then does one world after the other."""
        from compile_il.cli.evaluate import score_table
        from compile_il.report.tables import PAPER_UNSUPERVISED

        check_numbers(self.num_demos, self.seed)
        self._make_folder()
        began = time.perf_counter()
        scores: dict[str, Evaluation] = {}
        for number, world in enumerate(DEMO_WORLDS, start=1):
            say(console, (f"{number} of {len(DEMO_WORLDS)}: {world}", "bold"))
            scores |= self._run_world(console, world)
        paper = {f"{world}, {tasks} tasks": figure for (world, tasks), figure in PAPER_UNSUPERVISED.items()}
        console.print(score_table(scores, paper))
        say(
            console,
            f"Trained without labels on three tasks; scored on {self.num_demos} unseen levels a row. The paper shows "
            "its grid world in figures only.",
        )
        pages = " and ".join(str(self._page(world)) for world in DEMO_WORLDS)
        say(console, f"{time.perf_counter() - began:.0f} s in all. Look at ", (pages, "bold"))

    def _run_world(self, console: Console, world: str) -> "dict[str, Evaluation]":
        from compile_il.evaluate import evaluate
        from compile_il.fit import fit
        from compile_il.report.page import Shown, write_report
        from compile_il.report.tables import PAPER_UNSUPERVISED
        from compile_il.training_log import read_log

        folder = self.out / world
        iterations = self.num_iterations or DEMO_WORLDS[world]
        model = fit(
            world, num_segments=3, num_skills=10, num_iterations=iterations, seed=self.seed, out=folder, progress=True
        )
        sets: list[Shown] = []
        scores: dict[str, Evaluation] = {}
        for tasks in TEST_TASKS:
            with console.status(f"segmenting and executing {self.num_demos} unseen levels of {tasks} tasks"):
                demos = self._unseen(world, tasks)
                name = f"{world}, {tasks} tasks"
                scores[name] = evaluate(model, world, num_tasks=tasks, num_demos=self.num_demos)
                paper = PAPER_UNSUPERVISED.get((world, tasks))
                beside = {} if paper is None else {"boundary_accuracy": paper}
                sets.append(Shown(name, demos, model.segment(demos, tasks), scores[name], beside))
        title = f"Skills found in {world}"
        write_report(self._page(world), model, sets, title=title, history=read_log(folder), overwrite=True)
        return scores

    def _unseen(self, world: str, tasks: int) -> "Demonstrations":
        """The very demonstrations that `evaluate` scores, kept in a file."""
        from compile_il.evaluate import TEST_SEED
        from compile_il.generate import demonstrate

        demos = demonstrate(world, num_demos=self.num_demos, num_tasks=tasks, seed=TEST_SEED)
        demos.save(self.out / world / f"unseen-{tasks}-tasks.npz", overwrite=True)
        return demos

    def _page(self, world: str) -> Path:
        return self.out / ("report.html" if world == "grid-pickup" else f"{world}.html")

    def _make_folder(self) -> None:
        """An empty folder, or one in which there is nothing but what an earlier demo left."""
        if self.out.is_symlink() or (self.out.exists() and not self.out.is_dir()):
            raise NotADirectoryError(f"{self.out} is not a folder: name another one with --out.")
        self.out.mkdir(parents=True, exist_ok=True)
        ours = {*DEMO_WORLDS, *(self._page(world).name for world in DEMO_WORLDS)}
        for entry in sorted(self.out.iterdir()):
            if entry.name not in ours or not self.overwrite:
                raise FileExistsError(f"{entry} exists: name another folder, or pass --overwrite to replace a demo.")
        for entry in self.out.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
