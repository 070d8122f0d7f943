"""Records of how long each part had the machine: of the time in which several run at once, each has its share.

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
"""Seconds between two records of the time of a part that has the machine to itself."""


class SecondsError(ValueError):
    """The recorded time of a part cannot be read; the message names the file and says what to do."""


class Seconds(NamedTuple):
    """Seconds that a part took over all its runs, whether they came to their end or not."""

    share: float = 0.0
    """Share in the time of a machine that may have run other parts beside it; all shares add up to the time in use."""
    by_the_clock: float = 0.0


def seconds_had(folder: Path) -> Seconds:
    """Returns the seconds recorded for the part in this folder; zero if there is no record."""
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
    """Adds a stretch of time to the record of a part, of which it had a share of one in `at_once`."""
    folder.mkdir(parents=True, exist_ok=True)
    share, clock = seconds_had(folder)
    # As they are, not rounded: many small stretches are added up.
    total = Seconds(share + seconds / at_once, clock + seconds)
    with replace_file(folder / FILE) as temporary:
        temporary.write_text(json.dumps(total._asdict()))


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """A block whose time is counted for a part that has the machine to itself."""
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
    """Counts the time of a part, and knows until when it has been counted."""

    def __init__(self, folder: Path):
        self._folder, self._last = folder, time.monotonic()

    def count(self) -> None:
        """Adds the time since the last count."""
        now = time.monotonic()
        add_seconds(self._folder, now - self._last)
        self._last = now

    def count_until(self, over: threading.Event) -> None:
        """Adds time every `TICK` seconds until `over` is set; what cannot be written is left to the next count."""
        while not over.wait(TICK):
            with contextlib.suppress(OSError, SecondsError):
                self.count()
