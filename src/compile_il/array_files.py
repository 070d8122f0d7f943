"""Arrays with a description, in a folder: `config.json`, which people can read, and `model.safetensors`, all numbers.

Nothing in these files is ever executed. A folder is written beside its place and renamed as a whole; what is read is
checked against the sum of its bytes and against the shapes that its settings ask for.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from compile_il.array_names import map_named, named_leaves

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"

Tree = TypeVar("Tree")


class ModelError(ValueError):
    """Model files that cannot be read; the message names the file and says what to do."""


def save_arrays(tree: Any, description: dict[str, Any], folder: Path, *, overwrite: bool) -> None:
    """Writes the arrays of a tree into a folder of its own, whole or not at all.

    Args:
      tree: what has arrays; all else in it must follow from the description.
      description: plain values, among them the `format`.
      folder: where; folders above it are made.
      overwrite: whether such a folder may be replaced if it exists.
    """
    target = _check_folder(folder, overwrite=overwrite)
    arrays = named_leaves(eqx.filter(tree, eqx.is_array))
    weights = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    description = description | {"weights_sha256": hashlib.sha256(weights).hexdigest()}
    description["sha256"] = checksum(description)
    with _replace_folder(target) as temporary:
        _write(temporary / WEIGHTS_FILE, weights)
        _write(temporary / CONFIG_FILE, (json.dumps(description, indent=2) + "\n").encode())


def load_arrays(folder: Path, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays that `save_arrays` wrote, unharmed, in this version of their format."""
    weights_path = folder / WEIGHTS_FILE
    description = _read_description(folder / CONFIG_FILE, version)
    weights = _read(weights_path)
    if hashlib.sha256(weights).hexdigest() != description.get("weights_sha256"):
        raise ModelError(
            f"{weights_path} does not hold the bytes that {CONFIG_FILE} promises: it is damaged, or of another model. "
            "Copy the folder again as a whole, or train again."
        )
    return description, _read_arrays(weights, weights_path)


def no_model(folder: Path, error: Exception) -> ModelError:
    """Returns the error for a description that is undamaged, and yet describes no model that can be built."""
    return ModelError(
        f"{folder / CONFIG_FILE} does not describe a model ({type(error).__name__}: {error}). Undo what was changed in "
        "it, or copy the folder again."
    )


def checksum(description: dict[str, Any]) -> str:
    """SHA-256 sum of all that a description says but the sum itself, however its lines are laid out."""
    rest = {name: value for name, value in description.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def fill_shapes(shapes: Tree, arrays: dict[str, np.ndarray], folder: Path) -> Tree:
    """Fills the shapes in a tree with the arrays of the same names; neither a shape nor an array may be left over."""
    path = folder / WEIGHTS_FILE
    places, rest = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    wanted = named_leaves(places)
    for name in sorted(wanted.keys() ^ arrays.keys()):
        problem = "lacks" if name in wanted else "has, beyond what its settings ask for,"
        raise _misfit(path, f"{problem} the array {name}")
    for name, place in wanted.items():
        given = arrays[name]
        if (given.shape, given.dtype) != (place.shape, place.dtype):
            wants, has = f"{place.dtype}{list(place.shape)}", f"{given.dtype}{list(given.shape)}"
            raise _misfit(path, f"has {name} as {has}, where its settings ask for {wants}")
    return eqx.combine(map_named(lambda name, _: jnp.asarray(arrays[name]), places), rest)


def _misfit(path: Path, problem: str) -> ModelError:
    return ModelError(f"{path} {problem}. Undo what was changed in {CONFIG_FILE}, or copy the folder again as a whole.")


def _read_description(path: Path, expected: int) -> dict[str, Any]:
    written = _read(path)
    try:
        description = json.loads(written)
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({error}): it is damaged. Copy the folder again.") from error
    version = description.get("format") if isinstance(description, dict) else None
    if version != expected:
        raise ModelError(
            f"{path} has format {version!r}, and this version of compile-il reads {expected}: load it with the version "
            "that wrote it, or train again."
        )
    if description.get("sha256") != checksum(description):
        raise ModelError(
            f"{path} does not hold what was written: it is damaged, or was changed by hand. Undo the change, or copy "
            "the folder again."
        )
    return description


def _read_arrays(weights: bytes, path: Path) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load(weights)
    except Exception as error:  # the library has no common class for what can go wrong with bytes
        raise ModelError(f"{path} is not a safetensors file ({error}). Copy the folder again.") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({error.strerror}): give the folder that `save` wrote, with {CONFIG_FILE} and "
            f"{WEIGHTS_FILE} in it."
        ) from error


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _check_folder(target: Path, *, overwrite: bool) -> Path:
    if not target.exists():
        return target
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file: name a folder to write the model into.")
    if not overwrite:
        raise FileExistsError(
            f"{target} exists: choose another name, or pass overwrite=True (--overwrite) to replace it."
        )
    # Only what is a model is ever replaced: a wrong name must not cost anybody a folder of other things.
    others = sorted({entry.name for entry in target.iterdir()} - {CONFIG_FILE, WEIGHTS_FILE})
    if others:
        raise FileExistsError(f"{target} holds {others[0]}, which is no part of a model: choose another name.")
    return target


@contextlib.contextmanager
def _replace_folder(target: Path) -> Iterator[Path]:
    """Yields a temporary folder beside `target`, which takes its place once the block ends well."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise OSError(f"{target} cannot be written ({error.strerror}): name a folder somewhere else.") from error
    try:
        new, old = scratch / "new", scratch / "old"
        new.mkdir()
        yield new
        if target.exists():
            target.rename(old)
        new.rename(target)
    finally:
        if (scratch / "old").exists() and not target.exists():
            (scratch / "old").rename(target)
        shutil.rmtree(scratch)
