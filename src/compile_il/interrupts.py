"""Stopping politely: a signal sets a mark, and the loop that it would have torn apart ends between two steps."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, Self

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
