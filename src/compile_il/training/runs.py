"""The folder of a training run, in which one process works at a time.

- `run.json`: settings and data, against which a resumed run is checked;
- `log.jsonl`: one row for each time that held-out demonstrations were scored, with the loss, of relaxed inference its
  terms (`loss_codes`, say), and a temperature that falls; in `tensorboard/` the same;
- `checkpoints/`: the last states of training;
- `model/`: written at the end and, as it is by then, where training is stopped: its `num_iterations` are those done.
  `cil.load` of the run's folder reads it.
"""

import dataclasses
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from compile_il.config import CompileError
from compile_il.data.files import checksum, write_atomically
from compile_il.model.files import CHECKPOINT_FOLDER, MODEL_FOLDER, RUN_FILE
from compile_il.training.checkpoints import Checkpoints

CHECKPOINT_SECONDS = 60.0
LOCK_FILE, LOG_FILE, EVENTS_FOLDER = ".lock", "log.jsonl", "tensorboard"


class RunError(CompileError):
    """A run that cannot be started or resumed there; the message says what to do."""


class TrainingLog:
    """Rows of numbers, written as they come: a run that is killed loses none that it has written.

    A run that is resumed at an iteration drops the rows after it, which belong to work that is done again.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        kept = [row for row in read_log(folder) if row["iteration"] <= resumed_at]
        with write_atomically(folder / LOG_FILE) as temporary:
            temporary.write_text("".join(to_json(row) + "\n" for row in kept))
        self._rows = open(folder / LOG_FILE, "a")  # noqa: SIM115 - closed by __exit__
        self._events = EventFileWriter(str(folder / EVENTS_FOLDER))
        # At such a start TensorBoard forgets what earlier sessions of the run wrote of later iterations.
        start = SessionLog(status=SessionLog.START)
        self._events.add_event(Event(wall_time=time.time(), step=resumed_at + 1, session_log=start))

    def write(self, row: dict[str, Any]) -> None:
        """Writes one row; every finite float in it becomes a point of a curve."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._rows.write(to_json(row) + "\n")
        self._rows.flush()
        os.fsync(self._rows.fileno())
        numbers = {name: value for name, value in row.items() if isinstance(value, float) and math.isfinite(value)}
        points = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()])
        self._events.add_event(Event(wall_time=time.time(), step=row["iteration"], summary=points))
        self._events.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._events.close()


@dataclasses.dataclass
class RunOutputs:
    """Holds the checkpoints of a training, the seconds between two of them, and the log."""

    checkpoints: Checkpoints
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    log: TrainingLog | None = None


@contextmanager
def lock_folder(folder: Path, refusal: Exception) -> Iterator[None]:
    """Holds an exclusive lock on a folder, or raises `refusal`; the system releases it when the process dies."""
    try:
        lock = FileLock(folder / LOCK_FILE).acquire(timeout=0)
    except Timeout as error:
        raise refusal from error
    with lock:
        yield


@contextmanager
def open_run(
    folder: str | os.PathLike[str], config: Any, data: str, *, resume: bool, checkpoint_seconds: float
) -> Iterator[RunOutputs]:
    """Starts a run in a folder, or resumes the one that is there if it has these settings and this fingerprint of data.

    Settings are a dataclass such as `Config`; more iterations than before may be asked for.
    """
    path = Path(folder)
    _check_place(path, resume=resume)
    busy = RunError(f"A run is under way in {path}: wait until it ends, or name another folder.")
    started = {"data": data, "settings": config.to_json()}
    with ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_folder(path, busy))
            if resume:
                _check_same(path / RUN_FILE, config, data)
            for unfinished in _unfinished(path):
                shutil.rmtree(unfinished)
            with write_atomically(path / RUN_FILE) as temporary:
                temporary.write_text(json.dumps(started | {"sha256": checksum(started)}, indent=2) + "\n")
        except OSError as error:
            raise RunError(
                f"{path} cannot be written to ({error.strerror}): name another folder for the run."
            ) from error
        checkpoints = Checkpoints(path / CHECKPOINT_FOLDER)
        log = stack.enter_context(TrainingLog(path, resumed_at=max(checkpoints.iterations, default=0)))
        yield RunOutputs(checkpoints, checkpoint_seconds, log)


def holds_run(folder: Path) -> bool:
    """Returns whether a run was started in a folder."""
    return (folder / RUN_FILE).exists()


def _check_place(path: Path, *, resume: bool) -> None:
    if os.path.lexists(path) and not path.is_dir():
        raise FileExistsError(f"{path} is not a folder: name a folder for the run.")
    if holds_run(path):
        if not resume:
            raise FileExistsError(
                f"{path} holds a run: pass resume=True (--resume) to go on with it, or name another folder."
            )
    elif resume:
        raise RunError(f"{path} holds no run to resume: leave out resume (--resume) to start one there.")
    elif path.is_dir() and set(path.iterdir()) - {path / LOCK_FILE, *_unfinished(path)}:
        raise FileExistsError(f"{path} holds other things: name a folder of its own for the run.")


def _unfinished(folder: Path) -> list[Path]:
    """Folders in which a run was writing something whole when it was killed."""
    return [path for name in (RUN_FILE, LOG_FILE, MODEL_FOLDER) for path in folder.glob(f".{name}.*.part")]


def _check_same(path: Path, config: Any, data: str) -> None:
    """Refuses to go on with a run that was started on other data or with other settings."""
    try:
        started = json.loads(path.read_bytes())
        if started.pop("sha256") != checksum(started):
            raise ValueError("its checksum is another one")
        before = config.changed(started["settings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged: copy the folder again, or start anew in another one.") from error
    run = f"The run in {path.parent}"
    if started["data"] != data:
        raise RunError(f"{run} was started on {started['data']}, and this is {data}: give the same data.")
    for field in dataclasses.fields(config):
        old, new = getattr(before, field.name), getattr(config, field.name)
        if old != new and not (field.name == "num_iterations" and new > old):
            raise RunError(
                f"{run} was started with {field.name}={old}, and this has {field.name}={new}: give the same settings "
                "(more iterations may be asked for), or name another folder."
            )


def to_json(value: Any) -> str:
    """Returns a value as one line of JSON, with null for NaN and infinities."""
    return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Reads the rows of a run's log, without lines that were cut off or damaged."""
    path = folder / LOG_FILE
    rows = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("iteration"), int):
            rows.append(row)
    return rows
