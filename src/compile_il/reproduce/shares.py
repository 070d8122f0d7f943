"""How long a part had the machine: of the time in which several run at once, each has its share.

Time is written down as it passes, so that a process that is killed takes no more than a moment of it along.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compile_il.files import replace_file

FILE = "seconds.json"
TICK = 1.0
"""Seconds after which time is written down by one that has the machine to itself."""


class SecondsError(ValueError):
    """Time was written down and cannot be read; the message names the file and says what to do."""


class Seconds(NamedTuple):
    """Over all runs of a part, whether they came to their end or not."""

    share: float = 0.0
    """Of a machine that may have run others beside it; shares of all parts add up to the time it was in use."""
    by_the_clock: float = 0.0


def seconds_had(folder: Path) -> Seconds:
    """Of the part in this folder."""
    path = folder / FILE
    if not path.exists():
        return Seconds()
    try:
        share, clock = (float(json.loads(path.read_text())[name]) for name in Seconds._fields)
    except (ValueError, TypeError, LookupError) as error:
        raise SecondsError(
            f"{path} does not hold the time that the part took: it is damaged. Delete it to go on; the time until now "
            "will be missing from the part's wall time. Or delete its folder, to run the part anew."
        ) from error
    return Seconds(share, clock)


def add_seconds(folder: Path, seconds: float, at_once: int = 1) -> None:
    """Counts a stretch in which so many parts were run at once."""
    folder.mkdir(parents=True, exist_ok=True)
    share, clock = seconds_had(folder)
    # As they are, not rounded: many small stretches are added up.
    total = Seconds(share + seconds / at_once, clock + seconds)
    with replace_file(folder / FILE) as temporary:
        temporary.write_text(json.dumps(total._asdict()))


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Counts what is done inside, by one that has the machine to itself."""
    seconds_had(folder)  # which complains before the work, not after it
    watch, over = _Watch(folder), threading.Event()
    ticking = threading.Thread(target=watch.count_until, args=(over,), daemon=True)
    ticking.start()
    try:
        yield
    finally:
        over.set()
        ticking.join()
        watch.count()


class _Watch:
    """Knows until when the time of a part has been counted."""

    def __init__(self, folder: Path):
        self._folder, self._last = folder, time.monotonic()

    def count(self) -> None:
        """Adds the time since then."""
        now = time.monotonic()
        add_seconds(self._folder, now - self._last)
        self._last = now

    def count_until(self, over: threading.Event) -> None:
        """Adds time again and again. What cannot be written is added the next time, the last of which complains."""
        while not over.wait(TICK):
            with contextlib.suppress(OSError, SecondsError):
                self.count()
