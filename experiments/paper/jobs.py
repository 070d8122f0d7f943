"""Runs the parts of studies in their folders, in this process or several at once in processes of their own.

One process alone leaves most of a large accelerator idle. `python -m experiments.paper.jobs STUDY PART SCALE WORK` is
the process of one part. It saves and stops at the end of its standard input, which its parent's death ends too.
"""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from compile_il.cli.console import Interrupted, user_errors
from compile_il.data.files import write_atomically
from compile_il.training.loop import Stopped, StopRequest
from experiments.paper.parts import Part, Say, Scale, read_done, run_part
from experiments.paper.studies import Study, StudyName, make_study

POLL_SECONDS = 0.2
"""Seconds between two looks at the processes."""
REPEAT_SECONDS = 30.0
"""Seconds after which an interruption is sent again: one that comes in a collection of garbage is lost."""
INTERRUPTED = 130
"""Exit status of a part that has saved what it had."""
SECONDS_FILE = "seconds.txt"
SAVED = "; what was done is saved."


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """Part of a study at its place in the folder of all work."""

    study: StudyName
    part: Part
    scale: Scale
    work: Path

    def __str__(self) -> str:
        return f"{self.study}, {self.part.name}"

    @property
    def folder(self) -> Path:
        """Folder of the part; hyphens stand for what some file systems do not take."""
        return self.work / self.scale / self.study / re.sub(r"[^A-Za-z0-9.]+", "-", self.part.name)

    @property
    def is_done(self) -> bool:
        """Whether the part has a result."""
        return read_done(self.folder, self.part) is not None

    def run(self, say: Say) -> dict[str, Any]:
        """Runs the part; all of a scale share checkpoints, since some need the same models."""
        return run_part(self.part, self.folder, say, trained=self.work / self.scale / "trained")

    def run_counted(self, say: Say) -> dict[str, Any]:
        """Runs the part with the machine to itself, and adds its time unless it is killed."""
        began = time.monotonic() - self.seconds  # a damaged record raises before the work, not after it
        try:
            return self.run(say)
        except KeyboardInterrupt as stop:
            where = f" {stop.where}" if isinstance(stop, Stopped) else SAVED
            raise Interrupted(f"in {self}{where} To go on", []) from stop
        finally:
            self.set_seconds(time.monotonic() - began)

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts a process for the part, out of reach of the terminal's Ctrl-C, which would come twice."""
        command = [sys.executable, "-m", "experiments.paper.jobs"]
        command += [self.study, self.part.name, self.scale, str(self.work)]
        # Each would take most of the accelerator's memory beforehand.
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, start_new_session=True)

    @property
    def seconds(self) -> float:
        """Time of all runs of the part; parts that run at once have shares of the time that the machine was used."""
        path = self.folder / SECONDS_FILE
        try:
            return float(path.read_text()) if path.exists() else 0.0
        except ValueError as error:
            message = f"{path} is damaged: it does not hold the seconds that the part took. Delete it to count anew."
            raise ValueError(message) from error

    def set_seconds(self, seconds: float) -> None:
        """Records the time of all runs of the part."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(self.folder / SECONDS_FILE) as temporary:
            temporary.write_text(f"{seconds}\n")


def jobs_of(study: Study, scale: Scale, work: Path) -> list[Job]:
    """Returns a job for each part of a study."""
    return [Job(study.name, part, scale, work) for part in study.parts]


def run_several(jobs: list[Job], at_once: int) -> None:
    """Runs all jobs, at most `at_once` at a time; Ctrl-C lets each save what it has."""
    waiting, running = list(jobs), dict[Job, "subprocess.Popen[bytes]"]()
    stopped, failed = list[str](), list[str]()
    seconds, last = {job: job.seconds for job in jobs}, time.monotonic()
    with StopRequest() as request:
        while running or (waiting and not request.requested):
            if request.requested:
                for process in running.values():
                    _close_input(process)  # which stops it
            elif len(running) < at_once and (ready := next_job(waiting, list(running))):
                waiting.remove(ready)
                running[ready] = ready.start()
            time.sleep(POLL_SECONDS)
            last, before = time.monotonic(), last
            for job in running:
                seconds[job] += (last - before) / len(running)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                process = running.pop(job)
                _close_input(process)
                job.set_seconds(seconds[job])
                if process.returncode:
                    (stopped if process.returncode == INTERRUPTED else failed).append(str(job))
    if request.requested:
        raise Interrupted(f"in {' and '.join(stopped) or 'no part'}{SAVED} To go on", [])
    if failed:
        raise ChildProcessError(f"{'; '.join(failed)}: failed, as said above. What is done will not be done again.")


def next_job(waiting: list[Job], running: list[Job]) -> Job | None:
    """Returns the first job that does not need what another one trains just now: later it will be trained already."""
    busy = {job.part.training_hash for job in running if job.part.needs_models}
    return next((job for job in waiting if not (job.part.needs_models and job.part.training_hash in busy)), None)


def _close_input(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def main(study: StudyName, name: str, scale: Scale, work: Path) -> None:
    """Runs one part in this process until it is done, or until standard input ends."""
    job = next(job for job in jobs_of(make_study(study, scale), scale, work) if job.part.name == name)
    try:
        threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
        with user_errors(f"{job}: "):
            job.run(lambda words: print(f"{study}, {words}", flush=True))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption from here on would end in a traceback


def _interrupt_at_end_of_input() -> None:
    while os.read(0, 1024):  # not by sys.stdin: a process may not end while another thread holds its buffer
        pass
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(REPEAT_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))  # type: ignore[arg-type]
