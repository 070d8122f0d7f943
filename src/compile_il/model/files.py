"""Writes and reads the folders of models and agents: settings in `config.json`, arrays in `model.safetensors`.

Nothing in these files is ever executed. A folder is written whole or not at all. What is read is checked against one
checksum of all bytes and against the shapes that its settings ask for. Arrays are named by their place in a tree, such
as `heads.layers.0.weight`.
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
from compile_il.data.spaces import Space, blank_scaling
from compile_il.inference.engines import ENGINES
from compile_il.model.model import Model
from compile_il.worlds.world import key_of

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
RUN_FILE, CHECKPOINT_FOLDER, MODEL_FOLDER = "run.json", "checkpoints", "model"
AGENT_FOLDER = "agent"
"""Folder of a trained agent, in place of `MODEL_FOLDER`."""
MODEL_FORMAT = 4
"""Version of the files, raised whenever older ones can no longer be read."""

Tree = TypeVar("Tree")


class ModelError(CompileError):
    """Model files that cannot be read; the message names the file and says what to do."""

    @classmethod
    def no_model(cls, folder: Path, error: Exception) -> "ModelError":
        """Returns the error for undamaged settings from which no model can be built."""
        return cls(
            f"{folder / CONFIG_FILE} does not describe a model ({error}). Undo what was changed in it, or copy the "
            "folder again."
        )


def load(folder: str | os.PathLike[str]) -> Model:
    """Reads a model from the folder that `Model.save` wrote, or from that of a finished run, and checks all of it."""
    place = _model_folder(Path(folder))
    description, arrays = load_arrays(place, MODEL_FORMAT)
    try:
        config, resolved = (Config().changed(description[name]) for name in ("settings", "resolved"))
        rate, world, space = float(description["duration_rate"]), description["world"], Space(**description["space"])
        space = dataclasses.replace(space, observation_shape=tuple(space.observation_shape))
        make = ENGINES[resolved.inference].make_skills
        shapes = eqx.filter_eval_shape(make, resolved, space, blank_scaling(space), key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError.no_model(place, error) from error
    return Model(fill_shapes(shapes, arrays, place), config, resolved, rate, world)


def describe(model: Model) -> dict[str, Any]:
    """Returns all of a model but its arrays, as plain values."""
    return {
        "format": MODEL_FORMAT,
        "settings": model.config.to_json(),
        "resolved": model.resolved.to_json(),
        "space": dataclasses.asdict(model.skills.space),
        "duration_rate": model.duration_rate,
        "world": model.world,
    }


def _model_folder(folder: Path) -> Path:
    if folder.is_file():
        raise ModelError(
            f"{folder} is a file: name the folder of a model or of a finished run. Demonstrations are read by "
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
        raise ModelError(f"{folder} holds an unfinished run: finish it with resume=True (--resume) to get a model.")
    return folder / MODEL_FOLDER


def save_arrays(tree: Any, description: dict[str, Any], folder: Path, *, overwrite: bool) -> None:
    """Writes the arrays of a tree and plain values, among them a `format`, into a folder, whole or not at all."""
    if folder.exists() and not (overwrite and folder.is_dir()):
        raise FileExistsError(
            f"{folder} exists: choose another name, or pass overwrite=True (--overwrite) to replace it."
        )
    # Only a model is ever replaced: a wrong name must not cost anybody a folder of other things.
    if folder.exists() and (others := {each.name for each in folder.iterdir()} - {CONFIG_FILE, WEIGHTS_FILE}):
        raise FileExistsError(f"{folder} holds {min(others)}, which is no part of a model: choose another name.")
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


def load_arrays(folder: Path, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads the description and the arrays that `save_arrays` wrote, in this version of their format."""
    path = folder / CONFIG_FILE
    try:
        text, weights = path.read_bytes(), (folder / WEIGHTS_FILE).read_bytes()
        description = json.loads(text)
    except OSError as error:
        raise ModelError(
            f"{error.filename} cannot be read ({error.strerror}): name the folder of a model or of a finished run."
        ) from error
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
    asked, given = ({k: f"{x.dtype}{list(x.shape)}" for k, x in each.items()} for each in (wanted, arrays))
    for name in [*asked, *given]:
        if asked.get(name) != given.get(name):
            raise ModelError(
                f"{folder / WEIGHTS_FILE} has {given.get(name, 'no array')} as {name}, where its settings ask for "
                f"{asked.get(name, 'none')}. Undo what was changed in {CONFIG_FILE}, or copy the folder again as a "
                "whole."
            )
    leaves = [jnp.asarray(arrays[name]) for name in wanted]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(places), leaves), rest)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Returns all leaves of a tree by name, in the tree's order."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
