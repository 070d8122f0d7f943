"""Makes the source of batches, a world or demonstrations at hand, and refuses what does not fit the settings."""

import dataclasses
import math
import os
import re
from typing import Any, NamedTuple

import jax
import numpy as np

from compile_il.config import NO_COUNTS, Config, ConfigError, SegmentCounts
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.demonstrations import not_demonstrations
from compile_il.data.files import checksum
from compile_il.data.labels import check_codes
from compile_il.data.ragged import Ragged
from compile_il.data.segment_counts import counts_from_labels, summarise_counts
from compile_il.data.spaces import Space, check_numbering, space_of
from compile_il.inference.engines import ENGINES
from compile_il.inference.exact.engine import feasible
from compile_il.inference.exact.segment_scores import point_mass, unknown_count
from compile_il.worlds import World, make_world
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.world import key_of

NUM_SAMPLE_DEMOS = 1024
HELD_OUT_SHARE, MAX_HELD_OUT = 0.1, 256
"""Demonstrations that training never sees: a tenth of given ones, at most 256."""
TRAINING_STEPS = 42
"""Number of steps after which the paper cuts the grid world's training demonstrations."""
LENGTH_MARGIN = 1.25
"""Fresh demonstrations of a world longer than this factor times the longest of a sample are left out of training."""


class Source(NamedTuple):
    """Where batches come from, with what has to be measured before training."""

    world: World | None
    demos: Demonstrations
    """The data, or a sample of the world."""
    held_out: Demonstrations
    """Demonstrations that training never sees; seeds are compared on them."""
    space: Space
    max_length: int
    """Steps of the longest demonstration that batches can hold: of the data, or of what a world may make."""
    segment_counts: SegmentCounts = NO_COUNTS
    """Numbers of segments that labels of the data give, where the settings leave them open."""


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    """Makes the source of batches for `Trainer`, from demonstrations at hand or from a world.

    Demonstrations are checked against the settings, and some of them are held out; of a world, a sample is drawn to
    learn its spaces, scales and lengths, and another one to hold out.
    """
    counts = summarise_counts(demos, config) if isinstance(demos, Demonstrations) else NO_COUNTS
    if not ENGINES[config.inference].FINDS_COUNTS and config.resolved(counts).num_segments is None:
        raise ConfigError(
            "num_segments is None, and labels do not list the segments of each demonstration: relaxed inference needs "
            "their number, one for all or, in cil.fit, a list with one for each demonstration; exact inference finds "
            'it (inference="exact").'
        )
    if isinstance(demos, Demonstrations):
        if config.supervision != "none":
            raise DemonstrationError(
                f"supervision is {config.supervision!r}, which is for worlds, and data has labels of its own: leave it "
                "out, and add labels with demos.with_labels(boundary_places=..., segment_codes=...)."
            )
        check_numbering(demos)
        _check_labels(demos, config.resolved(counts), counts)
        kept, held_out = hold_out(demos, config.seed)
        source = Source(None, kept, held_out, space_of(demos), kept.max_length, counts)
    else:
        source = _source_of_world(demos, config)
    if config.effects and not sum(source.space.observation_shape[-1:]):
        raise DemonstrationError(
            "Effects are changes of what is seen, of things in a grid or of vectors, and these demonstrations have "
            f"{'symbols' if source.space.observation_kind == 'symbol' else 'no states'}: leave effects out."
        )
    return source


def _source_of_world(given: str | World, config: Config) -> Source:
    if isinstance(given, os.PathLike) or (isinstance(given, str) and given.endswith(".npz")):
        raise DemonstrationError(
            f"{os.fspath(given)!r} is not the name of a world: read demonstrations from a file with "
            "Demonstrations.load(file)."
        )
    if not isinstance(given, str | World):
        raise not_demonstrations(given, otherwise=", or a world or its name")
    world = training_world(given, config.num_segments) if isinstance(given, str) else given
    sample = demonstrate(world, num_demos=NUM_SAMPLE_DEMOS + MAX_HELD_OUT, seed=config.seed)
    _check_supervision(world, sample, config)
    _check_lengths(sample, config, without="")
    # Time grows with the square of it, and hardly any demonstration is as long as a world allows.
    limit = jax.eval_shape(world.episode, key_of(0)).actions.shape[0]
    max_length = min(limit, math.ceil(LENGTH_MARGIN * sample.max_length))
    return Source(world, sample[MAX_HELD_OUT:], sample[:MAX_HELD_OUT], space_of(sample), max_length)


