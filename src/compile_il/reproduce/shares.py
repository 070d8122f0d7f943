"""How long a part had the machine: of the time in which several run at once, each has its share."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from compile_il.files import replace_file

FILE = "seconds.txt"


def seconds_had(folder: Path) -> float:
    """Of the part in this folder, over all of its runs."""
    path = folder / FILE
    return float(path.read_text()) if path.exists() else 0.0


def add_seconds(folder: Path, seconds: float) -> None:
    """Counts a run, whether it came to its end or not."""
    folder.mkdir(parents=True, exist_ok=True)
    total = seconds_had(folder) + seconds
    with replace_file(folder / FILE) as temporary:
        temporary.write_text(f"{total:.2f}\n")


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Counts what is done inside, by one that has the machine to itself."""
    began = time.monotonic()
    try:
        yield
    finally:
        add_seconds(folder, time.monotonic() - began)
