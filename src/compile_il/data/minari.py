"""Writes and reads Minari datasets, the format in which offline reinforcement learning shares its data.

Observations and actions go into spaces built from the data, rewards are zero, the last step terminates. Truth and
labels go into the infos of each episode, under `compile_il`, as arrays of T+1 numbers (Minari keeps one info per
observation), filled up with `UNKNOWN`:

    true_boundaries     1 where an inner segment starts at step t, else 0
    true_codes          the codes of the segments, one after the other from entry 0 on
    label_boundaries    labels of steps 0 to T-1
    label_codes         labels of steps 0 to T-1
"""

import importlib
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Shaped

from compile_il.data.demonstrations import Demonstration, Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.data.validation import DemonstrationError

INFO_KEY = "compile_il"
# HDF5 stores no arrays of width zero. This space has a single point, which says as much: there are no states.
NO_STATES = Box(0.0, 0.0, (1,), np.float32)


def to_minari(demos: Demonstrations, dataset_id: str, *, overwrite: bool = False, env_id: str | None = None) -> None:
    """Writes demonstrations to the local Minari store. See `Demonstrations.to_minari`."""
    if demos.storage.label_segments is not None:
        raise DemonstrationError(
            "Minari datasets do not keep the codes of segments: drop them with with_labels(labels.boundaries, "
            "labels.codes), or use save()."
        )
    minari, path = _import_minari(dataset_id)
    if env_id is not None:
        gymnasium.spec(env_id)  # raises before anything is written
    if path.exists() and not overwrite:
        raise FileExistsError(f"The Minari dataset {dataset_id} exists already; pass overwrite=True to replace it.")
    observation_space, action_space = _spaces(demos)
    with _replacing(path), warnings.catch_warnings():
        # Minari warns of each field about author and environment that is left empty.
        warnings.filterwarnings("ignore", category=UserWarning, module="minari")
        minari.create_dataset_from_buffers(
            dataset_id,
            [_to_buffer(demo) for demo in demos],
            env=env_id,
            observation_space=observation_space,
            action_space=action_space,
            description=repr(demos),
            jpeg_encoding=False,  # JPEG would change the frames
        )


def from_minari(dataset_id: str) -> Demonstrations:
    """Reads demonstrations from the local Minari store. See `Demonstrations.from_minari`."""
    minari, _ = _import_minari(dataset_id)
    try:
        dataset = minari.load_dataset(dataset_id, download=False)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"There is no Minari dataset {dataset_id} on this machine; fetch it with "
            f"'minari download {dataset_id}', or let MINARI_DATASETS_PATH name the folder that holds it."
        ) from error
    for name, space in (("observation", dataset.observation_space), ("action", dataset.action_space)):
        if not isinstance(space, Box | Discrete):
            raise DemonstrationError(
                f"The {name} space of the Minari dataset {dataset_id} is {space}; only Box and Discrete are "
                "taken. Turn its episodes into arrays, and pass those to Demonstrations.from_arrays()."
            )
    try:
        return _from_episodes(list(dataset.iterate_episodes()), dataset.observation_space, dataset.action_space)
    except DemonstrationError as error:
        raise DemonstrationError(f"Cannot use the Minari dataset {dataset_id}: {error}") from error


def _import_minari(dataset_id: str) -> tuple[Any, Path]:
    """Returns the library, with all that it needs, and where it keeps a dataset."""
    try:
        for requirement in ("h5py", "PIL"):
            importlib.import_module(requirement)
        import minari
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage import get_dataset_path
    except ImportError as error:
        raise ImportError("Minari datasets need an extra: pip install 'compile-il[minari]'") from error
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:  # a TypeError, about int(), is raised at an id without a version
        raise DemonstrationError(
            f"{dataset_id!r} is not a Minari id; one reads namespace/name-v0, or without a namespace name-v0 ({error})."
        ) from error
    return minari, get_dataset_path(dataset_id)


@contextmanager
def _replacing(path: Path) -> Iterator[None]:
    """Puts the dataset at `path` aside; deletes it when the block succeeds, puts it back when it fails."""
    if path.exists() and not (path / "data").is_dir():
        raise FileExistsError(f"{path} is not a Minari dataset, so it is not replaced; choose another id.")
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.old")
    if path.exists():
        path.rename(aside)
    try:
        yield
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        if aside.exists():
            aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _spaces(demos: Demonstrations) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Returns spaces that hold all observations and all actions."""
    values, shape = demos.storage.observations.values, demos.observation_shape
    observations: gymnasium.Space[Any] = Box(-np.inf, np.inf, shape, np.float32)
    if demos.observation_kind == "symbol":
        observations = Discrete(int(values.max()) + 1)
    elif shape == (0,):
        observations = NO_STATES
    elif values.dtype == np.uint8:
        observations = Box(0, 255, shape, np.uint8)
    if demos.num_actions is not None:
        return observations, Discrete(demos.num_actions)
    return observations, Box(-np.inf, np.inf, (demos.action_dim or 0,), np.float32)


def _to_buffer(demo: Demonstration) -> Any:
    from minari.data_collector import EpisodeBuffer

    T, frames, info = len(demo), demo.observations, {}

    def keep(name: str, values: Shaped[np.ndarray, " n"]) -> None:
        info[name] = np.full(T + 1, UNKNOWN, np.int32)
        info[name][: len(values)] = values

    if demo.truth.boundaries is not None:
        keep("true_boundaries", np.isin(np.arange(T), demo.truth.boundaries))
    if demo.truth.codes is not None:
        keep("true_codes", demo.truth.codes)
    if demo.labels is not None:
        keep("label_boundaries", demo.labels.boundaries)
        keep("label_codes", demo.labels.codes)
    return EpisodeBuffer(
        observations=np.zeros((T + 1, 1), np.float32) if frames.shape[1:] == (0,) else frames,
        actions=demo.actions,
        rewards=np.zeros(T, np.float32),
        terminations=np.arange(T) == T - 1,
        truncations=np.zeros(T, bool),
        infos={INFO_KEY: info} if info else {},
    )


def _from_episodes(
    episodes: list[Any], observation_space: Box | Discrete, action_space: Box | Discrete
) -> Demonstrations:
    infos = [(episode.infos or {}).get(INFO_KEY, {}) for episode in episodes]

    def column(name: str, read: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray] | None:
        return [read(info[name]) for info in infos] if all(name in info for info in infos) else None

    has_states = observation_space != NO_STATES
    demos = Demonstrations.from_arrays(
        [_observations(e.observations, observation_space) for e in episodes] if has_states else None,
        [_actions(e.actions, action_space) for e in episodes],
        num_actions=int(action_space.n) if isinstance(action_space, Discrete) else None,
        boundaries=column("true_boundaries", lambda part: np.flatnonzero(part == 1)),
        codes=column("true_codes", lambda part: part[part != UNKNOWN]),
    )
    return demos.with_labels(*(column(name, lambda part: part[:-1]) for name in ("label_boundaries", "label_codes")))


def _observations(values: np.ndarray, space: Box | Discrete) -> np.ndarray:
    """Counts discrete values from 0, and rounds real ones to float32: readers cannot change almost constant columns."""
    if isinstance(space, Discrete):
        return values - space.start
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return values.astype(np.float32) if values.dtype.kind == "f" else values


def _actions(values: np.ndarray, space: Box | Discrete) -> np.ndarray:
    """Reads actions as observations, but makes those in a Box vectors of real numbers, even if it holds whole ones."""
    if isinstance(space, Box):
        values = values.astype(np.promote_types(values.dtype, np.float32)).reshape(len(values), *space.shape or (1,))
    return _observations(values, space)
