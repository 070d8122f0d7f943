"""The command `compile-il`."""

import dataclasses
import importlib.metadata
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

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
from rich.text import Text

WorldName = Literal["grid-pickup", "grid-visit", "reacher", "symbols"]  # those of compile_il.worlds.WORLDS, for tyro
MAX_SEED = 2**32 - 1

DESCRIPTION = """Demonstrations in, skills out.

Finds the skills inside demonstrations, after CompILE (Kipf et al., ICML 2019).
This version makes demonstrations of the paper's worlds; `compile-il COMMAND --help` tells more.

`compile-il --version` says which version this is."""


def _unset(metavar: str, default: str) -> Any:
    """How help shows an option whose default depends on the world: what to type, and what holds otherwise."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclasses.dataclass(frozen=True)
class WorldOptions:
    """Each world takes those that it has."""

    max_steps: Annotated[int | None, _unset("INT", "200; reacher: 100")] = None
    """Cut demonstrations here; the paper trains its grid world with 42."""
    num_types: Annotated[int | None, _unset("INT", "10")] = None
    """Grids, reacher: types that objects or targets are drawn from."""
    num_objects: Annotated[int | None, _unset("INT", "6")] = None
    """Grids: objects in a level."""
    distinct_types: bool = False
    """Grids: no two objects of a level share a type."""
    size: Annotated[int | None, _unset("INT", "10")] = None
    """Grids: cells along a side, the border included."""
    wall_rate: Annotated[float | None, _unset("FLOAT", "0.2")] = None
    """Grids: probability that an inner wall of the maze is kept."""
    max_targets: Annotated[int | None, _unset("INT", "6")] = None
    """Reacher: most targets in a level."""
    num_symbols: Annotated[int | None, _unset("INT", "5")] = None
    """Symbols: how many to draw from."""
    max_repeats: Annotated[int | None, _unset("INT", "4")] = None
    """Symbols: longest run."""

    def given(self) -> dict[str, Any]:
        """Those that were typed."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


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
    overwrite: bool = False
    """Replace the file if it exists."""
    options: Annotated[WorldOptions, tyro.conf.arg(name="")] = WorldOptions()

    def run(self, console: Console) -> None:
        """Checks first what can go wrong, then generates, then writes."""
        from compile_il.demos.files import target_path
        from compile_il.generate import demonstrate
        from compile_il.worlds import make_world

        target = target_path(self.out, overwrite=self.overwrite)
        world = make_world(self.world, num_tasks=self.num_tasks, **self.options.given())
        _check_numbers(self.num_demos, self.seed)
        began = time.perf_counter()
        with _progress(console) as progress:
            bar = progress.add_task(f"{self.world}, {self.num_tasks} tasks", total=self.num_demos)
            demos = demonstrate(
                world,
                num_demos=self.num_demos,
                seed=self.seed,
                on_progress=lambda made: progress.update(bar, completed=made),
            )
        generated = time.perf_counter() - began
        with console.status("saving"):
            path = demos.save(target, overwrite=self.overwrite)
        _say(console, (str(path), "bold"), f"  {path.stat().st_size / 1e6:.1f} MB, made in {generated:.1f} s")
        _say(console, repr(demos))


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
        """Checks first what can go wrong, then generates, saves and draws."""
        from compile_il.files import replace_file
        from compile_il.generate import demonstrate
        from compile_il.report.gallery import draw_gallery
        from compile_il.worlds import WORLDS

        sheet = self.out / "worlds.png"
        files = {name: self.out / f"{name}.npz" for name in WORLDS}
        _check_numbers(self.num_demos, self.seed)
        self._make_folder([sheet, *files.values()])
        table = Table(title=f"{self.num_demos} expert demonstrations of each world, 3 tasks each", title_justify="left")
        for heading in ("world", "steps, mean", "longest", "observation", "actions"):
            table.add_column(
                heading, justify="right" if heading in ("steps, mean", "longest") else "left", no_wrap=True
            )
        named = {}
        for name in WORLDS:
            with console.status(f"generating {name}"):
                demos = demonstrate(name, num_demos=self.num_demos, seed=self.seed)
                demos.save(files[name], overwrite=self.overwrite)
            shape = "x".join(map(str, demos.observation_shape))
            actions = f"{demos.num_actions} discrete" if demos.num_actions else f"{demos.action_dim} continuous"
            table.add_row(name, f"{demos.lengths.mean():.1f}", str(demos.max_length), shape, actions)
            named[name] = demos
        with console.status("drawing"), replace_file(sheet) as temporary:
            draw_gallery(named).savefig(temporary, format="png")
        console.print(table)
        _say(console, "Saved to ", (f"{self.out}/*.npz", "bold"), "; a picture of them: ", (str(sheet), "bold"))

    def _make_folder(self, targets: list[Path]) -> None:
        from compile_il.files import check_target

        if self.out.is_dir():
            for target in targets:
                check_target(target, overwrite=self.overwrite)
        elif self.out.exists() or self.out.is_symlink():
            raise NotADirectoryError(f"{self.out} is not a folder: name another one with --out.")
        self.out.mkdir(parents=True, exist_ok=True)


Command = Annotated[Generate, tyro.conf.subcommand("generate")] | Annotated[Demo, tyro.conf.subcommand("demo")]


def _check_numbers(num_demos: int, seed: int) -> None:
    if num_demos < 1:
        raise ValueError(f"--num-demos is {num_demos}: ask for at least 1.")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"--seed is {seed}: use a number from 0 to {MAX_SEED}.")


def _say(console: Console, *words: str | tuple[str, str]) -> None:
    """Prints words as they are: brackets in a path are no markup, and long paths are not broken."""
    console.print(Text.assemble(*words), soft_wrap=True, highlight=False)


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
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"compile-il {importlib.metadata.version('compile-il')}")
        return
    try:
        command = tyro.cli(
            Command, prog="compile-il", description=DESCRIPTION, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
        )
        command.run(Console())
    except (ValueError, OSError) as error:
        _fail(str(error))
    except MemoryError:
        _fail("the demonstrations do not fit into memory: lower --num-demos, or use a machine that has more.")
    except KeyboardInterrupt:
        _say(Console(stderr=True), ("stopped", "bold"), "; nothing half-written is left behind")
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    _say(Console(stderr=True), ("error:", "bold red"), f" {message}")
    sys.exit(1)


if __name__ == "__main__":
    main()
