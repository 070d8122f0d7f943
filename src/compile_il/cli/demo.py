"""Runs `compile-il demo`: trains in two worlds, scores on unseen levels, and writes a page for each."""

import dataclasses
import shutil
from pathlib import Path

from rich.console import Console

import compile_il as cil
from compile_il.cli.console import Interrupted, check_numbers, say
from compile_il.cli.show import score_table
from compile_il.config import TEST_SEED, Config

MARK = "demo.json"
"""File that marks a folder as made by a demo, so that no other folder is cleared."""

DEMO_WORLDS = {"grid-pickup": 32, "reacher": 10}
"""Number of skills by world: more than boundaries need, so that skills can be run too."""
PAPER_UNSUPERVISED = {("reacher", 3): "62.0 ± 4.5", ("reacher", 5): "41.7 ± 8.0"}
"""The paper's boundary accuracy without labels (table 1, CompILE), as text, by world and number of tasks."""
TEST_TASKS = (3, 5)
"""Numbers of tasks to score on; training has three."""


@dataclasses.dataclass(frozen=True)
class Demo:
    """Learn skills in two worlds, run them on unseen levels, write a page for each.

    compile-il demo --out demo
    """

    out: Path = Path("demo")
    """The folder to write to: demonstrations, runs with their models, and a page for each world."""
    num_demos: int = 512
    """Number of unseen demonstrations of 3 tasks, and as many of 5."""
    num_iterations: int = 1000
    """Steps of training."""
    seed: int = 0
    """Seed of training."""
    overwrite: bool = False
    """Replace what an earlier demo left in the folder."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then does one world after the other."""
        check_numbers(self.num_demos, self.seed)
        config = Config(num_segments=3, num_iterations=self.num_iterations, seed=self.seed)
        self._clear_folder()
        try:
            self._run_worlds(config, console)
        except KeyboardInterrupt as interrupt:
            more = [] if self.overwrite else ["--overwrite"]
            raise Interrupted("before the demo was complete. To start it again", more) from interrupt

    def _clear_folder(self) -> None:
        """Makes the folder, or deletes an earlier demo in it; refuses what no demo made."""
        made = (self.out / MARK).exists()
        if not made and (self.out.is_symlink() or self.out.is_file() or any(self.out.glob("*"))):
            raise FileExistsError(f"{self.out} was not made by a demo: name another folder with --out.")
        if made and not self.overwrite:
            raise FileExistsError(
                f"{self.out} holds a demo: pass --overwrite to replace it, or name another with --out."
            )
        for folder in filter(Path.exists, (self.out / world for world in DEMO_WORLDS)):
            shutil.rmtree(folder)
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).touch()

    def _run_worlds(self, config: Config, console: Console) -> None:
        """Trains in each world, scores on the very demonstrations that are saved in files, and writes pages."""
        from compile_il.evaluation.results import Measurement
        from compile_il.report.page import Shown, write_report
        from compile_il.training.log import read_log

        paper = {f"{world}, {tasks} tasks": figure for (world, tasks), figure in PAPER_UNSUPERVISED.items()}
        measurement, scores, pages = Measurement(), dict[str, cil.Evaluation](), list[str]()
        for number, (world, num_skills) in enumerate(DEMO_WORLDS.items(), start=1):
            say(console, (f"{number} of {len(DEMO_WORLDS)}: {world}", "bold"))
            folder, sets = self.out / world, []
            config = dataclasses.replace(config, num_skills=num_skills)
            model = cil.fit(world, config=config, out=folder, progress=True)
            for tasks in TEST_TASKS:
                name = f"{world}, {tasks} tasks"
                with console.status(f"segmenting and executing {self.num_demos} unseen levels of {tasks} tasks"):
                    demos = cil.demonstrate(world, num_demos=self.num_demos, num_tasks=tasks, seed=TEST_SEED)
                    demos.save(folder / f"unseen-{tasks}-tasks.npz")
                    scores[name] = cil.evaluate(model, world, num_tasks=tasks, num_demos=self.num_demos)
                    sets.append(Shown(name, demos, model.segment(demos, tasks), scores[name], paper.get(name)))
            page = self.out / ("report.html" if world == "grid-pickup" else f"{world}.html")
            write_report(page, model, sets, title=f"Skills in {world}", history=read_log(folder), overwrite=True)
            pages.append(str(page))
        console.print(score_table(scores, paper))
        say(console, f"Trained without labels on three tasks; scored on {self.num_demos} unseen levels a column.")
        say(console, "The paper shows its grid world in figures only.")
        options = {"worlds": DEMO_WORLDS, "num_demos": self.num_demos, "num_iterations": self.num_iterations}
        figures = {name: evaluation._asdict() for name, evaluation in scores.items()}
        measurement.write(self.out / "result.json", config=options, seeds=[self.seed], figures=figures)
        say(console, f"{measurement.seconds:.0f} s in all. Look at ", (" and ".join(pages), "bold"))
