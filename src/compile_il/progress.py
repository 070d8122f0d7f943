"""What people see while a model is trained: a bar with the last scores beside it."""

import sys
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Check(NamedTuple):
    """How training stands; where several seeds are trained, of the one that is best at that moment."""

    iteration: int
    seconds: float
    seed: int
    """The seed with the best held-out likelihood so far."""
    loss: float
    held_out_log_likelihood: float
    """Mean over demonstrations that training never sees."""
    boundary_accuracy: float | None
    """On the same demonstrations, where the truth is known."""

    def in_words(self) -> str:
        """For a line beside the bar."""
        words = f"loss {self.loss:.2f}  held-out {self.held_out_log_likelihood:.2f}"
        return words if self.boundary_accuracy is None else f"{words}  boundaries {100 * self.boundary_accuracy:.1f} %"


class ProgressBar:
    """A bar of iterations on the console; silent where `shown` is false.

    Args:
      total: iterations in all.
      done: iterations that were done before.
      shown: whether to show it; by default where standard error is a terminal.
    """

    def __init__(self, total: int, done: int, shown: bool | None):
        self.shown = sys.stderr.isatty() if shown is None else shown
        columns = (
            TextColumn("training"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not self.shown)
        self._task = self._bar.add_task("", total=total, completed=done)

    def advance(self) -> None:
        """One more iteration."""
        self._bar.advance(self._task)

    def tell(self, check: Check) -> None:
        """Shows the last scores."""
        self._bar.update(self._task, description=check.in_words())

    def say(self, sentence: str) -> None:
        """A sentence above the bar."""
        if self.shown:
            self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
