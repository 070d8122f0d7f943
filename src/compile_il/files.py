"""Files are written beside their place and then renamed, so that nobody ever sees half of one."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Whether a file may be written there: told before the work is done, not after."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file to write.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent}: make it first, or write somewhere else.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{target} exists: choose another name, or pass overwrite=True (--overwrite) to replace it."
        )
    return target


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary file in the same folder, which takes the place of `path` once the block ends well."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    # A rename may reach the disk before the bytes do, and a power cut in between would leave an empty file.
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    # There is no way to read the mask but to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
