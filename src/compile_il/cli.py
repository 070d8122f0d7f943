"""The command `compile-il`."""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

WorldName = Literal["grid-pickup", "grid-visit", "reacher", "symbols"]

DESCRIPTION = """Demonstrations in, skills out.

Finds the skills inside demonstrations, after CompILE (Kipf et al., ICML 2019).
This version makes demonstrations of the paper's worlds; `compile-il COMMAND --help` tells more."""


@dataclasses.dataclass(frozen=True)
class Generate:
    """Write expert demonstrations of a world to a file.

    compile-il generate grid-pickup --num-demos 1000 --num-tasks 3 --out pickup.npz
    """

    world: tyro.conf.Positional[WorldName]
    """Which world."""
    out: Path
    """The file to write: an npz of plain arrays, which `compile_il.Demonstrations.load` reads."""
    num_demos: int = 1000
    """How many demonstrations."""
    num_tasks: int = 3
    """Length of each task list."""
    seed: int = 0
    """Which demonstrations."""
    max_steps: int | None = None
    """Cut demonstrations here; the paper trains its grid world with 42. Default: 200 (reacher: 100)."""
    num_objects: int | None = None
    """Objects in a level of the grid world. Default: 6."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then generates, then writes."""
        from compile_il.demos.files import target_path
        from compile_il.generate import demonstrate

        target = target_path(self.out, overwrite=self.overwrite)
        options: dict[str, Any] = {} if self.num_objects is None else {"num_objects": self.num_objects}
        began = time.perf_counter()
        with _progress(console) as progress:
            bar = progress.add_task(f"{self.world}, {self.num_tasks} tasks", total=self.num_demos)
            demos = demonstrate(
                self.world,
                num_demos=self.num_demos,
                num_tasks=self.num_tasks,
                seed=self.seed,
                max_steps=self.max_steps,
                on_progress=lambda made: progress.update(bar, completed=made),
                **options,
            )
        generated = time.perf_counter() - began
        path = demos.save(target, overwrite=self.overwrite)
        console.print(f"[bold]{path}[/]  {path.stat().st_size / 1e6:.1f} MB, made in {generated:.1f} s")
        console.print(repr(demos), highlight=False)


@dataclasses.dataclass(frozen=True)
class Demo:
    """Generate demonstrations of every world and draw them.

    compile-il demo --out demo
    """

    out: Path = Path("demo")
    """The folder to write to: worlds.png, and one file of demonstrations for each world."""
    num_demos: int = 1000
    """How many demonstrations of each world."""
    seed: int = 0
    """Which demonstrations."""
    overwrite: bool = False
    """Replace files that exist."""

    def run(self, console: Console) -> None:
        """Generates, saves and draws."""
        from compile_il.files import check_target, replace_file
        from compile_il.generate import demonstrate
        from compile_il.report.gallery import draw_gallery
        from compile_il.worlds import WORLDS

        self.out.mkdir(parents=True, exist_ok=True)
        sheet = check_target(self.out / "worlds.png", overwrite=self.overwrite)
        table = Table(title=f"{self.num_demos} expert demonstrations of each world, 3 tasks each", title_justify="left")
        for heading in ("world", "steps, mean", "longest", "observation", "actions"):
            table.add_column(
                heading, justify="right" if heading in ("steps, mean", "longest") else "left", no_wrap=True
            )
        named = {}
        for name in WORLDS:
            with console.status(f"generating {name}"):
                demos = demonstrate(name, num_demos=self.num_demos, seed=self.seed)
                demos.save(self.out / f"{name}.npz", overwrite=self.overwrite)
            shape = "x".join(map(str, demos.observation_shape))
            actions = f"{demos.num_actions} discrete" if demos.num_actions else f"{demos.action_dim} continuous"
            table.add_row(name, f"{demos.lengths.mean():.1f}", str(demos.max_length), shape, actions)
            named[name] = demos
        with console.status("drawing"), replace_file(sheet) as temporary:
            draw_gallery(named).savefig(temporary, format="png")
        console.print(table)
        console.print(f"Saved to [bold]{self.out}/*.npz[/]; a picture of them: [bold]{sheet}[/]")


Command = Annotated[Generate, tyro.conf.subcommand("generate")] | Annotated[Demo, tyro.conf.subcommand("demo")]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def main(arguments: list[str] | None = None) -> None:
    """Entry point; mistakes of the user end in one sentence, not in a traceback."""
    command = tyro.cli(
        Command, prog="compile-il", description=DESCRIPTION, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
    )
    try:
        command.run(Console())
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("[bold]stopped[/]; nothing half-written is left behind")
        sys.exit(130)
