"""Prints, fails, stops and resumes for all commands in the same way."""

import contextlib
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from compile_il.config import MAX_SEED, CompileWarning, MissingExtraError


class Interrupted(KeyboardInterrupt):
    """Stops a command at Ctrl-C and names the command that goes on.

    Args:
      words: where it stopped, and what running it again will do.
      more: what to add to the arguments that it was given.
    """

    def __init__(self, words: str, more: list[str]):
        self.words, self.more = words, more
        super().__init__(words)


def command_line(arguments: list[str], program: str = "compile-il") -> str:
    """Returns what to type into a shell to run a program, the way it was started, with some arguments."""
    return shlex.join([*(_program() if program == "compile-il" else program.split()), *arguments])


def _program() -> list[str]:
    started = sys.argv[0]
    if Path(started).name == "__main__.py":  # python -m compile_il
        return [sys.executable, "-m", "compile_il"]
    found = shutil.which("compile-il")
    elsewhere = Path(started).name == "compile-il" and (found is None or not Path(found).samefile(started))
    return [started] if elsewhere else ["compile-il"]


def check_numbers(num_demos: int, seed: int) -> None:
    """Raises an error for a number of demonstrations or a seed that cannot work."""
    if num_demos < 1:
        raise ValueError(f"--num-demos is {num_demos}: ask for at least 1.")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"--seed is {seed}: use a number from 0 to {MAX_SEED}.")


def say(console: Console, *words: str | tuple[str, str]) -> None:
    """Prints words as they are: brackets in a path are no markup, and long paths are not broken."""
    console.print(Text.assemble(*words), soft_wrap=True, highlight=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Prints an error in one sentence and ends the program."""
    say(Console(stderr=True), ("error:", "bold red"), f" {message}")
    sys.exit(code)


@contextlib.contextmanager
def user_errors(where: str = "") -> Iterator[None]:
    """Ends the program with one sentence, after `where`, at an error that a user can mend."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, OSError, MissingExtraError) as error:
        fail(f"{where}{error}")
    except MemoryError:
        fail(f"{where}the demonstrations do not fit into memory: lower --num-demos, or use a machine that has more.")


@contextlib.contextmanager
def printed_warnings() -> Iterator[None]:
    """Prints warnings of this package as one sentence, without a place in the code."""
    show = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, CompileWarning):
            say(Console(stderr=True), ("note:", "bold yellow"), f" {message}")
        else:
            show(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CompileWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


def stop(message: str) -> NoReturn:
    """Prints a message and ends the program as a shell expects after Ctrl-C."""
    say(Console(stderr=True), ("stopped", "bold"), message)
    sys.exit(130)


@contextlib.contextmanager
def resumable(out: Path, *, resumed: bool) -> Iterator[None]:
    """Trains in a folder, and names the command that goes on where Ctrl-C leaves a run there."""
    from compile_il.training.loop import Stopped
    from compile_il.training.runs import holds_run

    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not holds_run(out):
            raise
        where = interrupt.where if isinstance(interrupt, Stopped) else "at once; what was saved before is kept."
        raise Interrupted(f"{where} To go on", [] if resumed else ["--resume"]) from interrupt


def say_where(console: Console, what: str, out: Path) -> None:
    """Prints where the result is, and how to look at its curves."""
    say(console, f"{what}: ", (str(out), "bold"), f"; curves: tensorboard --logdir {shlex.quote(str(out))}")
