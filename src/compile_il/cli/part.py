"""The process of one part, which `compile-il reproduce --jobs` starts for each: `python -m compile_il.cli.part`."""

import os
import signal
import sys
import threading

import tyro

from compile_il.cli.console import mistakes_told
from compile_il.reproduce.parts import run_part
from compile_il.reproduce.runner import trained_folder
from compile_il.reproduce.several import INTERRUPTED, Job


def main(job: Job) -> None:
    """Runs the part; the end of standard input stops it."""
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    trained = trained_folder(job.work, job.scale)

    def say(words: str) -> None:
        print(f"{job.study}, {words}", flush=True)

    try:
        with mistakes_told(f"{job.study}, {job.part}: "):
            run_part(job.find(), job.folder, say, trained=trained)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _stop_at_end_of_input() -> None:
    # Not by the buffered reader: a process may not end while another thread holds it.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(tyro.cli(Job))
