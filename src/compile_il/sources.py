"""Where training gets its batches from: a world, which makes fresh ones, or demonstrations at hand."""

import dataclasses
import hashlib
import math
import os
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from compile_il.config import Config, ConfigError
from compile_il.counts import labelled_counts, unknown_count, without_short
from compile_il.demos import UNKNOWN, Demonstration, DemonstrationError, Demonstrations
from compile_il.demos.storage import Ragged
from compile_il.exact.effects import total
from compile_il.exact.feasible import feasible
from compile_il.exact.recursion import exactly
from compile_il.generate import demonstrate
from compile_il.networks import Scaling, Space
from compile_il.relaxed.told import check_usable
from compile_il.worlds import World, make_world
from compile_il.worlds.world import key_of

NUM_SAMPLE_DEMOS = 1024
HELD_OUT_SHARE, MAX_HELD_OUT = 0.1, 256
"""Demonstrations that training never sees: a tenth of given ones, at most 256."""
TRAINING_STEPS = 42
"""The paper cuts the grid world's training demonstrations here."""
ROOM_FOR_LONGER = 1.25
"""Fresh demonstrations of a world longer than this, times the longest of a sample, are left out of training."""
MAX_CHANGES = 4096
"""Steps of the data whose changes are kept, for effects to begin with."""
LEAST_SIDE = 5
"""Rows and columns that two 3x3 convolutions need."""
_LEAST_SPREAD = 1e-6
"""Columns that spread less than this, relative to their mean, are constants as float32 stores them."""


class Source(NamedTuple):
    """Where batches come from, and what is known about them beforehand."""

    world: World | None
    demos: Demonstrations
    """The data; of a world, a sample of it, for spaces, scales and lengths."""
    held_out: Demonstrations
    """Demonstrations that training never sees; seeds are compared on them."""
    space: Space
    max_length: int
    """Steps of the longest demonstration."""


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    """Batches for `Trainer`, from demonstrations at hand or from a world.

    Demonstrations are checked against the settings, and some of them are held out; of a world, a sample is drawn to
    learn its spaces, scales and lengths, and another one to hold out.
    """
    if config.inference == "relaxed" and config.num_segments is None:
        raise ConfigError(
            "num_segments is None, and labels do not list the segments of each demonstration: relaxed inference must "
            "be told how many there are, by one number or, in cil.fit, by a list with one for each demonstration; "
            'exact inference need not be told (inference="exact").'
        )
    if isinstance(demos, Demonstrations):
        return _data_source(demos, config)
    if isinstance(demos, os.PathLike) or (isinstance(demos, str) and demos.endswith(".npz")):
        raise DemonstrationError(
            f"{os.fspath(demos)!r} is not the name of a world: read demonstrations from a file with "
            "Demonstrations.load(file)."
        )
    if not isinstance(demos, str | World):
        raise not_demonstrations(demos, otherwise=", or a world or its name")
    world = training_world(demos, config.expected_segments) if isinstance(demos, str) else demos
    if config.supervision != "none":
        _check_told(world, config)
    sample = demonstrate(world, num_demos=NUM_SAMPLE_DEMOS + MAX_HELD_OUT, seed=config.seed)
    _check_lengths(sample, config, at_hand=False)
    _check_effects(space_of(sample), config)
    if "z" in config.supervision:
        _check_codes(max(int(codes.max()) for codes in sample.truth.codes or [np.zeros(1, int)]), config)
    limit = jax.eval_shape(world.episode, key_of(0)).actions.shape[0]
    return Source(
        world=world,
        demos=sample[MAX_HELD_OUT:],
        held_out=sample[:MAX_HELD_OUT],
        space=space_of(sample),
        # Time grows with the square of it, and hardly any demonstration is as long as a world allows.
        max_length=min(limit, math.ceil(ROOM_FOR_LONGER * sample.max_length)),
    )


def training_world(name: str, num_tasks: int) -> World:
    """A world by its name, with demonstrations for training, cut as in the paper."""
    world = make_world(name, num_tasks=num_tasks)
    return dataclasses.replace(world, max_steps=TRAINING_STEPS) if name.startswith("grid") else world


def _check_effects(space: Space, config: Config) -> None:
    if config.effects and not sum(space.observation_shape[-1:]):
        raise DemonstrationError(
            "Effects are changes of what is seen, of things in a grid or of vectors, and these demonstrations have "
            f"{'symbols' if space.observation_kind == 'symbol' else 'no states'}: leave effects out."
        )


def not_demonstrations(given: Any, otherwise: str = "") -> DemonstrationError:
    """What to raise where something else was given; `otherwise` says what would have done as well."""
    if isinstance(given, Demonstration):
        return DemonstrationError(
            "Demonstrations are needed, and this is a single one of them: take a set that holds it, demos[:1] or "
            "demos[[i]], in place of demos[i]."
        )
    return DemonstrationError(
        f"Demonstrations are needed{otherwise}, and this is a {type(given).__name__}: make them with "
        "Demonstrations.from_arrays(observations, actions), or read them with Demonstrations.load(file)."
    )


