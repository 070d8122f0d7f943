"""Small demonstrations and untrained models, made once for all tests."""

import functools
from typing import Any

import jax
import numpy as np

from compile_il.config import Config
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.spaces import scaling_of, space_of
from compile_il.inference.engines import ENGINES
from compile_il.inference.exact.engine import make_priors
from compile_il.inference.exact.segment_scores import Priors
from compile_il.model.model import Model

LENGTHS = (5, 9, 7, 4)
SMALL = Config(num_segments=3, num_skills=3, hidden_dim=8, num_maps=2, num_iterations=3, batch_size=4, max_segments=5)


@functools.cache
def vector_demos(num_demos: int = 4, seed: int = 0) -> Demonstrations:
    """Vectors of width 2 and four discrete actions."""
    rng = np.random.default_rng(seed)
    lengths = [LENGTHS[i % len(LENGTHS)] for i in range(num_demos)]
    observations = [rng.normal(size=(n + 1, 2)).astype(np.float32) for n in lengths]
    return Demonstrations.from_arrays(observations, [rng.integers(0, 4, n) for n in lengths], num_actions=4)


@functools.cache
def small_model(config: Config = SMALL, seed: int = 0) -> Model:
    """An untrained model for `vector_demos`."""
    return model_for(vector_demos(), config, seed)


def priors_of(model: Model, max_length: int) -> Priors:
    """The priors of a model for demonstrations of up to so many steps."""
    return make_priors(model.resolved, model.skills, model.duration_rate, max_length)


def new_skills(demos: Demonstrations, config: Config, seed: int = 0) -> Any:
    """Untrained skills of either engine for any demonstrations."""
    key = jax.random.key(seed)
    return ENGINES[config.inference].make_skills(config.resolved(), space_of(demos), scaling_of(demos), key)


def model_for(demos: Demonstrations, config: Config = SMALL, seed: int = 0) -> Model:
    """An untrained model for any demonstrations."""
    skills = new_skills(demos, config, seed)
    return Model(skills, config, config.resolved(), duration_rate=2.5)
