"""Priors over skills and lengths of segments, which training and segmenting share."""

import jax.numpy as jnp

from compile_il.config import Config
from compile_il.exact.durations import poisson_log_duration
from compile_il.exact.scores import Priors
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.skills import Skills


def make_priors(config: Config, skills: Skills | RelaxedSkills, rate: float, max_length: int) -> Priors:
    """Returns priors over skills and segment lengths, for demonstrations of up to `max_length` steps.

    The policies of the paper's model have no other factor for lengths than its Poisson, so there it has weight 1.
    """
    longest = min(max_length, config.longest_segment or max_length)
    if isinstance(skills, Skills) and skills.durations is not None:
        log_duration = skills.durations.log_duration(rate, longest, config.longest_segment)
    else:
        weight = 1.0 if config.inference == "relaxed" else config.duration_weight or 0.0
        log_duration = poisson_log_duration(rate, weight, longest)
    return Priors(jnp.full((config.num_skills,), -jnp.log(config.num_skills)), log_duration)
