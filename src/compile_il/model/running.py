"""A running skill, outside any loop of ours: it acts, is told where that led, and says when it is done."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from compile_il.config import Config
from compile_il.data.spaces import check_action, check_observation
from compile_il.inference.records import Skills

Code = int | NDArray[Any]
"""A skill by its number, or the code of one where codes are vectors."""


class RunningSkill:
    """A skill at work: it acts, is told where that led, and says when it is done. Made by `Model.begin`."""

    def __init__(self, skills: Skills, config: Config, skill: Code, now: Any, seen: Array):
        self._skills, self._config, self._skill = skills, config, check_skill(skill, config)
        self._now, self._seen = now, seen

    def act(self) -> NDArray[Any]:
        """The skill's most probable action after what it has seen."""
        return np.asarray(_act(self._skills, self._now, self._skill))

    def arrive(self, action: NDArray[Any], observation: NDArray[Any]) -> bool:
        """Moves on to where an action has led, and returns whether the skill is done there."""
        space = self._skills.space
        given = (check_action(action, space), check_observation(observation, space))
        self._seen = given[1]
        self._now, done = _arrive(self._skills, self._now, *given, self._skill)
        return bool(done)

    def follow(self, skill: Code) -> "RunningSkill":
        """Returns another skill, which begins where this one is; it remembers what was seen, unless policies forget."""
        now = _follow(self._skills, self._now, self._seen)
        return RunningSkill(self._skills, self._config, skill, now, self._seen)


def begin_skill(skills: Skills, config: Config, observation: NDArray[Any], skill: Code) -> RunningSkill:
    """Starts a skill at a first observation."""
    seen = check_observation(observation, skills.space)
    return RunningSkill(skills, config, skill, _begin(skills, seen), seen)


def check_skill(skill: Code, config: Config) -> Array:
    """Returns the number or the code of a skill as an array; refuses what the model does not have."""
    given = np.asarray(skill)
    if config.codes == "gaussian":
        if given.shape != (config.code_dim,):
            what = f"{skill}" if given.shape == () else f"one of shape {given.shape}"
            raise ValueError(
                f"The skills of this model are vectors of {config.code_dim} numbers, such as found.skills[0][0] of "
                f"found = model.segment(demos), and {what} was given."
            )
        if not np.issubdtype(given.dtype, np.number) or not np.isfinite(given).all():
            raise ValueError("A skill is a vector of finite numbers, and this one has something else among them.")
    elif given.shape != () or not np.issubdtype(given.dtype, np.integer) or not 0 <= given < config.num_skills:
        raise ValueError(f"There is no skill {skill}: the model has 0 to {config.num_skills - 1}.")
    return jnp.asarray(given)


@eqx.filter_jit
def _begin(skills: Skills, observation: Array) -> Any:
    return skills.init(observation)


@eqx.filter_jit
def _follow(skills: Skills, now: Any, observation: Array) -> Any:
    return skills.switch_skill(now, observation)


@eqx.filter_jit
def _act(skills: Skills, now: Any, skill: Array) -> Array:
    return skills.act(now, skill)


@eqx.filter_jit
def _arrive(skills: Skills, now: Any, action: Array, observation: Array, skill: Array) -> tuple[Any, Array]:
    after: Any = skills.observe(now, action, observation)
    return after, skills.done(after, skill)
