"""Makes the source of batches, a world or demonstrations at hand, and refuses what does not fit the settings."""

import dataclasses
import hashlib
import math
import os
import re
from typing import NamedTuple

import jax
import numpy as np

from compile_il.config import NO_COUNTS, Config, ConfigError, SegmentCounts
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.demonstrations import not_demonstrations
from compile_il.data.labels import check_codes, describe_codes
from compile_il.data.ragged import Ragged
from compile_il.data.segment_counts import counts_from_labels, summarise_counts, without_short
from compile_il.data.spaces import Space, check_numbering, space_of
from compile_il.inference.engines import engine_of
from compile_il.inference.exact.engine import feasible
from compile_il.inference.exact.priors import point_mass, unknown_count
from compile_il.worlds import World, make_world
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.world import key_of


def check_effects(space: Space, config: Config) -> None:
    """Refuses effects where nothing that is seen could change."""
    if config.effects and not sum(space.observation_shape[-1:]):
        raise DemonstrationError(
            "Effects are changes of what is seen, of things in a grid or of vectors, and these demonstrations have "
            f"{'symbols' if space.observation_kind == 'symbol' else 'no states'}: leave effects out."
        )


def check_told(world: World, config: Config) -> None:
    """Refuses a world whose labels do not fit the settings, as far as is known before any demonstration is made."""
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
        num_codes = getattr(world, "num_types", getattr(world, "num_symbols", 0))  # others' worlds show it in a sample
        check_told_codes(num_codes - 1, config)


def check_told_codes(largest: int, config: Config) -> None:
    """Refuses a world that tells more codes than the settings have."""
    if largest >= config.num_codes:
        raise DemonstrationError(
            f"The world tells codes up to {largest}, and there are {describe_codes(config, largest)}, or take "
            "supervision of codes away."
        )


def check_lengths(demos: Demonstrations, config: Config, *, at_hand: bool) -> None:
    """Refuses demonstrations too short or too long for their segments; in the paper's model the last may be empty.

    Demonstrations that are not `at_hand` are a sample of a world's, of which none can be left out.
    """
    num_segments, most = config.num_segments, config.num_segments or config.max_segments
    if config.longest_segment is not None and demos.max_length > most * config.longest_segment:
        raise DemonstrationError(
            f"Demonstration {int(demos.lengths.argmax())} has {demos.max_length} steps, more than {most} segments of "
            f"up to {config.longest_segment}: raise longest_segment, or the number of segments."
        )
    if num_segments is None:
        return
    if engine_of(config).MAY_BE_EMPTY:
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


def check_possible(demos: Demonstrations, config: Config, *, segment_counts: bool) -> None:
    """Refuses demonstrations without a segmentation that the settings and their labels allow.

    Args:
      demos: the data.
      config: the settings, settled for the data.
      segment_counts: whether labels tell the number of segments of each demonstration.
    """
    most = config.num_segments or config.max_segments
    check_lengths(demos, config, at_hand=True)
    if demos.labels is None:
        return
    counts = counts_from_labels(demos) if segment_counts else np.full(len(demos), most)
    engine_of(config).check_labels(demos.labels, counts)
    all_segment_codes = demos.labels.segment_codes or [np.zeros(0, int)] * len(demos)
    for i, (boundaries, segment_codes) in enumerate(zip(demos.labels.boundaries, all_segment_codes, strict=True)):
        if (needed := 1 + int(np.sum(boundaries[1:] == 1))) > most:
            raise DemonstrationError(
                f"The labels of demonstration {i} cut it into {needed} segments, and the settings allow {most}: raise "
                "num_segments (or max_segments), or change the labels."
            )
        fewest = 1 if segment_counts else config.num_segments or 1
        if len(segment_codes) and not fewest <= len(segment_codes) <= most:
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(segment_codes)} segments, and the settings ask "
                f"for {most if fewest == most else f'at most {most}'}: change num_segments, which may be a list with "
                "one for each demonstration."
            )
    check_codes(demos.labels, config)
    _check_feasible(demos, config)


def _check_feasible(demos: Demonstrations, config: Config) -> None:
    """Refuses labels that leave no segmentation together, though none does alone."""
    count = config.num_segments
    if count is None:
        log_count = unknown_count(config.max_segments)
    elif engine_of(config).MAY_BE_EMPTY:
        log_count = unknown_count(count)
    else:
        log_count = point_mass(count, count)
    agrees = feasible(demos, config.num_codes, config.longest_segment or demos.max_length, log_count)
    if not agrees.all():
        raise DemonstrationError(
            f"Demonstration {int(np.argmin(agrees))} has no segmentation that agrees with its labels and the settings: "
            "change the labels, num_segments (or max_segments) or longest_segment."
        )


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
    segment_counts: SegmentCounts = NO_COUNTS
    """What labels tell about the number of segments of the data, where the settings leave it open."""


def make_source(demos: Demonstrations | str | World, config: Config) -> Source:
    """Makes the source of batches for `Trainer`, from demonstrations at hand or from a world.

    Demonstrations are checked against the settings, and some of them are held out; of a world, a sample is drawn to
    learn its spaces, scales and lengths, and another one to hold out.
    """
    told = summarise_counts(demos, config) if isinstance(demos, Demonstrations) else NO_COUNTS
    if not engine_of(config).FINDS_COUNTS and config.resolved(told).num_segments is None:
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


def _data_source(demos: Demonstrations, config: Config, told: SegmentCounts) -> Source:
    if config.supervision != "none":
        raise DemonstrationError(
            f"supervision is {config.supervision!r}, which is for worlds, and data has labels of its own: leave it "
            "out, and give what is known with demos.with_labels(boundary_places=..., segment_codes=...)."
        )
    check_numbering(demos)
    check_possible(demos, config.resolved(told), segment_counts=told.of_all)
    check_effects(space_of(demos), config)
    kept, held_out = hold_out(demos, config.seed)
    return Source(
        world=None,
        demos=kept,
        held_out=held_out,
        space=space_of(demos),
        max_length=kept.max_length,
        segment_counts=told,
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
