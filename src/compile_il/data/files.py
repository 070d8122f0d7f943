"""Writes files and folders whole or not at all, and demonstrations as npz files without pickle.

Fields of npz files, of format 1 where there are no `label_segments`, else 2:

    format_version, fields    and the names of all other fields, so that none is lost unnoticed
    frames, actions, lengths  as in `Demonstrations.from_packed`
    num_actions               if actions are discrete
    true_boundaries           of all episodes end to end, `num_true_boundaries` for each, if known
    true_codes                of all episodes end to end, `num_true_codes` for each, if known
    label_boundaries          one number per step, if there are labels
    label_codes               one number per step, if there are labels
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
from compile_il.data.validation import DemonstrationError, check_counts, whole_number

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


def check_target(path: str | os.PathLike[str], *, overwrite: bool, suffix: str = "") -> Path:
    """Returns the path, with a suffix, if a file may be written there; else raises, before the work is done."""
    target = Path(path)
    if target.is_dir() or target.name in ("", ".."):
        raise IsADirectoryError(f"{target} is a folder: name a file to write, such as {target / 'new'}{suffix}.")
    target = target if target.suffix else target.with_name(target.name + suffix)
    file = _resolve_links(target)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {file.parent}: make it first, or write somewhere else.")
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
    path = _resolve_links(path)
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


def _resolve_links(path: Path) -> Path:
    """Returns the file or folder, there already or not yet, to which a path leads; refuses all other things."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise FileExistsError(f"{path} is a device, a pipe or a socket, which is never replaced: name a file to write.")
    return Path(os.path.realpath(path))


def save(demos: Demonstrations, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes demonstrations to a file. See `Demonstrations.save`."""
    path = check_target(path, overwrite=overwrite, suffix=SUFFIX)
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

    if (version := whole_number("format_version", field("format_version"), 1)) > FORMAT_VERSION:
        raise DemonstrationError(
            f"it has format {version}, and this compile-il reads up to {FORMAT_VERSION}. Upgrade compile-il."
        )
    # A file that has lost an optional field would read as one that never had it.
    if differ := {str(name) for name in field("fields").ravel()} ^ (set(fields) - {"fields"}):
        raise DemonstrationError(f"the field {min(differ)!r} is missing, or not among those listed. {REMEDY}")
    num_actions: Any = fields.get("num_actions")
    demos = Demonstrations.from_packed(field("frames"), field("actions"), field("lengths"), num_actions=num_actions)
    lists = {name: _cut(name, fields[name], demos.lengths) for name in PER_STEP if name in fields}
    lists |= {name: _cut(name, fields[name], field(f"num_{name}")) for name in PER_SEGMENT if name in fields}
    demos = demos.with_truth(lists.get("true_boundaries"), lists.get("true_codes"))
    return demos.with_labels(*map(lists.get, (*PER_STEP, "label_segments")))


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
                "it holds Python objects, which are never read, since that may run code. Store arrays of numbers."
            ) from error
        raise DemonstrationError(f"it is damaged ({type(error).__name__}: {error}). {REMEDY}") from error
