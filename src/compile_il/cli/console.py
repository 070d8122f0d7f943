"""What the commands share: how they speak, and what they refuse."""

import sys
from typing import NoReturn

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

MAX_SEED = 2**32 - 1


def check_numbers(num_demos: int, seed: int) -> None:
    """Refuses numbers of demonstrations and seeds that cannot work."""
    if num_demos < 1:
        raise ValueError(f"--num-demos is {num_demos}: ask for at least 1.")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"--seed is {seed}: use a number from 0 to {MAX_SEED}.")


def say(console: Console, *words: str | tuple[str, str]) -> None:
    """Prints words as they are: brackets in a path are no markup, and long paths are not broken."""
    console.print(Text.assemble(*words), soft_wrap=True, highlight=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """Ends the program with one sentence."""
    say(Console(stderr=True), ("error:", "bold red"), f" {message}")
    sys.exit(code)


def stop(message: str) -> NoReturn:
    """Ends the program as a shell expects after Ctrl-C."""
    say(Console(stderr=True), ("stopped", "bold"), message)
    sys.exit(130)


def progress_bar(console: Console) -> Progress:
    """A bar with a description, counts and times."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )
