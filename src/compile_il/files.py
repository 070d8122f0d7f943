"""Files are written beside their place and then renamed, so that nobody ever sees half of one."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Returns the path if a file may be written there; else raises, before the work is done. Links are followed."""
    target = Path(path)
    file = _behind_links(target)
    folder = file.parent
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder: no file can be written into it; name another folder.")
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}: make it first, or write somewhere else.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{target} exists: choose another name, or pass overwrite=True (--overwrite) to replace it."
        )
    try:
        _make_beside(file).unlink()  # rights say too little: where all is read only, or under /proc, nobody can write
    except OSError as error:
        raise OSError(f"{target} cannot be written ({error.strerror}): name a file somewhere else.") from error
    return target


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yields a temporary file in the same folder, which takes the place of `path` once the block ends well.

    Where `path` is a link, the link stays, and what it points at is replaced.
    """
    path = _behind_links(path)
    temporary = _make_beside(path)
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _make_beside(path: Path) -> Path:
    """Makes an empty file beside `path`, with a name of its own and the rights of any new file."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    # Not by `tempfile`, whose files are their owner's alone: to widen their rights one must know the umask, which can
    # only be read by setting it, for all threads.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return temporary


def _behind_links(path: Path) -> Path:
    """The regular file, there already or not yet, to which a path leads; an error where it leads to another thing."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file to write.")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is a device, a pipe or a socket, which is never replaced: name a file to write.")
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise FileExistsError(f"{path} is a link that leads back to itself: delete it, or name another file.")
    return target


def _flush(path: Path) -> None:
    # A rename may reach the disk before the bytes do, and a power cut in between would leave an empty file.
    with open(path, "rb") as file:
        os.fsync(file.fileno())
