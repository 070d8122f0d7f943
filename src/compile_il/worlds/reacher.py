"""Implements the paper's reacher: a two-link planar arm that touches coloured targets in a given order.

Section "Multi-task environments" and appendix "Environment implementation details" of the paper; the choices that the
paper leaves open are in `docs/worlds.md`.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from compile_il.worlds.world import Episode, Reward, Step, check, check_options, expert_episode, task_reward

LINK_LENGTH = 0.12
TARGET_RADIUS = 0.025
TARGET_BELT = (0.05, 0.2)
"""Smallest and largest distance of a target's centre from the shoulder."""
TIME_STEP = 0.06
MAX_SPEED = 3.0
"""Largest angular velocity of a joint, in rad/s; not in the paper, whose episodes fit into 100 steps with this one."""
ANGLE_GAIN, RADIUS_GAIN = 6.0, 40.0
"""Speeds of the expert for each unit of error: rad/s per rad of angle, and rad/s per unit of radius."""
TARGET_NAMES = ("red", "green", "yellow", "teal", "violet", "brown", "blue", "pink", "grey", "orange")


class ReacherLevel(NamedTuple):
    """Fixed part of an episode of the reacher; targets are indexed by type, tasks are types."""

    targets: Float[Array, "num_types 2"]
    in_scene: Bool[Array, " num_types"]
    angles: Float[Array, "2"]
    tasks: Int[Array, " num_tasks"]


class ReacherState(NamedTuple):
    """Changing part of an episode of the reacher."""

    angles: Float[Array, "2"]
    visible: Bool[Array, " num_types"]
    task_index: Int[Array, ""]
    num_steps: Int[Array, ""]


def fingertip(angles: Float[Array, "2"]) -> Float[Array, "2"]:
    """Returns the position (l cos θ₁ + l cos(θ₁ + θ₂), l sin θ₁ + l sin(θ₁ + θ₂)), appendix "Continuous control"."""
    shoulder, reach = angles[0], angles[0] + angles[1]
    return LINK_LENGTH * jnp.stack([jnp.cos(shoulder) + jnp.cos(reach), jnp.sin(shoulder) + jnp.sin(reach)])


