"""A training under way: its state, its checkpoints when they are due, and how it is stopped."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

import jax

from compile_il.checkpoints import Checkpoint, Checkpoints
from compile_il.interrupts import StopRequest
from compile_il.parallel import anywhere
from compile_il.training_log import TrainingLog

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


class Traces(NamedTuple):
    """Where a training leaves its checkpoints, how often, and its log."""

    checkpoints: Checkpoints
    checkpoint_seconds: float
    log: TrainingLog | None = None


@dataclasses.dataclass
class UnderWay(Generic[State]):
    """A training under way. Without a stop request that could be made, Ctrl-C simply ends the program."""

    state: State
    iteration: int = 0
    """Number of iterations done."""
    seconds: float = 0.0
    """Seconds that these iterations took."""
    request: StopRequest | None = None
    traces: Traces | None = None

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
            asked = self.iteration % AGREE_EVERY == 0 and anywhere(asked)
        if asked:
            self.save()
            raise Stopped(self.iteration, total)
