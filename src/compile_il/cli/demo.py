"""`compile-il demo`: the whole way once, from demonstrations to skills at work, in a few minutes on two cores."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from compile_il.cli.console import Interrupted, check_numbers, say
from compile_il.cli.demo_folder import RESULT_FILE, open_demo_folder

if TYPE_CHECKING:
    from compile_il.demos import Demonstrations
    from compile_il.evaluate import Evaluation

DEMO_WORLDS: dict[str, dict[str, Any]] = {
    "grid-pickup": {"num_skills": 32, "num_iterations": 1000},
    "reacher": {"num_skills": 10, "num_iterations": 1000},
}
"""Settings of training by world. Boundaries are right after 400 iterations; skills that can be run need more of them,
and more skills."""
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
        open_demo_folder(self.out, DEMO_WORLDS, map(self._page, DEMO_WORLDS), overwrite=self.overwrite)
        try:
            self._run_worlds(console)
        except KeyboardInterrupt as interrupt:
            more = [] if self.overwrite else ["--overwrite"]
            raise Interrupted("before the demo was complete. To start it again", more) from interrupt

    def _run_worlds(self, console: Console) -> None:
        from compile_il.cli.evaluate import score_table
        from compile_il.reproduce.paper import PAPER_UNSUPERVISED
        from compile_il.results import Measurement

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
        from compile_il.evaluate import evaluate
        from compile_il.fit import fit
        from compile_il.report.page import Shown, write_report
        from compile_il.reproduce.paper import PAPER_UNSUPERVISED
        from compile_il.training_log import read_log

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
        from compile_il.evaluate import TEST_SEED
        from compile_il.generate import demonstrate

        demos = demonstrate(world, num_demos=self.num_demos, num_tasks=tasks, seed=TEST_SEED)
        demos.save(self.out / world / f"unseen-{tasks}-tasks.npz", overwrite=True)
        return demos

    def _page(self, world: str) -> Path:
        return self.out / ("report.html" if world == "grid-pickup" else f"{world}.html")
