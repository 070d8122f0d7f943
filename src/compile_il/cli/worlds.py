"""Makes demonstrations of a world (`compile-il generate`), and shows what can be done in two (`compile-il demo`)."""

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress

import compile_il as cil
from compile_il.cli.console import Interrupted, WorldName, check_numbers, option, say
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
class WorldOptions:
    """Options of worlds; a world refuses those of others."""

    max_steps: Annotated[int | None, option("INT", "200; reacher: 100")] = None
    """Most steps of a demonstration; the paper trains its grid world with 42."""
    num_types: Annotated[int | None, option("INT", "10")] = None
    """Grids, reacher: types that objects or targets are drawn from."""
    num_objects: Annotated[int | None, option("INT", "6")] = None
    """Grids: objects in a level."""
    distinct_types: bool = False
    """Grids: no two objects of a level share a type."""
    size: Annotated[int | None, option("INT", "10")] = None
    """Grids: cells along a side, the border included."""
    wall_rate: Annotated[float | None, option("FLOAT", "0.2")] = None
    """Grids: probability that an inner wall of the maze is kept."""
    window: Annotated[int | None, option("INT", "5")] = None
    """Grids seen through a window: cells along a side of it."""
    max_targets: Annotated[int | None, option("INT", "6")] = None
    """Reacher: most targets in a level."""
    expert_gain: Annotated[float | None, option("FLOAT", "1.0")] = None
    """Reacher: gain of the expert's controller; at 1 it slows down before a target, at 4 it does not."""
    num_symbols: Annotated[int | None, option("INT", "5")] = None
    """Symbols: how many there are to draw from."""
    max_repeats: Annotated[int | None, option("INT", "4")] = None
    """Symbols: the most times that a symbol comes in a row."""


@dataclasses.dataclass(frozen=True)
class Generate:
    """Write expert demonstrations of a world to a file.

    compile-il generate grid-pickup --num-demos 1000 --num-tasks 3 --out pickup.npz
    """

    world: Annotated[WorldName, tyro.conf.arg(metavar="WORLD"), tyro.conf.Positional]
    """Which world: grid-pickup, grid-visit, reacher, symbols, or a grid seen through a window, such as
    grid-pickup-window."""
    out: Path
    """The file to write: an npz of plain arrays, which `compile_il.Demonstrations.load` reads."""
    num_demos: int = 1000
    """Number of demonstrations."""
    num_tasks: int = 3
    """Number of tasks in each demonstration."""
    seed: int = 0
    """Seed of the demonstrations."""
    overwrite: bool = False
    """Replace the file if it exists."""
    options: Annotated[WorldOptions, tyro.conf.arg(name="")] = WorldOptions()

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then generates, then writes."""
        from compile_il.data.files import SUFFIX, check_target

        target = check_target(self.out, overwrite=self.overwrite, suffix=SUFFIX)
        given = {name: value for name, value in vars(self.options).items() if value is not None and value is not False}
        world = cil.make_world(self.world, num_tasks=self.num_tasks, **given)
        check_numbers(self.num_demos, self.seed)
        began = time.perf_counter()
        with Progress(console=console) as progress:
            bar = progress.add_task(f"{self.world}, {self.num_tasks} tasks", total=self.num_demos)

            def show(num_made: int) -> None:
                progress.update(bar, completed=num_made)

            demos = cil.demonstrate(world, num_demos=self.num_demos, seed=self.seed, on_progress=show)
        generated = time.perf_counter() - began
        with console.status("saving"):
            path = demos.save(target, overwrite=self.overwrite)
        say(console, (str(path), "bold"), f"  {decimal(path.stat().st_size)}, made in {generated:.1f} s")
        say(console, repr(demos))


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
        from compile_il.training.runs import read_log

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
