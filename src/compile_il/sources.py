"""Where training gets its batches from: a world, which makes fresh ones, or demonstrations at hand."""

import dataclasses
import hashlib
import math
import os
import re
from typing import NamedTuple

import jax
import numpy as np

from compile_il.config import NOTHING_TOLD, Config, ConfigError, CountsTold
from compile_il.data_checks import (
    check_effects,
    check_lengths,
    check_possible,
    check_told,
    check_told_codes,
    not_demonstrations,
)
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.demos.storage import Ragged
from compile_il.generate import demonstrate
from compile_il.measures import check_numbering, space_of
from compile_il.networks import Space
from compile_il.telling import counts_told
from compile_il.worlds import World, make_world
from compile_il.worlds.world import key_of

NUM_SAMPLE_DEMOS = 1024
HELD_OUT_SHARE, MAX_HELD_OUT = 0.1, 256
"""Demonstrations that training never sees: a tenth of given ones, at most 256."""
TRAINING_STEPS = 42
"""Number of steps after which the paper cuts the grid world's training demonstrations."""
ROOM_FOR_LONGER = 1.25
"""Fresh demonstrations of a world longer than this factor times the longest of a sample are left out of training."""


class Source(NamedTuple):
    """Where batches come from, and what is known about them beforehand."""

    world: World | None
    demos: Demonstrations
    """The data; of a world, a sample of it, for spaces, scales and lengths."""
    held_out: Demonstrations
    """Demonstrations that training never sees; seeds are compared on them."""
    space: Space
    max_length: int
    """Steps of the longest demonstration that batches can hold: of the data, or of what a world may make."""
    counts_told: CountsTold = NOTHING_TOLD
    """What labels tell about the number of segments of the data, where the settings leave it open."""


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    """Makes the source of batches for `Trainer`, from demonstrations at hand or from a world.

    Demonstrations are checked against the settings, and some of them are held out; of a world, a sample is drawn to
    learn its spaces, scales and lengths, and another one to hold out.
    """
    told = counts_told(demos, config) if isinstance(demos, Demonstrations) else NOTHING_TOLD
    if config.inference == "relaxed" and config.settled(told).num_segments is None:
        raise ConfigError(
            "num_segments is None, and labels do not list the segments of each demonstration: relaxed inference must "
            "be told how many there are, by one number or, in cil.fit, by a list with one for each demonstration; "
            'exact inference need not be told (inference="exact").'
        )
    if isinstance(demos, Demonstrations):
        return _data_source(demos, config, told)
    if isinstance(demos, os.PathLike) or (isinstance(demos, str) and demos.endswith(".npz")):
        raise DemonstrationError(
            f"{os.fspath(demos)!r} is not the name of a world: read demonstrations from a file with "
            "Demonstrations.load(file)."
        )
    if not isinstance(demos, str | World):
        raise not_demonstrations(demos, otherwise=", or a world or its name")
    world = training_world(demos, config.expected_segments) if isinstance(demos, str) else demos
    if config.supervision != "none":
        check_told(world, config)
    sample = demonstrate(world, num_demos=NUM_SAMPLE_DEMOS + MAX_HELD_OUT, seed=config.seed)
    check_lengths(sample, config, at_hand=False)
    check_effects(space_of(sample), config)
    if "z" in config.supervision:
        check_told_codes(max(int(codes.max()) for codes in sample.truth.codes or [np.zeros(1, int)]), config)
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
    """Makes a world by its name for training, in which demonstrations are cut as in the paper."""
    world = make_world(name, num_tasks=num_tasks)
    return dataclasses.replace(world, max_steps=TRAINING_STEPS) if name.startswith("grid") else world


def _data_source(demos: Demonstrations, config: Config, told: CountsTold) -> Source:
    if config.supervision != "none":
        raise DemonstrationError(
            f"supervision is {config.supervision!r}, which is for worlds, and data has labels of its own: leave it "
            "out, and give what is known with demos.with_labels(boundary_places=..., segment_codes=...)."
        )
    check_numbering(demos)
    check_possible(demos, config.settled(told), counts_told=told.of_all)
    check_effects(space_of(demos), config)
    kept, held_out = hold_out(demos, config.seed)
    return Source(
        world=None,
        demos=kept,
        held_out=held_out,
        space=space_of(demos),
        max_length=kept.max_length,
        counts_told=told,
    )


def hold_out(demos: Demonstrations, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """Splits off a tenth of demonstrations (1 to 256), returned last, which training never sees; one alone is both."""
    if len(demos) == 1:
        return demos, demos
    num_held_out = min(max(round(HELD_OUT_SHARE * len(demos)), 1), MAX_HELD_OUT)
    held_out, kept = demos.split(num_held_out / len(demos), seed=seed)
    return kept, held_out


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
