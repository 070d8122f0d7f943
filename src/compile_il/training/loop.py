"""A training under way: its state, its checkpoints when they are due, and how it is stopped.

Stopping politely: a signal sets a mark, and the loop that it would have torn apart ends between two steps.

What people see while a model is trained: a bar with the last scores beside it, or a line now and then.
"""

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import jax
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from compile_il.training.checkpoints import Checkpoint, Checkpoints
from compile_il.training.devices import any_host
from compile_il.training.log import TrainingLog

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_within: list["StopRequest"] = []
"""The `StopRequest` blocks that the main thread is in, the innermost last."""


def stop_is_requested() -> bool:
    """Whether the innermost `StopRequest` block has been asked to stop; for work inside it that may wait long."""
    return bool(_within) and _within[-1].requested


@contextlib.contextmanager
def interruptions_wait() -> Iterator[None]:
    """Holds Ctrl-C back until the block ends; in processes started in it, until they call `let_interruptions_in`."""
    if not hasattr(signal, "pthread_sigmask"):  # a system that cannot tell signals to wait
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_interruptions_in() -> None:
    """Lets Ctrl-C through again, in a process that was started where `interruptions_wait` held it back."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class StopRequest:
    """Inside the `with` block, Ctrl-C (or a request to terminate) is noted; a second one interrupts at once.

    Signals that are ignored outside, as Ctrl-C is in background jobs of a script, stay ignored. Signals reach the main
    thread only; in another one nothing is noted and nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._unbroken = False
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def unbroken(self) -> Iterator[None]:
        """A block that a second Ctrl-C does not break, for writing what must not be lost; keep it short."""
        self._unbroken = True
        try:
            yield
        finally:
            self._unbroken = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        impatient = self.requested and not self._unbroken
        self.requested = True
        if impatient:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
            _within.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self in _within:
            _within.remove(self)
        for number, handler in self._before.items():
            # None is a handler that Python did not install, and cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}


CHECKPOINT_SECONDS = 60.0


AGREE_EVERY = 50
"""Number of iterations after which several processes ask each other whether to stop."""


State = TypeVar("State")


Out = TypeVar("Out")


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and has saved what it had; the message says how to go on.

    Args:
      iteration: iterations done.
      total: iterations asked for.
      usable: whether what has been learned so far can be used, as a model or an agent.
    """

    def __init__(self, iteration: int, total: int, *, usable: bool = False):
        self.iteration, self.total = iteration, total
        can_be_used = ", and can be used as it is" if usable else ""
        self.where = f"after iteration {iteration} of {total}; all is saved{can_be_used}."
        super().__init__(
            f"{self.where} To go on, start again with the same data, settings and folder, and resume=True (--resume)."
        )


@contextlib.contextmanager
def usable_when_stopped(save: Callable[[Stopped], bool]) -> Iterator[None]:
    """Calls `save` if training is stopped in the block, and tells people whether it has left anything to use."""
    try:
        yield
    except Stopped as stopped:
        if not (stopped.iteration and save(stopped)):
            raise
        raise Stopped(stopped.iteration, stopped.total, usable=True) from None


class RunOutputs(NamedTuple):
    """Where a training leaves its checkpoints, how often, and its log."""

    checkpoints: Checkpoints
    checkpoint_seconds: float
    log: TrainingLog | None = None


@dataclasses.dataclass
class TrainingLoop(Generic[State]):
    """A training under way. Without a stop request that could be made, Ctrl-C simply ends the program."""

    state: State
    iteration: int = 0
    """Number of iterations done."""
    seconds: float = 0.0
    """Seconds that these iterations took."""
    request: StopRequest | None = None
    traces: RunOutputs | None = None

    def __post_init__(self) -> None:
        self._saved = time.monotonic()
        self._began = self._saved - self.seconds

    def steps(self, total: int, step: Callable[[State, int], tuple[State, Out]]) -> Iterator[Out]:
        """Trains until `total` iterations are done, and yields what each step gives besides the new state.

        A checkpoint is saved when one is due, at the end, and where training is asked to stop.
        """
        while self.iteration < total:
            self.stop_if_asked(total)
            self.state, out = step(self.state, self.iteration)
            self.iteration += 1
            self.look_at_clock()
            yield out
            self.save_if_due()
        self.save()

    def look_at_clock(self) -> None:
        """Brings `seconds` up to now, with the wait until iterations that were begun are done."""
        self.seconds = time.monotonic() - self._began

    @property
    def log(self) -> TrainingLog | None:
        """The log of the training, where there is one."""
        return None if self.traces is None else self.traces.log

    def save(self) -> None:
        """Writes a checkpoint, where there is a place for it."""
        if self.traces is not None and self.request is not None:
            with self.request.unbroken():
                self.traces.checkpoints.save(Checkpoint(self.state, self.iteration, self.seconds))
            self._saved = time.monotonic()

    def save_if_due(self) -> None:
        """Writes a checkpoint if the last one is old."""
        if self.traces is not None and time.monotonic() - self._saved > self.traces.checkpoint_seconds:
            self.save()

    def stop_if_asked(self, total: int) -> None:
        """Saves and raises `Stopped` if asked to; several processes, which must stop together, agree now and then."""
        asked = self.request is not None and self.request.requested
        if self.request is not None and jax.process_count() > 1:
            asked = self.iteration % AGREE_EVERY == 0 and any_host(asked)
        if asked:
            self.save()
            raise Stopped(self.iteration, total)


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
