"""Makes demonstrations of a world (`compile-il generate`)."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import Progress

import compile_il as cil
from compile_il.cli.console import check_numbers, option, say

WorldName = Literal["grid-pickup", "grid-visit", "reacher", "symbols", "grid-pickup-window", "grid-visit-window"]
"""Names of the worlds in `compile_il.worlds.WORLDS`, as a type that tyro reads."""


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
        say(console, (str(path), "bold"), f"  {path.stat().st_size / 1e6:.1f} MB, made in {generated:.1f} s")
        say(console, repr(demos))
