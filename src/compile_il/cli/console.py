"""Declares options, prints, and reports errors, in the same way for all commands."""

import contextlib
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.text import Text

from compile_il.config import MAX_SEED, CompileError, CompileWarning, MissingExtraError

WorldName = Literal["grid-pickup", "grid-visit", "reacher", "symbols", "grid-pickup-window", "grid-visit-window"]
"""Names of the worlds in `compile_il.worlds.WORLDS`, as a type that tyro reads."""


class Interrupted(KeyboardInterrupt):
    """Stops a command at Ctrl-C; `words` say where, and `more` is added to its arguments to go on."""

    def __init__(self, words: str, more: list[str]):
        self.words, self.more = words, more
        super().__init__(words)


def option(metavar: str, default: str) -> Any:
    """Declares an option with its value and its default as help shows them."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


def check_numbers(num_demos: int, seed: int) -> None:
    """Refuses numbers of demonstrations and seeds that are out of range."""
    if num_demos < 1:
        raise CompileError(f"--num-demos is {num_demos}: ask for at least 1.")
    if not 0 <= seed <= MAX_SEED:
        raise CompileError(f"--seed is {seed}: use a number from 0 to {MAX_SEED}.")


def command_line(arguments: list[str], program: str = "compile-il") -> str:
    """Returns what to type into a shell to run a program with some arguments."""
    words = program.split()
    if program == "compile-il" and (Path(sys.argv[0]).name == "__main__.py" or shutil.which(program) is None):
        words = [sys.executable, "-m", "compile_il"]
    return shlex.join([*words, *arguments])


def say(console: Console, *words: str | tuple[str, str]) -> None:
    """Prints words unchanged: brackets in a path are no markup, and long paths are not broken."""
    console.print(Text.assemble(*words), soft_wrap=True, highlight=False)


@contextlib.contextmanager
def user_errors(where: str = "") -> Iterator[None]:
    """Ends the program with one sentence, after `where`, at an error that a user can correct."""
    try:
        yield
        return
    except BrokenPipeError:  # the reader, such as head, needs no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        message = "the demonstrations do not fit into memory: lower --num-demos, or use a machine that has more."
    except (ValueError, OSError, MissingExtraError) as error:
        message = str(error)
    say(Console(stderr=True), ("error:", "bold red"), f" {where}{message}")
    sys.exit(1)


@contextlib.contextmanager
def printed_warnings() -> Iterator[None]:
    """Prints warnings of this package as one sentence, without a place in the code."""
    show = warnings.showwarning

    def print_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, CompileWarning):
            say(Console(stderr=True), ("note:", "bold yellow"), f" {message}")
        else:
            show(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", CompileWarning)
        warnings.showwarning = print_warning  # type: ignore[assignment]
        yield
