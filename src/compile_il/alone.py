"""A folder in which one process works at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone_in(folder: Path, refusal: Exception) -> Iterator[None]:
    """Keeps others out of a folder, where the system has locks; who is killed lets go of it.

    Args:
      folder: which; it is there.
      refusal: is raised where another one keeps it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refusal from error
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(place)
