"""Settings of baselines that are trained as CompILE is, beside the model that they are compared with."""

import dataclasses

from compile_il.config import Config, special_settings
from compile_il.demos import Demonstrations
from compile_il.sources import training_world
from compile_il.worlds import World


def with_defaults(config: Config) -> Config:
    """Returns settings with the same sizes and training; those of one kind of inference only are as by default."""
    return dataclasses.replace(config, **special_settings())


def as_trained(demos: Demonstrations | str | World, config: Config) -> Demonstrations | World:
    """Returns what these settings are trained on; the name of a world becomes that world with a task per segment."""
    return training_world(demos, config.expected_segments) if isinstance(demos, str) else demos
