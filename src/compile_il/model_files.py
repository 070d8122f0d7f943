"""Models in folders: settings and the space of observations and actions, from which the networks' shapes follow."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from compile_il.array_files import ModelError, fill_shapes, load_arrays, no_model, save_arrays
from compile_il.config import NOTHING_TOLD, Config, CountsTold
from compile_il.model import Model
from compile_il.networks import Scaling, Space
from compile_il.new_skills import new_skills
from compile_il.runs import AGENT_FOLDER, MODEL_FOLDER, RUN_FILE
from compile_il.worlds.world import key_of

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
        "counts_told": model.counts_told._asdict(),
    }


def load(folder: str | os.PathLike[str]) -> Model:
    """Reads what `save` wrote, or the model of a run that `fit` was given a folder for, and checks all of it."""
    place = _place_of_model(Path(folder))
    return build(*load_arrays(place, FORMAT), place)


def build(description: dict[str, Any], arrays: dict[str, np.ndarray], place: Path) -> Model:
    """Builds a model from its description and its arrays by name; `place` is where they came from, for messages."""
    try:
        config = Config.from_json(description["settings"])
        space = _space(description["space"])
        told = _counts_told(description, config)
        rate, world = float(description["duration_rate"]), description.get("world")
        if not any("durations" in name for name in arrays):
            config = _as_given_before(config, told, rate)
        shapes = eqx.filter_eval_shape(new_skills, config.settled(told), space, _blank_scaling(space), key_of(0))
    except (KeyError, TypeError, ValueError) as error:
        raise no_model(place, error) from error
    return Model(fill_shapes(shapes, arrays, place), config, rate, world, told)


def _as_given_before(config: Config, told: CountsTold, rate: float) -> Config:
    """Settings with which a model that learned nothing of lengths is made today.

    Earlier versions learned no rate where the number of segments was not known: either lengths had no weight there, or
    their rate was the one in the file.
    """
    settled = config.settled(told)
    if settled.num_segments is not None or settled.duration_rate is not None or not settled.duration_weight:
        return config
    if config.duration_weight is None:
        return dataclasses.replace(config, duration_weight=0.0)
    return dataclasses.replace(config, duration_rate=rate)


def _counts_told(description: dict[str, Any], config: Config) -> CountsTold:
    """What labels told; earlier versions wrote the settings it had led to instead, and whether it was told of all."""
    if "counts_told" in description:
        return CountsTold(**description["counts_told"])
    of_all = bool(description["settings"].get("counts_told"))
    return CountsTold(config.num_segments or config.max_segments, of_all) if of_all else NOTHING_TOLD


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
            f"{folder} holds the run of an agent: read it with `compile_il.hierarchy.load_player`, or its skills from "
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
