"""Several parts at once, each in a process of its own: one alone leaves most of a large accelerator idle.

A process is told to stop by the end of its standard input, which comes too when the one that started it is killed.

The process of one part, which `python -m experiments.paper --jobs` starts for each: `python -m experiments.paper.jobs`.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import tyro

from compile_il.cli.console import user_errors
from compile_il.training.loop import StopRequest
from experiments.paper.names import Scale, StudyName
from experiments.paper.parts import Part, add_seconds, is_done, run_part, seconds_had
from experiments.paper.run import part_folder, trained_folder
from experiments.paper.studies import make_study

POLL_SECONDS = 0.2
"""Seconds between two looks at the processes."""


INTERRUPTED = 130
"""Exit status of a part that has saved what it had."""


CHECKOUT = Path(__file__).parents[2]
"""Folder that holds the package `experiments`."""
PROGRAM = "experiments.paper.jobs"
"""Module that runs one part, as a process of its own."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Part of a study that is to be run in a process of its own, named by what the process is given."""

    study: StudyName
    part: str
    scale: Scale
    work: Path

    @property
    def folder(self) -> Path:
        """Folder of the part."""
        return part_folder(self.work, self.scale, self.study, self.part)

    def find(self) -> Part:
        """Returns the part itself, with the settings of its scale."""
        return next(part for part in make_study(self.study, self.scale).parts if part.name == self.part)

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts the part in a process of its own, out of reach of the terminal's Ctrl-C, which would come twice."""
        names = [f"--{field.name}={getattr(self, field.name)}" for field in dataclasses.fields(self)]
        # Each would take most of the accelerator's memory beforehand.
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
        variables["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", PROGRAM, *names]
        with _interrupts_blocked():  # until the program is there that can end without a traceback
            return subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, start_new_session=True)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Holds Ctrl-C back until the block ends; in processes started in it, until they unblock it."""
    if not hasattr(signal, "pthread_sigmask"):  # a system that cannot hold signals back
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class PartError(ChildProcessError):
    """Some parts ended with an error, which the process of each has printed."""


def jobs_left(names: tuple[StudyName, ...], scale: Scale, work: Path) -> list[Job]:
    """Returns the jobs of the studies that are not done yet."""
    every = [Job(name, part.name, scale, work) for name in names for part in make_study(name, scale).parts]
    left = [job for job in every if not is_done(job.folder, job.find())]
    for job in left:
        seconds_had(job.folder)  # which complains where it cannot be added to, before anything is started
    return left


def run_several(jobs: list[Job], at_once: int) -> None:
    """Runs all jobs, at most `at_once` at a time; Ctrl-C lets each save what it has."""
    waiting, running, failed = list(jobs), dict[Job, "subprocess.Popen[bytes]"](), list[str]()
    last = time.monotonic()
    with StopRequest() as request:
        while running or (waiting and not request.requested):
            if request.requested:
                _close_input(running.values())  # which tells them to stop
            elif len(running) < at_once and (job := _next(waiting, running)):
                waiting.remove(job)
                running[job] = job.start()
            time.sleep(POLL_SECONDS)
            last, before = time.monotonic(), last
            for job in running:
                add_seconds(job.folder, last - before, at_once=len(running))
            ended = {job: process for job, process in running.items() if process.poll() is not None}
            _close_input(ended.values())
            failed += [job.part for job, process in ended.items() if process.returncode not in (0, INTERRUPTED)]
            running = {job: process for job, process in running.items() if job not in ended}
    if request.requested:
        raise KeyboardInterrupt
    if failed:
        raise PartError(f"{'; '.join(failed)}: failed, as said above. What is done will not be done again.")


def _next(waiting: Iterable[Job], running: Iterable[Job]) -> Job | None:
    """Returns the first job that does not need what another one trains just now: later it will find that done."""
    busy = {part.training_hash for part in map(Job.find, running) if part.needs_models}
    return next((job for job in waiting if not (job.find().needs_models and job.find().training_hash in busy)), None)


def _close_input(processes: Iterable["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        if process.stdin is not None:
            process.stdin.close()


AGAIN = 0.1
"""Seconds after which an interruption that was swallowed is sent again."""


def main(job: Job) -> None:
    """Runs the part that a job names; the end of standard input stops it."""
    trained = trained_folder(job.work, job.scale)

    def say(words: str) -> None:
        print(f"{job.study}, {words}", flush=True)

    try:
        with _stopped_from_outside(), user_errors(f"{job.study}, {job.part}: "):
            run_part(job.find(), job.folder, say, trained=trained)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def _stopped_from_outside() -> Iterator[None]:
    """A block that can be interrupted; what comes before and after it cannot, as it would end in a traceback."""
    sys.unraisablehook = _send_again
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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