def _check_told(world: World, config: Config) -> None:
    """What the world tells must fit the settings, as far as can be known before any demonstration is made."""
    if config.num_segments is not None and config.num_segments != world.num_tasks:
        raise DemonstrationError(
            f"The world's lists have {world.num_tasks} tasks, and num_segments is {config.num_segments}: with "
            "supervision they must be equal."
        )
    if config.num_segments is None and config.max_segments < world.num_tasks:
        raise DemonstrationError(
            f"The world's lists have {world.num_tasks} tasks, and max_segments is {config.max_segments}: raise it to "
            "tell what they are."
        )
    if "z" in config.supervision:
        _check_codes(getattr(world, "num_types", 0) - 1, config)


def _check_codes(largest: int, config: Config) -> None:
    if largest >= config.num_codes:
        raise DemonstrationError(
            f"The world tells codes up to {largest}, and there are {_codes_there_are(config, largest)}, or take "
            "supervision of codes away."
        )


def _data_source(demos: Demonstrations, config: Config) -> Source:
    if config.supervision != "none":
        raise DemonstrationError(
            f"supervision is {config.supervision!r}, which is for worlds, and data has labels of its own: leave it "
            "out, and give what is known with demos.with_labels(boundaries=..., segment_codes=...)."
        )
    _check_possible(demos, config)
    _check_effects(space_of(demos), config)
    kept, held_out = hold_out(demos, config.seed)
    return Source(
        world=None,
        demos=kept,
        held_out=held_out,
        space=space_of(demos),
        max_length=kept.max_length,
    )


def hold_out(demos: Demonstrations, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """Demonstrations to train on, and a tenth of them (1 to 256) that training never sees; a single one is both."""
    if len(demos) == 1:
        return demos, demos
    num_held_out = min(max(round(HELD_OUT_SHARE * len(demos)), 1), MAX_HELD_OUT)
    held_out, kept = demos.split(num_held_out / len(demos), seed=seed)
    return kept, held_out


def _check_lengths(demos: Demonstrations, config: Config, *, at_hand: bool) -> None:
    """Each segment has a step, but for the paper's model, whose last ones may be empty; none has too many.

    Demonstrations that are not at hand are a sample of a world's, of which none can be left out.
    """
    num_segments, most = config.num_segments, config.num_segments or config.max_segments
    if config.longest_segment is not None and demos.max_length > most * config.longest_segment:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmax())} has {demos.max_length} steps, more than {most} segments of "
            f"up to {config.longest_segment}: raise longest_segment, or the number of segments."
        )
    if num_segments is None:
        return
    if config.inference == "relaxed":
        if num_segments > demos.max_length:
            raise DemonstrationError(
                f"num_segments is {num_segments}, and the longest demonstration has {demos.max_length} steps: lower it."
            )
        return
    if (shortest := int(demos.lengths.min())) < num_segments:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmin())} has {shortest} steps, too few for {num_segments} segments: "
            "lower num_segments, or give None where it is not known"
            + (f", or a list with one for each demonstration; or {without_short(num_segments)}." if at_hand else ".")
        )


def _check_possible(demos: Demonstrations, config: Config) -> None:
    """Each demonstration must have a segmentation that the settings and its labels allow."""
    most = config.num_segments or config.max_segments
    _check_lengths(demos, config, at_hand=True)
    if demos.labels is None:
        return
    if config.inference == "relaxed":
        counts = labelled_counts(demos) if config.counts_told else None
        check_usable(demos.labels, np.full(len(demos), most) if counts is None else counts)
    sketches = demos.labels.segment_codes or [np.zeros(0, int)] * len(demos)
    for i, (boundaries, sketch) in enumerate(zip(demos.labels.boundaries, sketches, strict=True)):
        if (needed := 1 + int(np.sum(boundaries[1:] == 1))) > most:
            raise DemonstrationError(
                f"The labels of demonstration {i} cut it into {needed} segments, and the settings allow {most}: raise "
                "num_segments (or max_segments), or change the labels."
            )
        fewest = 1 if config.counts_told else config.num_segments or 1
        if len(sketch) and not fewest <= len(sketch) <= most:
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(sketch)} segments, and the settings ask for "
                f"{most if fewest == most else f'at most {most}'}: change num_segments, which may be a list with one "
                "for each demonstration."
            )
    check_codes(demos, config)
    _check_feasible(demos, config)


