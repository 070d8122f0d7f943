"""What happened while a model was trained: one JSON object a line for programs, TensorBoard's files for eyes."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compile_il.files import replace_file

LOG_FILE, EVENTS_FOLDER = "log.jsonl", "tensorboard"


class TrainingLog:
    """Rows of numbers, written as they come: a run that is killed loses none that it has written.

    Args:
      folder: of the run.
      resumed_at: iterations that a resumed run starts from; rows after them belong to work that is done again.
    """

    def __init__(self, folder: Path, *, resumed_at: int = 0):
        from tensorboard.summary import Writer

        kept = [row for row in read_log(folder) if row.get("iteration", 0) <= resumed_at] if resumed_at else []
        with replace_file(folder / LOG_FILE) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in kept))
        self._rows = open(folder / LOG_FILE, "a")  # noqa: SIM115 - closed by __exit__
        self._events = Writer(str(folder / EVENTS_FOLDER))

    def write(self, row: dict[str, Any]) -> None:
        """One row; every number in it but the iteration becomes a curve."""
        self._rows.write(json.dumps(row) + "\n")
        self._rows.flush()
        os.fsync(self._rows.fileno())
        for name, value in row.items():
            if isinstance(value, float):
                self._events.add_scalar(name, value, row["iteration"])
        self._events.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rows.close()
        self._events.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's log; a last line that was cut off is left out."""
    path = folder / LOG_FILE
    return list(_rows(path.read_text().splitlines())) if path.exists() else []


def _rows(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return
