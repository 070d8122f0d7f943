"""Models in folders: settings and the space of observations and actions, from which the networks' shapes follow.

Arrays with a description, in a folder: `config.json`, which people can read, and `model.safetensors`, all numbers.

Nothing in these files is ever executed. A folder is written beside its place and renamed as a whole; what is read is
checked against the sum of its bytes and against the shapes that its settings ask for.

The arrays of a tree by name, such as `heads.layers.0.weight`: what files call them.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from compile_il.config import NO_COUNTS, CompileError, Config, SegmentCounts
from compile_il.data.files import write_atomically
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.engines import engine_of
from compile_il.model.model import Model
from compile_il.worlds.world import key_of

NamedTree = TypeVar("NamedTree")


def named_leaves(tree: Any) -> dict[str, Any]:
    """All leaves of a tree by name, in the tree's order."""
    return {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def map_named(function: Callable[[str, Any], Any], tree: NamedTree) -> NamedTree:
    """Returns the same tree, with `function(name, leaf)` in place of each leaf."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: function(_name(path), leaf), tree)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


Tree = TypeVar("Tree")


class ModelError(CompileError):
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
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(target) as new:
            new.mkdir()
            (new / WEIGHTS_FILE).write_bytes(weights)
            (new / CONFIG_FILE).write_text(json.dumps(description, indent=2) + "\n")
    except OSError as error:
        raise OSError(f"{target} cannot be written ({error.strerror}): name a folder somewhere else.") from error


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


RUN_FILE, CHECKPOINT_FOLDER, MODEL_FOLDER = "run.json", "checkpoints", "model"


AGENT_FOLDER = "agent"
"""The folder of an agent, in place of `MODEL_FOLDER`, where it is an agent that was trained."""


FORMAT = 2
"""Version of the files, which goes up whenever older ones can no longer be read."""


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a model into a folder of its own, whole or not at all, and returns its path.

    Args:
      model: what to write.
      folder: where; folders above it are made.
      overwrite: whether a model may be replaced if the folder holds one.
    """
    save_arrays(model.skills, describe(model), Path(folder), overwrite=overwrite)
    return Path(folder)


def describe(model: Model) -> dict[str, Any]:
    """All of a model but its arrays, as plain values."""
    return {
        "format": FORMAT,
        "settings": model.config.to_json(),
        "space": dataclasses.asdict(model.skills.space),
        "duration_rate": model.duration_rate,
        "world": model.world,
        "counts_told": model.segment_counts._asdict(),
    }


def load(folder: str | os.PathLike[str]) -> Model:
    """Reads what `save` wrote, or the model of a run that `fit` was given a folder for, and checks all of it."""
    place = _place_of_model(Path(folder))
    return build(*load_arrays(place, FORMAT), place)


RENAMED = {
    "policies.eyes.": "policies.encoder.",
    "termination.embedding.": "termination.encoder.embedding.",
    "termination.cell.": "termination.encoder.memory.",
    "termination.actions.": "termination.encoder.actions.",
}
"""How names of arrays begin in files of earlier versions, and how they do now."""


def _current_name(name: str) -> str:
    return next((new + name.removeprefix(old) for old, new in RENAMED.items() if name.startswith(old)), name)


def build(description: dict[str, Any], arrays: dict[str, np.ndarray], place: Path) -> Model:
    """Builds a model from its description and its arrays by name; `place` is where they came from, for messages."""
    try:
        config = Config.from_json(description["settings"])
        space = _space(description["space"])
        told = _counts_told(description, config)
        rate, world = float(description["duration_rate"]), description.get("world")
        if not any("durations" in name for name in arrays):
            config = _as_given_before(config, told, rate)
        make = engine_of(config).make_skills
        shapes = eqx.filter_eval_shape(make, config.resolved(told), space, _blank_scaling(space), key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise no_model(place, error) from error
    arrays = {_current_name(name): array for name, array in arrays.items()}
    return Model(fill_shapes(shapes, arrays, place), config, rate, world, told)


def _as_given_before(config: Config, told: SegmentCounts, rate: float) -> Config:
    """Settings with which a model that learned nothing of lengths is made today.

    Earlier versions learned no rate where the number of segments was not known: either lengths had no weight there, or
    their rate was the one in the file.
    """
    resolved = config.resolved(told)
    if resolved.num_segments is not None or resolved.duration_rate is not None or not resolved.duration_weight:
        return config
    if config.duration_weight is None:
        return dataclasses.replace(config, duration_weight=0.0)
    return dataclasses.replace(config, duration_rate=rate)


def _counts_told(description: dict[str, Any], config: Config) -> SegmentCounts:
    """What labels told; earlier versions wrote the settings it had led to instead, and whether it was told of all."""
    if "counts_told" in description:
        return SegmentCounts(**description["counts_told"])
    of_all = bool(description["settings"].get("counts_told"))
    return SegmentCounts(config.num_segments or config.max_segments, of_all) if of_all else NO_COUNTS


def _place_of_model(folder: Path) -> Path:
    if folder.is_file():
        raise ModelError(
            f"{folder} is a file, and a model is a folder: give the one that `save` wrote. Demonstrations are read by "
            "Demonstrations.load(file)."
        )
    if not (folder / RUN_FILE).exists():
        return folder
    if (folder / AGENT_FOLDER).is_dir():
        raise ModelError(
            f"{folder} holds the run of an agent: read it with `compile_il.rl.player.load_player`, or its skills from "
            f"{folder / 'skills'}."
        )
    if not (folder / MODEL_FOLDER).is_dir():
        raise ModelError(
            f"{folder} holds a run that has not ended yet: go on with it, with resume=True (--resume), to get a model."
        )
    return folder / MODEL_FOLDER


def _space(values: dict[str, Any]) -> Space:
    return Space(**{**values, "observation_shape": tuple(values["observation_shape"])})


def _blank_scaling(space: Space) -> Scaling:
    width = space.observation_shape[0] if space.observation_kind == "vector" else 0
    num_measured = sum(space.observation_shape[-1:])  # symbols have no shape
    num_channels = space.observation_shape[-1] if space.observation_kind == "grid" else 0
    shapes = (width,), (width,), (space.action_dim,), (space.action_dim,), (1, num_measured), (num_channels,)
    return Scaling(*map(jnp.zeros, shapes))