def check_codes(demos: Demonstrations, config: Config) -> None:
    """Refuses labels that name skills beyond the last one."""
    if demos.labels is None:
        return
    sketches = demos.labels.segment_codes or [np.zeros(0, int)] * len(demos)
    for i, (codes, sketch) in enumerate(zip(demos.labels.codes, sketches, strict=True)):
        if (largest := max(codes.max(), *sketch, UNKNOWN)) >= config.num_codes:
            raise DemonstrationError(
                f"The labels of demonstration {i} name skill {largest}, and there are "
                f"{_codes_there_are(config, largest)}."
            )


def _codes_there_are(config: Config, largest: int) -> str:
    if config.codes == "categorical":
        return f"{config.num_skills} skills: raise num_skills to at least {largest + 1}"
    return f"{config.code_dim} entries of a code: raise code_dim to at least {largest + 1}"


def _check_feasible(demos: Demonstrations, config: Config) -> None:
    """Refuses labels that leave no segmentation together, though none does alone."""
    count = config.num_segments
    if count is None:
        log_count = unknown_count(config.max_segments)
    elif config.inference == "relaxed":  # whose last segments may be empty
        log_count = unknown_count(count)
    else:
        log_count = exactly(count, count)
    agrees = feasible(demos, config.num_codes, config.longest_segment or demos.max_length, log_count)
    if not agrees.all():
        raise DemonstrationError(
            f"Demonstration {int(np.argmin(agrees))} has no segmentation that agrees with its labels and the settings: "
            "change the labels, num_segments (or max_segments) or longest_segment."
        )


def space_of(demos: Demonstrations) -> Space:
    """What the demonstrations' observations and actions look like."""
    if demos.observation_kind == "grid" and min(demos.observation_shape[:2]) < LEAST_SIDE:
        shape = "x".join(map(str, demos.observation_shape))
        if min(demos.observation_shape[1:]) >= LEAST_SIDE:
            raise DemonstrationError(
                f"Observations are grids of {shape}, which look like images with their channels first: put them last, "
                "with np.moveaxis(frames, 1, -1)."
            )
        raise DemonstrationError(
            f"Observations are grids of {shape}: two convolutions need {LEAST_SIDE} rows and columns or more; pad them."
        )
    frames = demos.storage.observations.values
    largest = float(max(frames.max(), -float(frames.min()))) if demos.observation_kind == "grid" else 0.0
    return Space(
        observation_kind=demos.observation_kind,
        observation_shape=demos.observation_shape,
        num_symbols=int(frames.max()) + 1 if demos.observation_kind == "symbol" else 0,
        num_actions=demos.num_actions or 0,
        action_dim=demos.action_dim or 0,
        grid_unit=largest or 1.0,
    )


def scaling_of(demos: Demonstrations) -> Scaling:
    """Mean and spread of vectors and continuous actions, and some changes."""
    nothing = np.zeros((0,), np.float32)
    frames, actions = demos.storage.observations.values, demos.storage.actions.values
    vectors, continuous = demos.observation_kind == "vector", demos.action_kind == "continuous"
    seen = _moments(frames, of_constants=1.0) if vectors else (nothing, nothing)
    done = _moments(actions, of_constants=0.0) if continuous else (nothing, nothing)
    largest = np.abs(frames.astype(np.float32)).max(axis=(0, 1, 2)) if demos.observation_kind == "grid" else nothing
    return Scaling(*map(jnp.asarray, (*seen, *done, _changes(demos), largest)))


def _changes(demos: Demonstrations) -> NDArray[np.float32]:
    """The changes of the observation in steps from all over the data."""
    if demos.observation_kind == "symbol":
        return np.zeros((0, 0), np.float32)
    frames, counts = demos.storage.observations.values, demos.storage.observations.counts
    steps = np.delete(np.arange(len(frames)), np.cumsum(counts) - 1)  # from a last frame nothing leads on
    some = steps[np.linspace(0, len(steps) - 1, min(len(steps), MAX_CHANGES)).astype(int)]
    return total(frames[some + 1].astype(np.float32)) - total(frames[some].astype(np.float32))


def _moments(values: NDArray[Any], *, of_constants: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and spread of each column, whatever its unit; the spread of constants is given."""
    mean, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    constant = spread <= _LEAST_SPREAD * np.abs(mean)
    return mean.astype(np.float32), np.where(constant, of_constants, spread).astype(np.float32)


def fingerprint(demos: Demonstrations | str | World) -> str:
    """A text that differs for different data: a run is resumed with what it was started with."""
    if not isinstance(demos, Demonstrations):
        return re.sub(" at 0x[0-9a-f]+", "", f"world {demos}")  # where in memory a world lies tells nothing of it
    digest = hashlib.sha256()
    for name, stored in zip(demos.storage._fields, demos.storage, strict=True):
        arrays = (stored.values, stored.counts) if isinstance(stored, Ragged) else (np.array(str(stored)),)
        for values in arrays:
            digest.update(f"{name} {values.dtype} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
    return f"{len(demos)} demonstrations, sha256 {digest.hexdigest()[:16]}"
