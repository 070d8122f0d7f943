"""Writes files and folders whole or not at all, and demonstrations as npz files without pickle.

Fields of npz files of format 1:

    format_version            1
    fields                    names of all other fields, so that none is lost unnoticed
    frames actions lengths    as in `Demonstrations.from_packed`
    num_actions               if actions are discrete
    true_boundaries           of all episodes end to end, `num_true_boundaries` for each, if known
    true_codes                of all episodes end to end, `num_true_codes` for each, if known
    label_boundaries          one number per step, if there are labels
    label_codes               one number per step, if there are labels

Format 2 adds, and is written only where it is needed:

    label_segments            codes of segments of all episodes end to end, `num_label_segments` for each
"""

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.ragged import Ragged
from compile_il.data.validation import INTEGERS, DemonstrationError, check_counts

FORMAT_VERSION = 2
PER_STEP = ("label_boundaries", "label_codes")
PER_SEGMENT = ("true_boundaries", "true_codes", "label_segments")
SUFFIX = ".npz"
REMEDY = "Copy the file again, or write it anew with Demonstrations.save()."


def checksum(*values: Any) -> str:
    """Returns the SHA-256 sum of bytes, of arrays with their types and shapes, and of plain values, in order."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode())
    return digest.hexdigest()


def check_target(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Returns the path if a file may be written there; else raises, before the work is done. Links are followed."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: name a file to write.")
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
        # Rights say too little: where all is read only, or under /proc, nobody can write.
        _folder_beside(file).cleanup()
    except OSError as error:
        raise OSError(f"{target} cannot be written ({error.strerror}): name a file somewhere else.") from error
    return target


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yields a place to write a file or a folder to, which takes that of `path` once the block ends well.

    Where `path` is a link, the link stays, and what it points at is replaced.
    """
    path = _behind_links(path)
    with _folder_beside(path) as scratch:
        new, old = Path(scratch, path.name), Path(scratch, "old")
        yield new
        for file in filter(Path.is_file, (new, *new.rglob("*"))):
            # A rename may reach the disk before the bytes do, and a power cut in between would leave an empty file.
            with open(file, "rb") as written:
                os.fsync(written.fileno())
        if not (new.is_dir() and path.is_dir()):
            new.replace(path)
            return
        path.rename(old)
        try:
            new.rename(path)
        except BaseException:
            old.rename(path)
            raise


def _folder_beside(path: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent)


def _behind_links(path: Path) -> Path:
    """Returns the file or folder, there already or not yet, to which a path leads; refuses all other things."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FileExistsError(f"{path} is a device, a pipe or a socket, which is never replaced: name a file to write.")
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise FileExistsError(f"{path} is a link that leads back to itself: delete it, or name another file.")
    return target


def target_path(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Returns the path that `save` will write, with a suffix; raises an error if it will not be able to."""
    if not os.fspath(path):
        raise FileNotFoundError(f"The path is empty: name a file to write, such as demos{SUFFIX}.")
    path = Path(path)
    if path.is_dir() or path.name in ("", ".."):
        raise IsADirectoryError(f"{path} is a folder: name a file to write, such as {path / 'demos'}{SUFFIX}.")
    return check_target(path if path.suffix else path.with_name(path.name + SUFFIX), overwrite=overwrite)


def save(demos: Demonstrations, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes demonstrations to a file. See `Demonstrations.save`."""
    path = target_path(path, overwrite=overwrite)
    with write_atomically(path) as unfinished, open(unfinished, "wb") as file:
        np.savez_compressed(file, **_to_fields(demos))
    return path


def load(path: str | os.PathLike[str]) -> Demonstrations:
    """Reads demonstrations from a file and checks them. See `Demonstrations.load`."""
    path = Path(path)
    if not path.suffix and not path.exists():
        path = path.with_name(path.name + SUFFIX)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        return _from_fields(_read_fields(path))
    except DemonstrationError as error:
        raise DemonstrationError(f"Cannot load {path}: {error}") from error


def _to_fields(demos: Demonstrations) -> dict[str, Any]:
    storage = demos.storage
    fields = {
        "format_version": np.array(1 if storage.label_segments is None else FORMAT_VERSION),
        "frames": storage.observations.values,
        "actions": storage.actions.values,
        "lengths": demos.lengths,
    }
    if storage.num_actions is not None:
        fields["num_actions"] = np.array(storage.num_actions)
    for name in PER_STEP + PER_SEGMENT:
        part: Ragged | None = getattr(storage, name)
        if part is not None:
            fields |= {name: part.values} | ({f"num_{name}": part.counts} if name in PER_SEGMENT else {})
    fields["fields"] = np.array(list(fields))
    return fields


def _from_fields(fields: dict[str, np.ndarray]) -> Demonstrations:
    def field(name: str) -> np.ndarray:
        if name not in fields:
            raise DemonstrationError(f"the field {name!r} is missing. {REMEDY}")
        return fields[name]

    def number(name: str) -> int:
        value = field(name)
        if value.shape != () or value.dtype.kind not in "iu":
            raise DemonstrationError(
                f"the field {name!r} is {value.dtype} of shape {value.shape}, not an integer. {REMEDY}"
            )
        return int(value)

    if (version := number("format_version")) > FORMAT_VERSION:
        raise DemonstrationError(
            f"it has format {version}, and this compile-il reads up to {FORMAT_VERSION}. Upgrade compile-il."
        )
    # A file that has lost an optional field would read as one that never had it.
    listed = {str(name) for name in field("fields").ravel()}
    for name in sorted(listed):
        field(name)
    if unlisted := set(fields) - listed - {"fields"}:
        raise DemonstrationError(f"the field {min(unlisted)!r} is not among those listed. {REMEDY}")
    discrete = "num_actions" in fields or field("actions").dtype.kind in INTEGERS
    demos = Demonstrations.from_packed(
        field("frames"), field("actions"), field("lengths"), num_actions=number("num_actions") if discrete else None
    )
    lists: dict[str, Any] = dict.fromkeys(PER_SEGMENT)
    lists |= {name: _cut(name, field(name), field(f"num_{name}")) for name in PER_SEGMENT if name in fields}
    demos = demos.with_truth(lists["true_boundaries"], lists["true_codes"])
    if lists["label_segments"] is not None or any(name in fields for name in PER_STEP):
        boundaries, codes = (_cut(name, field(name), demos.lengths) for name in PER_STEP)
        demos = demos.with_labels(boundaries, codes, lists["label_segments"])
    return demos


def _cut(name: str, values: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """Cuts a field of all episodes end to end into a list with one array per episode."""
    if values.ndim != 1 or counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise DemonstrationError(f"the field {name!r}, or what counts its entries, is not a list of integers. {REMEDY}")
    check_counts(counts, len(values), f"entries in {name!r}")
    return Ragged(values, counts.astype(np.int64)).parts


def _read_fields(path: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise DemonstrationError(f"it is not an npz file, or only the beginning of one. {REMEDY}")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except Exception as error:  # a damaged archive can fail in any layer below: zip, zlib, NumPy's headers
        if "Object arrays" in str(error):
            raise DemonstrationError(
                "it holds Python objects. Reading those means unpickling, which runs whatever code the "
                "file's author put there, so it is never done. Store arrays of numbers."
            ) from error
        raise DemonstrationError(f"it is damaged ({type(error).__name__}: {error}). {REMEDY}") from error
