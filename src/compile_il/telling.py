"""How many segments there are, as `fit` is told: one number is a setting, one for each demonstration are labels."""

from typing import Any

import numpy as np

from compile_il.config import NOTHING_TOLD, Config, ConfigError, CountsTold
from compile_il.counts import has_unknown, with_counts
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.setting import changed
from compile_il.worlds import World


def with_told_counts(
    demos: Demonstrations | str | World, config: Config, settings: dict[str, Any]
) -> tuple[Demonstrations | str | World, Config]:
    """Returns the data with labels that tell what a list says, and the settings with single ones changed.

    Args:
      demos: data, or a world.
      config: all settings at once.
      settings: single ones, of which `num_segments` may be a list with one number for each demonstration.
    """
    count = settings.get("num_segments")
    if isinstance(count, np.ndarray) and not count.ndim:
        settings = settings | {"num_segments": count.item()}
    elif isinstance(count, list | tuple | np.ndarray):
        config = changed(config, settings | {"num_segments": None}, ConfigError)
        return _with_list(demos, count, config.inference), config
    return demos, changed(config, settings, ConfigError)


def _with_list(demos: Demonstrations | str | World, counts: Any, inference: str) -> Demonstrations:
    if not isinstance(demos, Demonstrations):
        raise DemonstrationError("num_segments is a list, and a world makes new demonstrations: use one number.")
    if inference == "relaxed" and has_unknown(counts):
        raise DemonstrationError(
            f"num_segments has None at place {list(counts).index(None)}: relaxed inference must be told the number "
            'of each demonstration; exact inference need not be (inference="exact").'
        )
    return with_counts(demos, counts, some_empty=inference == "relaxed")


def counts_told(demos: Demonstrations, config: Config) -> CountsTold:
    """What labels tell about numbers of segments; nothing where the settings give one, with which they must agree."""
    if config.num_segments is not None or demos.labels is None or demos.labels.segment_codes is None:
        return NOTHING_TOLD
    counts = [len(codes) for codes in demos.labels.segment_codes]
    return CountsTold(largest=max(counts), of_all=all(counts))
