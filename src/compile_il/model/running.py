"""Runs one skill step by step: it acts, reads where that led, and says when it is done."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from compile_il.config import CompileError, Config
from compile_il.data.spaces import check_action, check_observation
from compile_il.inference.records import Skills

Code = int | NDArray[Any]
"""A skill by its number, or the code of one where codes are vectors."""


class RunningSkill:
    """Runs a skill from an observation, or from the state in which another one has ended. Made by `Model.begin`."""

    def __init__(self, skills: Skills, config: Config, skill: Code, observation: NDArray[Any], state: Any = None):
        self._skills, self._config, self._skill = skills, config, check_skill(skill, config)
        self._seen = check_observation(observation, skills.space)
        self._state = _call(skills, "init", self._seen) if state is None else state

    def act(self) -> NDArray[Any]:
        """Returns the skill's most probable action."""
        return np.asarray(_call(self._skills, "act", self._state, self._skill))

    def arrive(self, action: NDArray[Any], observation: NDArray[Any]) -> bool:
        """Updates the state with an action and the observation that it led to; returns whether the skill is done."""
        space = self._skills.space
        taken, self._seen = check_action(action, space), check_observation(observation, space)
        self._state, done = _arrive(self._skills, self._state, taken, self._seen, self._skill)
        return bool(done)

    def follow(self, skill: Code) -> "RunningSkill":
        """Starts another skill where this one is; it remembers earlier observations, unless policies forget."""
        state = _call(self._skills, "switch_skill", self._state, self._seen)
        return RunningSkill(self._skills, self._config, skill, np.asarray(self._seen), state)


def check_skill(skill: Code, config: Config) -> Array:
    """Returns the number or the code of a skill as an array; refuses what the model does not have."""
    given = np.asarray(skill)
    if config.codes == "gaussian":
        numbers = given.shape == (config.code_dim,) and np.issubdtype(given.dtype, np.number)
        if not numbers or not np.isfinite(given).all():
            raise CompileError(
                f"The skills of this model are vectors of {config.code_dim} finite numbers, such as found.skills[0][0] "
                f"of found = model.segment(demos), and {skill} was given."
            )
    elif given.shape != () or not np.issubdtype(given.dtype, np.integer) or not 0 <= given < config.num_skills:
        raise CompileError(f"There is no skill {skill}: the model has 0 to {config.num_skills - 1}.")
    return jnp.asarray(given)


@eqx.filter_jit
def _call(skills: Skills, method: str, *args: Any) -> Any:
    return getattr(skills, method)(*args)


@eqx.filter_jit
def _arrive(skills: Skills, state: Any, action: Array, observation: Array, skill: Array) -> tuple[Any, Array]:
    after = skills.observe(state, action, observation)
    return after, skills.done(after, skill)
