"""What people see while a model is trained: a bar with the last scores beside it, or a line now and then."""

import sys
import time
from types import TracebackType
from typing import NamedTuple, Protocol, Self, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

LINE_SECONDS = 60.0
"""Seconds between two lines, where there is no terminal to show a bar."""


class Check(NamedTuple):
    """How training stands; where several seeds are trained, with the scores of the one that is best at that moment."""

    iteration: int
    seconds: float
    seed: int
    """The seed with the best held-out likelihood so far."""
    loss: float
    held_out_log_likelihood: float
    """Mean log-likelihood of demonstrations that training never sees."""
    boundary_accuracy: float | None
    """Boundary accuracy on held-out demonstrations, or None where the truth is not known."""

    def in_words(self) -> str:
        """The scores in words, for a line beside the bar."""
        words = f"loss {self.loss:.2f}  held-out {self.held_out_log_likelihood:.2f}"
        return words if self.boundary_accuracy is None else f"{words}  boundaries {100 * self.boundary_accuracy:.1f} %"


@runtime_checkable
class Status(Protocol):
    """Anything that can say in words how it stands, such as `Check`."""

    def in_words(self) -> str:
        """How it stands in words, for a line beside the bar."""


class ProgressBar:
    """A bar of iterations on the console; silent where `shown` is false.

    Args:
      total: iterations in all.
      done: iterations that were done before.
      shown: whether to show it; by default where standard error is a terminal, and else a line once a minute.
    """

    def __init__(self, total: int, done: int, shown: bool | None):
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._silent = shown is False
        # The bar takes what room the words leave: in 80 columns nothing may be cut.
        columns = (
            BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40)),
            TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(elapsed_when_finished=True, table_column=Column(no_wrap=True)),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not self.shown, expand=True)
        self._task = self._bar.add_task("compiling", total=total, completed=done)
        self._words = ""
        self._last_line = time.monotonic()

    def advance(self) -> None:
        """Moves the bar on by one iteration."""
        self._bar.update(self._task, advance=1, description=self._words)

    def tell(self, check: Status) -> None:
        """Shows the last scores beside the bar, or as a line of their own."""
        self._words = check.in_words()
        self._bar.update(self._task, description=self._words)
        if not self.shown and time.monotonic() >= self._last_line + LINE_SECONDS:
            task = self._bar.tasks[0]
            self.say(f"{task.completed:.0f}/{task.total:.0f}  {self._words}")
            self._last_line = time.monotonic()

    def say(self, sentence: str) -> None:
        """Prints a sentence above the bar."""
        if not self._silent:
            self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
