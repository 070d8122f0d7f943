"""Whether data, or what a world tells, fits the settings; said before anything is trained, with what to change."""

from typing import Any

import numpy as np

from compile_il.config import Config
from compile_il.counts import labelled_counts, unknown_count, without_short
from compile_il.demos import UNKNOWN, Demonstration, DemonstrationError, Demonstrations
from compile_il.exact.feasible import feasible
from compile_il.exact.recursion import exactly
from compile_il.networks import Space
from compile_il.relaxed.told import check_usable
from compile_il.worlds import World


def check_effects(space: Space, config: Config) -> None:
    """Refuses effects where nothing that is seen could change."""
    if config.effects and not sum(space.observation_shape[-1:]):
        raise DemonstrationError(
            "Effects are changes of what is seen, of things in a grid or of vectors, and these demonstrations have "
            f"{'symbols' if space.observation_kind == 'symbol' else 'no states'}: leave effects out."
        )


def not_demonstrations(given: Any, otherwise: str = "") -> DemonstrationError:
    """Returns the error for what is no `Demonstrations`; `otherwise` says what would have done as well."""
    if isinstance(given, Demonstration):
        return DemonstrationError(
            "Demonstrations are needed, and this is a single one of them: take a set that holds it, demos[:1] or "
            "demos[[i]], in place of demos[i]."
        )
    return DemonstrationError(
        f"Demonstrations are needed{otherwise}, and this is a {type(given).__name__}: make them with "
        "Demonstrations.from_arrays(observations, actions), or read them with Demonstrations.load(file)."
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
            f"The world tells codes up to {largest}, and there are {_codes_there_are(config, largest)}, or take "
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


def check_possible(demos: Demonstrations, config: Config, *, counts_told: bool) -> None:
    """Refuses demonstrations without a segmentation that the settings and their labels allow.

    Args:
      demos: the data.
      config: the settings, settled for the data.
      counts_told: whether labels tell the number of segments of each demonstration.
    """
    most = config.num_segments or config.max_segments
    check_lengths(demos, config, at_hand=True)
    if demos.labels is None:
        return
    if config.inference == "relaxed":
        counts = labelled_counts(demos) if counts_told else None
        check_usable(demos.labels, np.full(len(demos), most) if counts is None else counts)
    all_segment_codes = demos.labels.segment_codes or [np.zeros(0, int)] * len(demos)
    for i, (boundaries, segment_codes) in enumerate(zip(demos.labels.boundaries, all_segment_codes, strict=True)):
        if (needed := 1 + int(np.sum(boundaries[1:] == 1))) > most:
            raise DemonstrationError(
                f"The labels of demonstration {i} cut it into {needed} segments, and the settings allow {most}: raise "
                "num_segments (or max_segments), or change the labels."
            )
        fewest = 1 if counts_told else config.num_segments or 1
        if len(segment_codes) and not fewest <= len(segment_codes) <= most:
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(segment_codes)} segments, and the settings ask "
                f"for {most if fewest == most else f'at most {most}'}: change num_segments, which may be a list with "
                "one for each demonstration."
            )
    check_codes(demos, config)
    _check_feasible(demos, config)


def check_codes(demos: Demonstrations, config: Config) -> None:
    """Refuses labels that name skills beyond the last one."""
    if demos.labels is None:
        return
    all_segment_codes = demos.labels.segment_codes or [np.zeros(0, int)] * len(demos)
    for i, (codes, segment_codes) in enumerate(zip(demos.labels.codes, all_segment_codes, strict=True)):
        if (largest := max(codes.max(), *segment_codes, UNKNOWN)) >= config.num_codes:
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
