"""Writes and reads the log of a training: one JSON object a line for programs, and TensorBoard's files for people."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any, Self

from compile_il.data.files import write_atomically

LOG_FILE, EVENTS_FOLDER = "log.jsonl", "tensorboard"


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
