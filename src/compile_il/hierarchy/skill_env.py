"""Skills as actions of any Gymnasium environment, for any library of reinforcement learning.

An action of the wrapped environment is a number: first those of the environment itself, then one for each skill, which
runs until it stops by itself or the episode ends. To a library that knows nothing of options, either is one step: its
reward is Σ γ^i r_i over what happened inside, and `info` says how many steps that were, γ to their power and Σ r_i, for
learners that know what to do with it.
"""

import numbers
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from compile_il.hierarchy.options import refuse_no_model, refuse_others
from compile_il.hierarchy.settings import HierarchyError
from compile_il.model import Model
from compile_il.running import RunningSkill
from compile_il.spaces import check_observation
from compile_il.worlds.gym import WorldEnv


class SkillEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose actions are its own, and then the skills of a model.

    Args:
      env: with discrete actions, as many as in the demonstrations that the model was trained on.
      model: with skills that are numbered; Gaussian codes are not.
      discount: γ, of rewards inside of a skill.
      max_steps: after which a skill is stopped if it has not by itself; None if only the environment's end does.
      see: from the environment's observation to the one that the model was trained on, where they differ.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, int],
        model: Model,
        *,
        discount: float = 1.0,
        max_steps: int | None = None,
        see: Callable[[Any], NDArray[Any]] = np.asarray,
    ):
        super().__init__(env)
        self.model, self.discount, self.max_steps, self._see = model, discount, max_steps, see
        self.num_actions = _check(env, model, discount, max_steps)
        if see is np.asarray and isinstance(env.unwrapped, WorldEnv):
            refuse_others(model, env.unwrapped.world)
        self.action_space = spaces.Discrete(self.num_actions + model.config.num_skills)
        self._running: RunningSkill | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A fresh episode, in which nothing has been seen yet."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._running = self.model.begin(self._look(observation), 0)
        return observation, info

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One action of the environment, or a skill from its beginning to its end."""
        if self._running is None:
            raise HierarchyError("Nothing has begun: call reset() first.")
        whole = np.ndim(action) == 0 and np.issubdtype(np.asarray(action).dtype, np.integer)
        if not whole or not self.action_space.contains(int(action)):
            raise HierarchyError(
                f"There is no action {action}: there are {self.num_actions} of the environment, then "
                f"{self.model.config.num_skills} skills."
            )
        skill = int(action) - self.num_actions
        self._running = self._running.follow(max(skill, 0))
        earned, total, discount, num_steps, over = 0.0, 0.0, 1.0, 0, False
        while not over:
            taken = int(action) if skill < 0 else int(self._running.act())
            observation, reward, terminated, truncated, info = self.env.step(taken)
            earned, total = earned + discount * float(reward), total + float(reward)
            discount, num_steps = discount * self.discount, num_steps + 1
            done = self._running.arrive(np.array(taken), self._look(observation))
            over = terminated or truncated or skill < 0 or done or num_steps == self.max_steps
        about = {"num_steps": num_steps, "discount": discount, "total_reward": total}
        return observation, earned, terminated, truncated, info | about

    def _look(self, observation: Any) -> NDArray[Any]:
        seen = self._see(observation)
        try:
            check_observation(seen, self.model.skills.space)
        except ValueError as error:
            raise HierarchyError(
                f"The environment does not show what the model was trained on ({error}) Pass see=, a function from its "
                "observation to such a one, or take another model."
            ) from error
        return seen


def _check(env: gymnasium.Env[Any, int], model: Model, discount: float, max_steps: int | None) -> int:
    """How many actions the environment has, if the model's skills can act in it."""
    if not isinstance(env.action_space, spaces.Discrete) or env.action_space.start != 0:
        raise HierarchyError(
            f"The environment's actions are {env.action_space}: skills can stand beside a number of discrete ones."
        )
    num_actions = int(env.action_space.n)
    refuse_no_model(model)
    if model.config.codes == "gaussian":
        raise HierarchyError('Gaussian codes have no numbers to choose among: train with codes="categorical".')
    if model.skills.space.num_actions != num_actions:
        raise HierarchyError(
            f"The environment has {num_actions} actions, and the model's skills choose among "
            f"{model.skills.space.num_actions}: use a model that was trained on demonstrations of this environment."
        )
    if not isinstance(discount, numbers.Real) or not 0 < discount <= 1:
        raise HierarchyError(f"discount is {discount!r}: use a number above 0 and up to 1.")
    whole = isinstance(max_steps, numbers.Integral) and not isinstance(max_steps, bool)
    if max_steps is not None and (not whole or max_steps < 1):
        raise HierarchyError(f"max_steps is {max_steps!r}: use a whole number, at least 1, or None.")
    return num_actions
