"""Runs several parts at once, each in a process of its own: one alone leaves most of a large accelerator idle.

`python -m experiments.paper.jobs STUDY PART SCALE WORK` is the process of one part. It stops, with all saved, at the
end of its standard input, which comes too when the process that started it is killed.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from compile_il.cli.console import user_errors
from compile_il.training.loop import StopRequest
from experiments.paper.parts import Part, Scale, read_done, run_part
from experiments.paper.run import add_seconds, part_folder, seconds_had, trained_folder
from experiments.paper.studies import StudyName, make_study

POLL_SECONDS = 0.2
"""Seconds between two looks at the processes."""
REPEAT_SECONDS = 30.0
"""Seconds after which an interruption is sent again: one that comes in a collection of garbage is lost."""
INTERRUPTED = 130
"""Exit status of a part that has saved what it had."""
CHECKOUT = Path(__file__).parents[2]
"""Folder that holds the package `experiments`."""


@dataclasses.dataclass(eq=False)
class Job:
    """Part of a study that runs in a process of its own."""

    study: StudyName
    part: Part
    scale: Scale
    work: Path
    share: float = 0.0
    """Seconds of this run, of a machine that may run other jobs beside it."""
    clock: float = 0.0
    """Seconds of this run by the clock."""

    @property
    def folder(self) -> Path:
        """Folder of the part."""
        return part_folder(self.work, self.scale, self.study, self.part.name)

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts the process, out of reach of the terminal's Ctrl-C, which would come twice."""
        # Each would take most of the accelerator's memory beforehand.
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | os.environ
        variables["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
        what = [self.study, self.part.name, self.scale, str(self.work)]
        command = [sys.executable, "-m", "experiments.paper.jobs", *what]
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, start_new_session=True)


def jobs_left(names: tuple[StudyName, ...], scale: Scale, work: Path) -> list[Job]:
    """Returns the jobs of the studies that are not done yet."""
    every = [Job(name, part, scale, work) for name in names for part in make_study(name, scale).parts]
    left = [job for job in every if read_done(job.folder, job.part) is None]
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
                for process in running.values():
                    _close_input(process)  # which stops it
            elif len(running) < at_once and (job := next_job(waiting, list(running))):
                waiting.remove(job)
                running[job] = job.start()
            time.sleep(POLL_SECONDS)
            last, before = time.monotonic(), last
            for job in running:
                job.share += (last - before) / len(running)
                job.clock += last - before
            for job in [job for job, process in running.items() if process.poll() is not None]:
                process = running.pop(job)
                _close_input(process)
                add_seconds(job.folder, job.share, job.clock)
                if process.returncode not in (0, INTERRUPTED):
                    failed.append(job.part.name)
    if request.requested:
        raise KeyboardInterrupt
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

    def say(words: str) -> None:
        print(f"{study}, {words}", flush=True)

    part = next(part for part in make_study(study, scale).parts if part.name == name)
    try:
        threading.Thread(target=_interrupt_at_end_of_input, daemon=True).start()
        with user_errors(f"{study}, {name}: "):
            run_part(part, part_folder(work, scale, study, name), say, trained=trained_folder(work, scale))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption from here on would end in a traceback
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(INTERRUPTED)


def _interrupt_at_end_of_input() -> None:
    while os.read(0, 1024):  # not by sys.stdin: a process may not end while another thread holds its buffer
        pass
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(REPEAT_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))  # type: ignore[arg-type]