@dataclasses.dataclass(frozen=True)
class ReacherWorld:
    """Options of the reacher; the defaults are the paper's."""

    num_tasks: int = 3
    """Number of tasks in a task list."""
    max_targets: int = 6
    """Largest number of targets in a level; their number is uniform between num_tasks and this."""
    num_types: int = 10
    """Number of types (colours) that targets are drawn from, without replacement."""
    max_steps: int = 100
    """Actions after which an episode is cut."""
    expert_gain: float = 1.0
    """Factor of the expert's speeds: at 1 it slows down before it touches a target, at 4 it no longer does."""
    reward: Reward = "dense"
    """Whether each task done earns a reward of 1 ("dense"), or only the last one ("sparse")."""

    def __post_init__(self) -> None:
        check_options(self)
        check(0 < self.expert_gain < math.inf, f"expert_gain is {self.expert_gain}", "use a number above 0, such as 1")
        check(
            self.num_tasks <= self.max_targets,
            f"{self.num_tasks} tasks need as many targets, and a level has at most {self.max_targets}",
            f"use num_tasks <= {self.max_targets} or raise max_targets",
        )
        check(
            self.max_targets <= self.num_types,
            f"{self.max_targets} targets of distinct types cannot be drawn from {self.num_types} types",
            "lower max_targets or raise num_types",
        )

    @property
    def num_actions(self) -> None:
        """None, as actions are continuous."""
        return None

    def level(self, key: PRNGKeyArray) -> ReacherLevel:
        """Draws a random level: targets in a belt around the shoulder, an arm at random angles, a task list."""
        order_key, count_key, radius_key, direction_key, angle_key = jax.random.split(key, 5)
        num_targets = jax.random.randint(count_key, (), self.num_tasks, self.max_targets + 1, jnp.int32)
        order = jax.random.permutation(order_key, jnp.arange(self.num_types, dtype=jnp.int32))
        # The first types of a random order are in the scene, and the first of those are the tasks.
        rank = jnp.argsort(order)
        in_scene = rank < num_targets
        radius = jax.random.uniform(radius_key, (self.num_types,), jnp.float32, *TARGET_BELT)
        direction = jax.random.uniform(direction_key, (self.num_types,), jnp.float32, -math.pi, math.pi)
        targets = radius[:, None] * jnp.stack([jnp.cos(direction), jnp.sin(direction)], axis=1)
        angles = jax.random.uniform(angle_key, (2,), jnp.float32, -math.pi, math.pi)
        return ReacherLevel(jnp.where(in_scene[:, None], targets, 0.0), in_scene, angles, order[: self.num_tasks])

    def start(self, level: ReacherLevel) -> ReacherState:
        """Returns the first state of an episode: all targets visible, the first task ahead."""
        zero = jnp.array(0, jnp.int32)
        return ReacherState(level.angles, level.in_scene, zero, zero)

    def step(self, level: ReacherLevel, state: ReacherState, action: Float[Array, "2"]) -> Step:
        """Turns the joints for one time step; `arrive` then decides what the tip touches."""
        return self.arrive(level, state, state.angles + TIME_STEP * jnp.clip(action, -MAX_SPEED, MAX_SPEED))

    def arrive(self, level: ReacherLevel, state: ReacherState, angles: Float[Array, "2"]) -> Step:
        """Ends a step with the joints at these angles, and checks whether the tip is inside the current target."""
        target = level.tasks[state.task_index]
        distance = jnp.linalg.norm(fingertip(angles) - level.targets[target])
        done = distance <= TARGET_RADIUS
        task_index = state.task_index + done
        num_steps = state.num_steps + 1
        finished = task_index == self.num_tasks
        reached = done & (jnp.arange(self.num_types) == target)
        return Step(
            state=ReacherState(angles, state.visible & ~reached, task_index, num_steps),
            reward=task_reward(self.reward, done, finished),
            terminated=finished,
            truncated=(num_steps >= self.max_steps) & ~finished,
        )

    def observe(self, level: ReacherLevel, state: ReacherState) -> Float[Array, " features"]:
        """Returns (α, x, y) for each type, then both angles; α turns 0 on arrival, x and y remain."""
        alpha = state.visible.astype(jnp.float32)[:, None]
        return jnp.concatenate([jnp.concatenate([alpha, level.targets], axis=1).reshape(-1), state.angles])

    def plan(self, level: ReacherLevel) -> tuple[()]:
        """Returns an empty plan, as the controller needs none."""
        return ()

    def expert(self, level: ReacherLevel, plan: tuple[()], state: ReacherState) -> Float[Array, "2"]:
        """Opens or closes the arm by the elbow and turns it by the shoulder, as a hand-designed controller.

        With equal links the tip stands at radius r = 2 l cos(θ₂/2) and direction φ = θ₁ + θ₂/2, so the elbow alone sets
        the radius, and turning it by ω turns the tip by ω/2, which the shoulder takes back.
        """
        target = level.targets[level.tasks[jnp.minimum(state.task_index, self.num_tasks - 1)]]
        shoulder, elbow = state.angles
        radius_error = jnp.linalg.norm(target) - 2 * LINK_LENGTH * jnp.cos(elbow / 2)
        opening = jnp.where(elbow < 0, 1.0, -1.0)
        elbow_speed = jnp.clip(opening * self.expert_gain * RADIUS_GAIN * radius_error, -MAX_SPEED, MAX_SPEED)
        angle_error = jnp.arctan2(target[1], target[0]) - (shoulder + elbow / 2)
        angle_error = jnp.arctan2(jnp.sin(angle_error), jnp.cos(angle_error))
        shoulder_speed = jnp.clip(self.expert_gain * ANGLE_GAIN * angle_error - elbow_speed / 2, -MAX_SPEED, MAX_SPEED)
        return jnp.stack([shoulder_speed, elbow_speed])

    def episode(self, key: PRNGKeyArray) -> Episode:
        """Draws a random level and its expert demonstration."""
        return expert_episode(self, key)
