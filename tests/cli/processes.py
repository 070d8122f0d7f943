"""Training in a process of its own, as a person starts it, so that it can be stopped or killed."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.numpy

from compile_il.model.files import CHECKPOINT_FOLDER, MODEL_FOLDER, WEIGHTS_FILE

PATIENCE = 120.0
SMALL_SETTINGS = shlex.split("--num-segments 2 --num-skills 2 --hidden-dim 4 --num-maps 1 --batch-size 4")


def command(source: str, out: Path, *more: str) -> list[str]:
    """What a person types to train something small."""
    return [sys.executable, "-m", "compile_il", "train", source, "--out", str(out), *SMALL_SETTINGS, *more]


class Process:
    """A command under way.

    Args:
      words: the command, or what a shell is to understand.
      programs: a folder in which compiled programs are kept, so that only the first process compiles.
    """

    def __init__(self, words: list[str] | str, programs: Path):
        kept = {
            "JAX_COMPILATION_CACHE_DIR": str(programs),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        words = words if isinstance(words, list) else ["/bin/sh", "-c", f"exec {words}"]
        self._process = subprocess.Popen(
            words, env=os.environ | kept, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Looks closely until something has happened."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert self._process.poll() is None, f"ended too early: {self._process.communicate()}"
            assert time.monotonic() < deadline, "took too long"
            time.sleep(0.001)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process, which must still be at work."""
        assert self._process.poll() is None, f"ended too early: {self._process.communicate()}"
        self._process.send_signal(number)

    def end(self, code: int = 0) -> str:
        """Waits for the end, which must be the expected one, and returns all that was printed."""
        try:
            printed = "".join(self._process.communicate(timeout=PATIENCE))
        finally:
            self._process.kill()
        assert self._process.returncode == code, printed
        assert "Traceback" not in printed
        return printed


def checkpoint_names(run: Path) -> list[str]:
    """Complete checkpoints and those that are being written."""
    folder = run / CHECKPOINT_FOLDER
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def assert_clean(run: Path) -> None:
    """Nothing half-written is left."""
    names = {".lock", "run.json", "log.jsonl", "tensorboard", "checkpoints", "model"}
    assert {path.name for path in run.iterdir()} <= names
    assert all(name.isdigit() for name in checkpoint_names(run)), checkpoint_names(run)


def assert_same_parameters(one: Path, other: Path) -> None:
    """The models of two runs, bit by bit."""
    first, second = (safetensors.numpy.load_file(run / MODEL_FOLDER / WEIGHTS_FILE) for run in (one, other))
    assert first.keys() == second.keys()
    assert sum(array.size for array in first.values()) > 50
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        np.testing.assert_array_equal(array, second[name], err_msg=name)
