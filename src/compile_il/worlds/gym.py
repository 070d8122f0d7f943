"""Offers the worlds as Gymnasium environments: `CompILE/GridPickup-v0`, `CompILE/GridVisit-v0`, `CompILE/Reacher-v0`.

With a window, the grid world is `CompILE/GridPickupWindow-v0` and `CompILE/GridVisitWindow-v0`. All rules are in the
pure functions of the worlds.
"""

import abc
import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Generic, Literal, TypeVar

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Array
from numpy.typing import NDArray

from compile_il.config import CompileError
from compile_il.worlds.drawing import grid_image, grid_text, reacher_image, reacher_text
from compile_il.worlds.grid import NUM_RL_STEPS, OBJECT_NAMES, GridWindowWorld, GridWorld
from compile_il.worlds.reacher import MAX_SPEED, TARGET_BELT, TARGET_NAMES, TIME_STEP, ReacherWorld
from compile_il.worlds.world import ActingWorld, Step, WorldError, key_of

TASK_WHEN_DONE = -1
"""Value of the current task in `info` once all tasks are done."""

RenderMode = Literal["rgb_array", "ansi"]
Action = TypeVar("Action")
AnyWorld = TypeVar("AnyWorld", bound=ActingWorld)


class WorldEnv(gymnasium.Env[NDArray[Any], Action], Generic[Action, AnyWorld]):
    """A world as a Gymnasium environment, with the tasks, the current one, the number done and success in `info`.

    `reset(options={"level": level})` starts on a given level instead of a random one. In worker processes of
    `AsyncVectorEnv`, pass `context="spawn"` if the parent has used JAX before: JAX does not survive a fork.
    """

    world: AnyWorld
    level: Any
    """Level of the current episode: all that stays fixed in it."""
    state: Any
    """State of the current episode; with the level, all that the functions of `world` need."""
    task_names: ClassVar[tuple[str, ...]]
    _text: ClassVar[Any]
    """Static method that writes an observation as text; `_image` draws all observations of an episode so far."""
    _image: ClassVar[Any]

    def __init__(self, render_mode: RenderMode | None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise CompileError(f"render_mode is {render_mode!r}: use one of {self.metadata['render_modes']} or None.")
        self.render_mode = render_mode
        self._frames: list[NDArray[Any]] = []
        self._plan: Any = None
        self._running = False

    def expert_action(self) -> NDArray[Any]:
        """Returns the expert's action in this state, meant for its own path from the start of the episode."""
        with _on_cpu():
            if self._plan is None:
                self._plan = _plan(self.world, self.level)
            return np.asarray(_expert(self.world, self.level, self._plan, self.state))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begins an episode on a random level, or on the one given in the options."""
        super().reset(seed=seed)
        if unknown := set(options or {}) - {"level"}:
            raise CompileError(f"Unknown reset options {sorted(unknown)}: the only one is 'level'.")
        with _on_cpu():
            if options and "level" in options:
                self.level = _check_level(self.world, options["level"])
            else:
                self.level = _draw_level(self.world, self.np_random.integers(2**32, dtype=np.uint32))
            self.state, observation = _start(self.world, self.level)
        self._plan, self._frames, self._running = None, [np.asarray(observation)], True
        return self._frames[-1].copy(), self._info()

    def step(self, action: Action) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Takes one action; returns observation, reward, terminated, truncated and `info`."""
        if not self._running:
            raise RuntimeError("The episode has ended or not begun: call reset() before step().")
        with _on_cpu():
            step, observation = self._move(self._check_action(action))
        self.state = step.state
        if self.render_mode != "rgb_array":
            self._frames.clear()  # only images show the path
        self._frames.append(np.asarray(observation))
        terminated, truncated = bool(step.terminated), bool(step.truncated)
        self._running = not (terminated or truncated)
        return np.array(observation), float(step.reward), terminated, truncated, self._info()

    def render(self) -> Any:
        """Returns an image of the state with the path so far, or its text; None if there is no render mode."""
        if self.render_mode is None:
            return None
        if not self._frames:
            raise RuntimeError("There is nothing to draw yet: call reset() before render().")
        return self._text(self._frames[-1]) if self.render_mode == "ansi" else self._image(np.stack(self._frames))

    @abc.abstractmethod
    def _check_action(self, action: Any) -> NDArray[Any]:
        """Returns an action as an array that the world takes; raises a ValueError if it is none."""

    def _move(self, action: NDArray[Any]) -> tuple[Step, Array]:
        return _step(self.world, self.level, self.state, action)

    def _info(self) -> dict[str, Any]:
        tasks = np.array(self.level.tasks)
        task_index = int(self.state.task_index)
        success = task_index == len(tasks)
        task = TASK_WHEN_DONE if success else int(tasks[task_index])
        name = "done" if success else [*self.task_names, f"type {task}"][min(task, len(self.task_names))]
        return {"tasks": tasks, "task": task, "task_index": task_index, "task_name": name, "success": success}


class GridEnv(WorldEnv[np.int64, GridWorld]):
    """Gymnasium environment of the grid world, or with the option `window` of the one seen through a window."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012 (Gymnasium's own shape)
    task_names = OBJECT_NAMES
    _text, _image = staticmethod(grid_text), staticmethod(grid_image)

    def __init__(self, render_mode: RenderMode | None = None, **options: Any) -> None:
        super().__init__(render_mode)
        make = GridWindowWorld if "window" in options else GridWorld
        self.world = options.pop("world", None) or make(**{"max_steps": NUM_RL_STEPS} | options)
        self.observation_space = spaces.Box(0, 1, _observation_shape(self.world), np.uint8)
        self.action_space = spaces.Discrete(self.world.num_actions)

    def _check_action(self, action: Any) -> NDArray[Any]:
        chosen = np.asarray(action)
        if chosen.size != 1 or chosen.dtype.kind not in "iu" or not 0 <= chosen.item() < self.world.num_actions:
            raise CompileError(f"Action {action!r} is not in {self.action_space}.")
        return np.array(chosen.item(), np.int32)


def env_of(world: Any, render_mode: RenderMode | None = None) -> GridEnv:
    """Makes a Gymnasium environment of a grid world, which may be of a class of your own."""
    if not isinstance(world, GridWorld):
        raise WorldError(f"{world!r} is not a grid world: make an environment of your own for it.")
    return GridEnv(render_mode, world=world)


class ReacherEnv(WorldEnv[NDArray[np.float32], ReacherWorld]):
    """Gymnasium environment of the reacher."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 16}  # noqa: RUF012 (Gymnasium's own shape)
    task_names = TARGET_NAMES
    _text, _image = staticmethod(reacher_text), staticmethod(reacher_image)

    def __init__(self, render_mode: RenderMode | None = None, **options: Any) -> None:
        super().__init__(render_mode)
        self.world = ReacherWorld(**options)
        turned = 1.001 * (np.pi + self.world.max_steps * TIME_STEP * MAX_SPEED)  # a little more, for sums in float32
        far = TARGET_BELT[1]
        high = np.array([1.0, far, far] * self.world.num_types + [turned] * 2, np.float32)
        low = np.array([0.0, -far, -far] * self.world.num_types + [-turned] * 2, np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(-MAX_SPEED, MAX_SPEED, (2,), np.float32)

    def _check_action(self, action: Any) -> NDArray[Any]:
        # The world clips speeds that are too high.
        speeds = np.asarray(action, np.float32)
        if speeds.shape != (2,) or not np.isfinite(speeds).all():
            raise CompileError(f"Action {action!r} is not a pair of angular velocities.")
        return speeds


class ShowTask(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Wrapper with observations {"observation": ..., "task": the current task, one-hot over types; zeros once done}.

    It wraps one of this package's worlds, or a wrapper of one, such as `compile_il.rl.skill_env.SkillEnv`.
    `gymnasium.wrappers.FlattenObservation` makes one vector of both.
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
        """Returns the observation of the wrapped environment together with the current task."""
        task = np.zeros(self._num_types, np.float32)
        remaining = np.asarray(self._world_env.level.tasks)[int(self._world_env.state.task_index) :]
        task[remaining[:1]] = 1.0
        return {"observation": observation, "task": task}


def _on_cpu() -> AbstractContextManager[Any]:
    """Lets JAX compute on the CPU, as one step is far too small to send to an accelerator."""
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX was set to use an accelerator and nothing else
        return nullcontext()


_compiled = functools.partial(jax.jit, static_argnums=0)
_draw_level = _compiled(lambda world, seed: world.level(key_of(seed)))
_plan = _compiled(lambda world, level: world.plan(level))
_expert = _compiled(lambda world, level, plan, state: world.expert(level, plan, state))
_start = _compiled(lambda world, level: (world.start(level), world.observe(level, world.start(level))))


@_compiled
def _step(world: ActingWorld, level: Any, state: Any, action: Array) -> tuple[Step, Array]:
    step = world.step(level, state, action)
    return step, world.observe(level, step.state)


@functools.cache
def _observation_shape(world: ActingWorld) -> tuple[int, ...]:
    """Returns the shape of a world's observations; cached, as vector environments hold many of the same world."""
    return tuple(jax.eval_shape(lambda seed: _start(world, _draw_level(world, seed))[1], np.uint32(0)).shape)


def _check_level(world: ActingWorld, level: Any) -> Any:
    """Returns a level as arrays; refuses one of another world or of other options."""
    expected = jax.eval_shape(world.level, key_of(0))
    if type(level) is not type(expected):
        raise WorldError(f"A level of this world is a {type(expected).__name__}, not a {type(level).__name__}.")
    for name, mine, given in zip(expected._fields, expected, level, strict=True):
        if np.shape(given) != mine.shape:
            raise WorldError(
                f"The level's {name} has shape {np.shape(given)}, and this world's levels have {mine.shape}: make the "
                "environment with the options (num_tasks, num_objects, ...) of the level."
            )
    return jax.tree.map(lambda given, mine: np.asarray(given, mine.dtype), level, expected)
