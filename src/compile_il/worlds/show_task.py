"""A wrapper that shows the task beside what is seen: other libraries learn from observations, not `info`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from compile_il.worlds.gym import WorldEnv
from compile_il.worlds.world import WorldError


class ShowTask(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Wrapper with observations {"observation": what is seen, "task": the current task, one-hot over types}.

    Once all tasks are done, no entry is 1. `gymnasium.wrappers.FlattenObservation` makes one vector of both.

    Args:
      env: one of this package's worlds, or a wrapper of one, such as `compile_il.hierarchy.SkillEnv`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]):
        super().__init__(env)
        world: Any = getattr(env.unwrapped, "world", None)
        if not isinstance(env.unwrapped, WorldEnv) or not hasattr(world, "num_types"):
            raise WorldError(f"{env} has no task to show: wrap one of compile_il's worlds.")
        self._world_env, self._num_types = env.unwrapped, int(world.num_types)
        task = spaces.Box(0, 1, (self._num_types,), np.float32)
        self.observation_space = spaces.Dict({"observation": env.observation_space, "task": task})

    def observation(self, observation: Any) -> dict[str, Any]:
        """Observation of the wrapped environment together with the current task."""
        task = np.zeros(self._num_types, np.float32)
        remaining = np.asarray(self._world_env.level.tasks)[int(self._world_env.state.task_index) :]
        task[remaining[:1]] = 1.0
        return {"observation": observation, "task": task}
