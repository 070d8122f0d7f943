"""What happened while a model was trained: one JSON object a line for programs, TensorBoard's files for eyes.

JSON that every program can read: without NaN and infinities, for which it has no words.
"""

import json
import math
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compile_il.data.files import write_atomically


def to_json(value: Any) -> str:
    """Returns a value as one line of JSON; NaN and infinities, which JSON does not know, become null."""
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
    return value


LOG_FILE, EVENTS_FOLDER = "log.jsonl", "tensorboard"


class TrainingLog:
    """Rows of numbers, written as they come: a run that is killed loses none that it has written.

    Args:
      folder: the folder of the run.
      resumed_at: iterations that a resumed run starts from; rows after them belong to work that is done again.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0):
        kept = [row for row in read_log(folder) if row["iteration"] <= resumed_at]
        with write_atomically(folder / LOG_FILE) as temporary:
            temporary.write_text("".join(to_json(row) + "\n" for row in kept))
        self._rows = open(folder / LOG_FILE, "a")  # noqa: SIM115 - closed by __exit__
        self._events = Events(folder / EVENTS_FOLDER, resumed_at)

    def write(self, row: dict[str, Any]) -> None:
        """Writes one row; every float in it becomes a curve. What is not finite is not known: null."""
        self._rows.write(to_json(row) + "\n")
        self._rows.flush()
        os.fsync(self._rows.fileno())
        numbers = {name: v for name, v in row.items() if isinstance(v, float) and math.isfinite(v)}
        self._events.write(row["iteration"], numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rows.close()
        self._events.close()


class Events:
    """Curves in TensorBoard's format; each session of a run writes a file of its own.

    Args:
      folder: for the files.
      resumed_at: iterations done before; TensorBoard is told to forget what earlier sessions wrote after them.
    """

    def __init__(self, folder: Path, resumed_at: int):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(folder))
        started = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=resumed_at + 1, session_log=started))

    def write(self, iteration: int, values: dict[str, float]) -> None:
        """Writes one point of each curve."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=iteration, summary=Summary(value=points)))
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's log; a line that was cut off or damaged is left out."""
    path = folder / LOG_FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [row for row in map(_row, lines) if row is not None]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("iteration"), int) else None
