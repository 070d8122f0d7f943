"""The process of one part, which `compile-il reproduce --jobs` starts for each: `python -m compile_il.cli.part`."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

import tyro

from compile_il.cli.console import mistakes_told
from compile_il.interrupts import let_interruptions_in
from compile_il.reproduce.parts import run_part
from compile_il.reproduce.runner import trained_folder
from compile_il.reproduce.several import INTERRUPTED, Job

AGAIN = 0.1
"""Seconds after which an interruption that was swallowed is sent again."""


def main(job: Job) -> None:
    """Runs the part that a job names; the end of standard input stops it."""
    trained = trained_folder(job.work, job.scale)

    def say(words: str) -> None:
        print(f"{job.study}, {words}", flush=True)

    try:
        with _stopped_from_outside(), mistakes_told(f"{job.study}, {job.part}: "):
            run_part(job.find(), job.folder, say, trained=trained)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def _stopped_from_outside() -> Iterator[None]:
    """A block that can be interrupted; what comes before and after it cannot, as it would end in a traceback."""
    sys.unraisablehook = _send_again
    let_interruptions_in()
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _send_again(swallowed: "sys.UnraisableHookArgs") -> None:
    # What is raised in a collection of garbage, for one, ends there: Python prints it and goes on.
    if not issubclass(swallowed.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(swallowed)
        return
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def _stop_at_end_of_input() -> None:
    # Not by the buffered reader: a process may not end while another thread holds it.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(tyro.cli(Job))
