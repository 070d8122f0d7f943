"""How long a part had the machine: of the time in which several run at once, each has its share."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compile_il.files import replace_file

FILE = "seconds.json"


class Seconds(NamedTuple):
    """Over all runs of a part, whether they came to their end or not."""

    share: float = 0.0
    """Of a machine that may have run others beside it; shares of all parts add up to the time it was in use."""
    by_the_clock: float = 0.0


def seconds_had(folder: Path) -> Seconds:
    """Of the part in this folder."""
    path = folder / FILE
    return Seconds(**json.loads(path.read_text())) if path.exists() else Seconds()


def add_seconds(folder: Path, seconds: float, at_once: int = 1) -> None:
    """Counts a stretch in which so many parts were run at once."""
    folder.mkdir(parents=True, exist_ok=True)
    share, clock = seconds_had(folder)
    total = Seconds(share + seconds / at_once, clock + seconds)  # as they are: many small stretches are added up
    with replace_file(folder / FILE) as temporary:
        temporary.write_text(json.dumps(total._asdict()))


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Counts what is done inside, by one that has the machine to itself."""
    began = time.monotonic()
    try:
        yield
    finally:
        add_seconds(folder, time.monotonic() - began)
