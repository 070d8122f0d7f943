"""Runs a training step by step, with checkpoints when they are due, progress on the console and a stop on Ctrl-C."""

import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Generic, Self, TypeVar

import jax
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Column

from compile_il.config import CompileError
from compile_il.training.checkpoints import Checkpoint
from compile_il.training.devices import hosts_where
from compile_il.training.runs import RunOutputs

AGREE_EVERY = 50
"""Number of iterations after which several processes ask each other whether to stop."""
LINE_SECONDS = 60.0
"""Seconds between two lines, where there is no terminal to show a bar."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

State = TypeVar("State")
Out = TypeVar("Out")
Result = TypeVar("Result")


class TrainingError(CompileError):
    """Training that cannot continue; the message says what to change."""

    @classmethod
    def diverged(cls, iteration: int) -> Self:
        """Returns the error for a training whose losses or weights are no longer numbers in any seed."""
        return cls(f"Training diverged by iteration {iteration}. Train again with a lower learning_rate.")


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and has saved what it had, which may be `usable` as a model or an agent."""

    def __init__(self, iteration: int, total: int, *, usable: bool = False):
        self.iteration, self.total = iteration, total
        self.where = f"after iteration {iteration} of {total}; all is saved{', and can be used as it is' * usable}."
        super().__init__(
            f"{self.where} To go on, start again with the same data, settings and folder, and resume=True (--resume)."
        )


class StopRequest(ExitStack):
    """Notes Ctrl-C, or a request to terminate, inside its `with` block; a second one interrupts at once.

    Signals that are ignored outside, as Ctrl-C is in background jobs of a script, stay ignored. Signals reach the main
    thread only; in another one nothing is noted and nothing changes. To `announce` is to answer the first Ctrl-C with
    a line on standard error.
    """

    def __init__(self, *, announce: bool = False):
        super().__init__()
        self.requested, self._announce = False, announce

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if (handler := signal.getsignal(number)) is not signal.SIG_IGN:
                    signal.signal(number, self._note)
                    # None is a handler that Python did not install, and cannot put back.
                    self.callback(signal.signal, number, handler or signal.SIG_DFL)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._announce and number == signal.SIGINT and sys.stderr is not None:
            # The bar, or whoever was interrupted, may be writing: print would wait for a lock, or fail.
            with suppress(OSError):
                os.write(2, b"\nstopping after this iteration; Ctrl-C again stops at once\n")


def stop_is_requested() -> bool:
    """Whether the innermost `StopRequest` block has been asked to stop; for work inside it that may wait long."""
    noting = [getattr(signal.getsignal(number), "__self__", None) for number in STOP_SIGNALS]
    return any(isinstance(request, StopRequest) and request.requested for request in noting)


@dataclasses.dataclass
class TrainingLoop(Generic[State]):
    """Runs iterations from a state, after which so many are done, which took so many seconds.

    Without a `request`, Ctrl-C simply ends the program.
    """

    state: State
    iteration: int = 0
    seconds: float = 0.0
    request: StopRequest | None = None
    outputs: RunOutputs | None = None

    def __post_init__(self) -> None:
        self._saved = time.monotonic()
        self._began = self._saved - self.seconds

    def train(
        self,
        total: int,
        step: Callable[[State, int], tuple[State, Out]],
        report: Callable[[Out], None],
        choose: Callable[[State], Result],
        save: Callable[[Result, int], None] | None = None,
    ) -> Result:
        """Trains until `total` iterations are done, and returns what `choose` makes of the last state.

        Args:
          total: number of iterations.
          step: maps the state and the number of the iteration to the next state, and to what `report` is called with.
          report: is called after each iteration.
          choose: maps the state to a model or agents, or raises `TrainingError` if none can be used.
          save: writes these and the number of iterations done, where there are `outputs`, also if training is stopped.
        """
        stopped: Stopped | None = None
        try:
            while self.iteration < total:
                self.stop_if_requested(total)
                self.state, out = step(self.state, self.iteration)
                self.iteration += 1
                self.update_seconds()
                report(out)
                if self.outputs is not None and time.monotonic() - self._saved > self.outputs.checkpoint_seconds:
                    self._save()
            self._save()
        except Stopped as stop:
            if save is None or not stop.iteration:
                raise
            stopped = stop
        try:
            result = choose(self.state)
        except TrainingError as error:
            raise stopped or error from None
        if save is not None and self.outputs is not None:
            save(result, self.iteration)
        if stopped or (self.request is not None and self.request.requested):  # in the last iteration, too late to stop
            raise Stopped(self.iteration, total, usable=save is not None)
        return result

    def update_seconds(self) -> None:
        """Brings `seconds` up to now, with the wait until iterations that were begun are done."""
        self.seconds = time.monotonic() - self._began

    def stop_if_requested(self, total: int) -> None:
        """Saves and raises `Stopped` if asked to; several processes, which must stop together, agree now and then."""
        requested = self.request is not None and self.request.requested
        if self.request is not None and jax.process_count() > 1:
            requested = self.iteration % AGREE_EVERY == 0 and bool(hosts_where(requested))
        if requested:
            self._save()
            raise Stopped(self.iteration, total)

    def _save(self) -> None:
        if self.outputs is not None:
            self.outputs.checkpoints.save(Checkpoint(self.state, self.iteration, self.seconds))
            self._saved = time.monotonic()


class ProgressBar:
    """A bar of iterations on the console with the last scores beside it; or, without a terminal, a line once a minute.

    By default it is shown where standard error is a terminal; if `shown` is False nothing is printed at all.
    """

    def __init__(self, total: int, done: int, shown: bool | None):
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._silent = shown is False
        # The bar takes the width that the words leave: in 80 columns nothing may be cut.
        bar = BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=40))
        remaining = TimeRemainingColumn(elapsed_when_finished=True, table_column=Column(no_wrap=True))
        columns = bar, "{task.completed}/{task.total}", remaining, "{task.description}"
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not self.shown, expand=True)
        self._task = self._bar.add_task("compiling", total=total, completed=done)
        self._scores = ""
        self._last_line = time.monotonic()

    def advance(self) -> None:
        """Moves the bar on by one iteration."""
        self._bar.update(self._task, advance=1, description=self._scores)

    def show(self, scores: str) -> None:
        """Shows the last scores beside the bar, or as a line of their own."""
        self._scores = scores
        self._bar.update(self._task, description=scores)
        if not self.shown and time.monotonic() >= self._last_line + LINE_SECONDS:
            task = self._bar.tasks[0]
            self.say(f"{task.completed:.0f}/{task.total:.0f}  {scores}")
            self._last_line = time.monotonic()

    def say(self, sentence: str) -> None:
        """Prints a sentence above the bar."""
        if not self._silent:
            self._bar.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
