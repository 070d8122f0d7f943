"""Offers skills as actions of any Gymnasium environment, for any library of reinforcement learning.

An action of the wrapped environment is a number: first those of the environment itself, where they are numbers and
skills are not to do everything, then one for each skill, which runs until it stops by itself or the episode ends. To
other libraries, either is one step: its reward is Σ γ^i r_i over what happened inside, and `info` says how many steps
that were, γ to their power and Σ r_i, for learners that know what to do with it.
"""

import numbers
from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from compile_il.data.spaces import check_observation
from compile_il.model.model import Model
from compile_il.model.running import RunningSkill
from compile_il.rl.config import AgentError
from compile_il.rl.options import check_model, check_same_world
from compile_il.worlds.gym import WorldEnv


class SkillEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose actions are its own, and then the skills of a model; or skills alone.

    Args:
      env: with the actions of the demonstrations that the model was trained on: as many discrete ones, or a box of the
        same width, to whose bounds actions are clipped.
      model: with skills that are numbered; Gaussian codes are not.
      skills_only: whether the actions of the environment itself are left out, as continuous ones always are.
      discount: γ, of rewards inside of a skill.
      max_steps: after which a skill is stopped if it has not by itself; None if only the environment's end does.
      see: from the environment's observation to the one that the model was trained on, where they differ.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        model: Model,
        *,
        skills_only: bool = False,
        discount: float = 1.0,
        max_steps: int | None = None,
        see: Callable[[Any], NDArray[Any]] = np.asarray,
    ):
        super().__init__(env)
        self.model, self.discount, self.max_steps, self._see = model, discount, max_steps, see
        check_model(model)
        _check_actions(env.action_space, model)
        if not isinstance(discount, numbers.Real) or not 0 < discount <= 1:
            raise AgentError(f"discount is {discount!r}: use a number above 0 and up to 1.")
        whole = isinstance(max_steps, numbers.Integral) and not isinstance(max_steps, bool)
        if max_steps is not None and (not whole or max_steps < 1):
            raise AgentError(f"max_steps is {max_steps!r}: use a whole number, at least 1, or None.")
        if see is np.asarray and isinstance(env.unwrapped, WorldEnv):
            check_same_world(model, env.unwrapped.world)
        discrete = isinstance(env.action_space, spaces.Discrete)
        self.num_actions: int = model.skills.space.num_actions if discrete and not skills_only else 0
        """Number of actions of the environment itself, which come before skills; 0 if they are left out."""
        self.action_space = spaces.Discrete(self.num_actions + model.config.num_skills)
        self._running: RunningSkill | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, in which nothing has been seen before."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._running = self.model.begin(self._look(observation), 0)
        return observation, info

    def step(self, action: int) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes one action of the environment, or runs a skill from its beginning to its end."""
        if self._running is None:
            raise AgentError("Nothing has begun: call reset() first.")
        whole = np.ndim(action) == 0 and np.issubdtype(np.asarray(action).dtype, np.integer)
        if not whole or not self.action_space.contains(int(action)):
            raise AgentError(
                f"There is no action {action}: there are {self.num_actions} of the environment, then "
                f"{self.model.config.num_skills} skills."
            )
        skill = int(action) - self.num_actions
        self._running = self._running.follow(max(skill, 0))
        earned, total, discount, num_steps, over = 0.0, 0.0, 1.0, 0, False
        while not over:
            taken = int(action) if skill < 0 else self._act(self._running)
            observation, reward, terminated, truncated, info = self.env.step(taken)
            earned, total = earned + discount * float(reward), total + float(reward)
            discount, num_steps = discount * self.discount, num_steps + 1
            done = self._running.arrive(np.array(taken), self._look(observation))
            over = terminated or truncated or skill < 0 or done or num_steps == self.max_steps
        info = info | {"num_steps": num_steps, "discount": discount, "total_reward": total}
        return observation, earned, terminated, truncated, info

    def _act(self, running: RunningSkill) -> Any:
        """Returns the next action of a running skill, in the form that the environment takes."""
        action, space = running.act(), self.env.action_space
        if not isinstance(space, spaces.Box):
            return int(action)
        return np.clip(action, space.low, space.high).astype(space.dtype)

    def _look(self, observation: Any) -> NDArray[Any]:
        seen = self._see(observation)
        try:
            check_observation(seen, self.model.skills.space)
        except ValueError as error:
            raise AgentError(
                f"The environment does not show what the model was trained on ({error}) Pass see=, a function from its "
                "observation to such a one, or take another model."
            ) from error
        return seen


def _check_actions(actions: spaces.Space[Any], model: Model) -> None:
    """Refuses environments that do not take the actions of a model's skills."""
    numbered = isinstance(actions, spaces.Discrete) and actions.start == 0
    flat = isinstance(actions, spaces.Box) and len(actions.shape) == 1 and np.issubdtype(actions.dtype, np.floating)
    if not numbered and not flat:
        raise AgentError(
            f"The environment's actions are {actions}: skills give discrete ones, numbered from 0, or vectors in a box."
        )
    space, width = model.skills.space, spaces.flatdim(actions)
    theirs = f"{width} actions" if numbered else f"actions of width {width}"
    ours = f"{space.num_actions} actions" if space.num_actions else f"actions of width {space.action_dim}"
    if theirs != ours:
        raise AgentError(
            f"The environment has {theirs}, and the model's skills have {ours}: use a model that was trained on "
            "demonstrations of this environment."
        )
