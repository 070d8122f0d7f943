"""Settings of baselines that are trained as CompILE is, beside the model that they are compared with."""

import dataclasses

from compile_il.config import Config, special_settings
from compile_il.demos import Demonstrations
from compile_il.sources import training_world
from compile_il.worlds import World


def with_defaults(config: Config) -> Config:
    """Sizes and training as they are; what belongs to one way of inference only, as by default."""
    return dataclasses.replace(config, **special_settings())


def as_trained(demos: Demonstrations | str | World, config: Config) -> Demonstrations | World:
    """What a model with these settings is trained on: for a baseline of one segment, too, lists of as many tasks."""
    return training_world(demos, config.expected_segments) if isinstance(demos, str) else demos
