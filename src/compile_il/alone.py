"""A folder in which one process works at a time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone_in(folder: Path, refusal: Exception) -> Iterator[None]:
    """Keeps other processes out of a folder inside the block, where the system has locks; one that is killed lets go.

    Args:
      folder: a folder that exists.
      refusal: the error to raise where another process keeps it.
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
