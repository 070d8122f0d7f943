"""Writes arrays of models and agents into folders, and reads them: `config.json`, for people, and `model.safetensors`.

Nothing in these files is ever executed. A folder is written whole or not at all; what is read is checked against the
sum of all bytes and against the shapes that its settings ask for. Arrays are named by their place in a tree, such as
`heads.layers.0.weight`.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from compile_il.config import CompileError, Config
from compile_il.data.files import checksum, write_atomically
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.engines import engine_of
from compile_il.model.model import Model
from compile_il.worlds.world import key_of

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
RUN_FILE, CHECKPOINT_FOLDER, MODEL_FOLDER = "run.json", "checkpoints", "model"
AGENT_FOLDER = "agent"
"""The folder of an agent, in place of `MODEL_FOLDER`, where it is an agent that was trained."""
FORMAT = 3
"""Version of the files, raised whenever older ones can no longer be read."""

Tree = TypeVar("Tree")


class ModelError(CompileError):
    """Model files that cannot be read; the message names the file and says what to do."""

    @classmethod
    def no_model(cls, folder: Path, error: Exception) -> "ModelError":
        """Returns the error for a description that is undamaged, and yet describes no model that can be built."""
        return cls(
            f"{folder / CONFIG_FILE} does not describe a model ({type(error).__name__}: {error}). Undo what was "
            "changed in it, or copy the folder again."
        )


def save(model: Model, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Writes a model into a folder of its own and returns its path; see `Model.save`."""
    save_arrays(model.skills, describe(model), Path(folder), overwrite=overwrite)
    return Path(folder)


def load(folder: str | os.PathLike[str]) -> Model:
    """Reads what `save` wrote, or the model of a run that `fit` was given a folder for, and checks all of it."""
    place = _model_folder(Path(folder))
    return build(*load_arrays(place, FORMAT), place)


def describe(model: Model) -> dict[str, Any]:
    """Returns all of a model but its arrays, as plain values."""
    return {
        "format": FORMAT,
        "settings": model.config.to_json(),
        "resolved": model.resolved.to_json(),
        "space": dataclasses.asdict(model.skills.space),
        "duration_rate": model.duration_rate,
        "world": model.world,
    }


def build(description: dict[str, Any], arrays: dict[str, np.ndarray], place: Path) -> Model:
    """Builds a model from its description and its arrays by name; `place` is where they came from, for messages."""
    try:
        config, resolved = (Config.from_json(description[name]) for name in ("settings", "resolved"))
        rate, world, space = float(description["duration_rate"]), description["world"], Space(**description["space"])
        space = dataclasses.replace(space, observation_shape=tuple(space.observation_shape))
        make = engine_of(resolved).make_skills
        shapes = eqx.filter_eval_shape(make, resolved, space, _blank_scaling(space), key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError.no_model(place, error) from error
    return Model(fill_shapes(shapes, arrays, place), config, resolved, rate, world)


def _blank_scaling(space: Space) -> Scaling:
    shape = space.observation_shape
    width = shape[0] if space.observation_kind == "vector" else 0
    num_channels = shape[-1] if space.observation_kind == "grid" else 0
    # Symbols have no shape.
    shapes = (width,), (width,), (space.action_dim,), (space.action_dim,), (1, sum(shape[-1:])), (num_channels,)
    return Scaling(*map(jnp.zeros, shapes))


def _model_folder(folder: Path) -> Path:
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


def save_arrays(tree: Any, description: dict[str, Any], folder: Path, *, overwrite: bool) -> None:
    """Writes the arrays of a tree into a folder of its own, whole or not at all.

    Args:
      tree: what has arrays; all else in it must follow from the description.
      description: plain values, among them the `format`.
      folder: where; folders above it are made.
      overwrite: whether such a folder may be replaced if it exists.
    """
    _check_folder(folder, overwrite=overwrite)
    arrays = named_leaves(eqx.filter(tree, eqx.is_array))
    weights = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    text = json.dumps(description | {"sha256": checksum(description, weights)}, indent=2) + "\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(folder) as new:
            new.mkdir()
            (new / WEIGHTS_FILE).write_bytes(weights)
            (new / CONFIG_FILE).write_text(text)
    except OSError as error:
        raise OSError(f"{folder} cannot be written ({error.strerror}): name a folder somewhere else.") from error


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: name a folder to write the model into.")
    if not overwrite:
        raise FileExistsError(
            f"{folder} exists: choose another name, or pass overwrite=True (--overwrite) to replace it."
        )
    # Only what is a model is ever replaced: a wrong name must not cost anybody a folder of other things.
    others = sorted({entry.name for entry in folder.iterdir()} - {CONFIG_FILE, WEIGHTS_FILE})
    if others:
        raise FileExistsError(f"{folder} holds {others[0]}, which is no part of a model: choose another name.")


def load_arrays(folder: Path, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads the description and the arrays that `save_arrays` wrote, in this version of their format."""
    path = folder / CONFIG_FILE
    try:
        text, weights = path.read_bytes(), (folder / WEIGHTS_FILE).read_bytes()
    except OSError as error:
        raise ModelError(
            f"{error.filename} cannot be read ({error.strerror}): give the folder that `save` wrote, with "
            f"{CONFIG_FILE} and {WEIGHTS_FILE} in it."
        ) from error
    try:
        description = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({error}): it is damaged. Copy the folder again.") from error
    written = description.get("format") if isinstance(description, dict) else None
    if written != version:
        raise ModelError(
            f"{path} has format {written!r}, and this version of compile-il reads {version}: load it with the version "
            "that wrote it, or train again."
        )
    if description.pop("sha256", None) != checksum(description, weights):
        raise ModelError(
            f"{path} or {WEIGHTS_FILE} does not hold what was written: it is damaged, of another model, or was changed "
            "by hand. Undo the change, or copy the folder again as a whole."
        )
    return description, safetensors.numpy.load(weights)


def fill_shapes(shapes: Tree, arrays: dict[str, np.ndarray], folder: Path) -> Tree:
    """Fills the shapes in a tree with the arrays of the same names; neither a shape nor an array may be left over."""
    places, rest = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    wanted = named_leaves(places)
    problems = [f"lacks the array {name}" for name in sorted(wanted.keys() - arrays.keys())]
    problems += [f"has an array that its settings do not ask for, {name}" for name in sorted(arrays.keys() - wanted)]
    for name in filter(arrays.__contains__, wanted):
        asked, given = (f"{each.dtype}{list(each.shape)}" for each in (wanted[name], arrays[name]))
        if asked != given:
            problems.append(f"has {name} as {given}, where its settings ask for {asked}")
    if problems:
        raise ModelError(
            f"{folder / WEIGHTS_FILE} {problems[0]}. Undo what was changed in {CONFIG_FILE}, or copy the folder again "
            "as a whole."
        )
    leaves = [jnp.asarray(arrays[name]) for name in wanted]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(places), leaves), rest)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Returns all leaves of a tree by name, in the tree's order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