def training_world(name: str, num_tasks: int | None) -> World:
    """Makes a world by its name for training, with 3 tasks if None, whose demonstrations are cut as in the paper."""
    world = make_world(name, num_tasks=num_tasks or 3)
    return dataclasses.replace(world, max_steps=TRAINING_STEPS) if name.startswith("grid") else world


def hold_out(demos: Demonstrations, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """Splits off a tenth of demonstrations (1 to 256), returned last, which training never sees; one alone is both."""
    if len(demos) == 1:
        return demos, demos
    num_held_out = min(max(round(HELD_OUT_SHARE * len(demos)), 1), MAX_HELD_OUT)
    held_out, kept = demos.split(num_held_out / len(demos), seed=seed)
    return kept, held_out


def fingerprint(demos: Demonstrations | str | World) -> str:
    """Returns a text that differs for different data, as a run is resumed only with the data it was started with."""
    if not isinstance(demos, Demonstrations):
        return re.sub(" at 0x[0-9a-f]+", "", f"world {demos}")  # another object of the same class is the same world
    parts: list[Any] = []
    for name, stored in zip(demos.storage._fields, demos.storage, strict=True):
        parts += [name, stored.values, stored.counts] if isinstance(stored, Ragged) else [name, str(stored)]
    return f"{len(demos)} demonstrations, sha256 {checksum(*parts)[:16]}"


def _check_supervision(world: World, sample: Demonstrations, config: Config) -> None:
    """Refuses a world whose labels do not fit the settings."""
    if config.supervision == "none":
        return
    fewest, most = config.num_segments or 1, config.num_segments or config.max_segments
    if not fewest <= world.num_tasks <= most:
        name = "max_segments" if config.num_segments is None else "num_segments"
        raise DemonstrationError(
            f"The world's lists have {world.num_tasks} tasks, and {name} is {most}: make it {world.num_tasks}."
        )
    if "z" in config.supervision:
        check_codes(sample.with_labels(segment_codes=sample.truth.codes).labels, config)


def _check_lengths(demos: Demonstrations, config: Config, *, without: str) -> None:
    """Refuses demonstrations too short or too long for their segments; `without` is a further remedy for short ones."""
    most = config.num_segments or config.max_segments
    if config.longest_segment is not None and demos.max_length > most * config.longest_segment:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmax())} has {demos.max_length} steps, more than {most} segments of "
            f"up to {config.longest_segment}: raise longest_segment, or the number of segments."
        )
    may_be_empty = ENGINES[config.inference].MAY_BE_EMPTY
    i = int(demos.lengths.argmax() if may_be_empty else demos.lengths.argmin())
    if config.num_segments is not None and demos.lengths[i] < config.num_segments:
        instead = "" if may_be_empty else f", or give None where it is not known{without}"
        raise DemonstrationError(
            f"Demonstration {i} has {demos.lengths[i]} steps, too few for {config.num_segments} segments: lower "
            f"num_segments{instead}."
        )


def _check_labels(demos: Demonstrations, config: Config, counts: SegmentCounts) -> None:
    """Refuses demonstrations without a segmentation that the settings and their labels allow."""
    most = config.num_segments or config.max_segments
    shorter = f"leave out what is too short: demos[demos.lengths >= {most}]"
    _check_lengths(demos, config, without=f", or a list with one for each demonstration; or {shorter}")
    if demos.labels is None:
        return
    engine = ENGINES[config.inference]
    engine.check_labels(demos.labels, counts_from_labels(demos) if counts.of_all else np.full(len(demos), most))
    check_codes(demos.labels, config)
    may_be_fewer = config.num_segments is None or engine.MAY_BE_EMPTY
    log_count = unknown_count(most) if may_be_fewer else point_mass(most, most)
    agrees = feasible(demos, config.num_codes, config.longest_segment or demos.max_length, log_count)
    if not agrees.all():  # no label alone is to blame
        raise DemonstrationError(
            f"Demonstration {int(np.argmin(agrees))} has no segmentation that agrees with its labels and the settings: "
            "change the labels, num_segments (or max_segments) or longest_segment."
        )
