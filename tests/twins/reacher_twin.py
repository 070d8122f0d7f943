"""The reacher once more: slow, in plain Python, written from the rules in `docs/worlds.md`.

The fast world is stepped beside this one in the tests, so nothing here imports from the package. "Rule 5"
means that item of the reacher's list. All arithmetic is in double precision; only observations are float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import numpy as np

from tests.twins.grid_twin import REWARDS, TwinDemonstration, record_expert

Pair = tuple[float, float]

LINK = 0.12
MAX_SPEED = 3.0
STEP_SECONDS = 0.06
NUM_TYPES = 10
MAX_TARGETS = 6
MIN_RADIUS, MAX_RADIUS = 0.05, 0.2
REACHED_WITHIN = 0.025


@dataclass
class TwinReacherLevel:
    """Where an episode begins, and what is asked (rules 1 and 3)."""

    angles: Pair  # shoulder, elbow
    targets: dict[int, Pair]  # type -> centre
    tasks: list[int]  # the types asked for, in order

    @classmethod
    def random(cls, rng: Random, num_tasks: int) -> TwinReacherLevel:
        """Draw a level."""
        angles = (rng.uniform(-math.pi, math.pi), rng.uniform(-math.pi, math.pi))
        types = rng.sample(range(NUM_TYPES), rng.randint(num_tasks, MAX_TARGETS))
        targets = {type_: _draw_centre(rng) for type_ in types}
        return cls(angles, targets, rng.sample(types, num_tasks))


def _draw_centre(rng: Random) -> Pair:
    """Rule 3: the radius is uniform, so centres are denser near the shoulder."""
    radius, angle = rng.uniform(MIN_RADIUS, MAX_RADIUS), rng.uniform(-math.pi, math.pi)
    return radius * math.cos(angle), radius * math.sin(angle)


def clip_speed(speed: float) -> float:
    """The nearest speed that the joints can turn at."""
    return max(-MAX_SPEED, min(MAX_SPEED, speed))


class TwinReacher:
    """One episode on a level (rules 1, 2 and 4-7)."""

    def __init__(self, level: TwinReacherLevel, *, max_steps: int = 100, reward: str = "dense") -> None:
        if reward not in REWARDS:
            raise ValueError(f"reward must be one of {REWARDS}, not {reward!r}")
        self.max_steps, self.reward = max_steps, reward
        self.targets = level.targets
        self.tasks = level.tasks
        self.angles = level.angles
        self.task_index = 0
        self.num_steps = 0
        self.terminated = self.truncated = self.success = False

    @property
    def target(self) -> Pair:
        """The centre that the tip should reach now."""
        return self.targets[self.tasks[self.task_index]]

    def tip(self) -> Pair:
        """Where the fingertip is."""
        shoulder, elbow = self.angles
        x = LINK * math.cos(shoulder) + LINK * math.cos(shoulder + elbow)
        y = LINK * math.sin(shoulder) + LINK * math.sin(shoulder + elbow)
        return x, y

    def step(self, action: Pair) -> tuple[float, bool, bool]:
        """Turn both joints for one step; gives reward, terminated, truncated."""
        if self.terminated or self.truncated:
            raise RuntimeError("the episode is over")
        self.num_steps += 1
        shoulder, elbow = self.angles
        self.angles = (
            shoulder + STEP_SECONDS * clip_speed(action[0]),
            elbow + STEP_SECONDS * clip_speed(action[1]),
        )
        # Rule 5: one look a step, at the current target only, so overlapping targets still take a step each.
        done = math.dist(self.tip(), self.target) <= REACHED_WITHIN
        if done:
            self.task_index += 1
        self.terminated = self.success = self.task_index == len(self.tasks)
        self.truncated = self.num_steps >= self.max_steps and not self.terminated
        paid = done if self.reward == "dense" else self.success
        return float(paid), self.terminated, self.truncated

    def observation(self) -> np.ndarray:
        """Rule 4: (alpha, x, y) for each type, then the angles; alpha is 1 until the target was reached."""
        reached = self.tasks[: self.task_index]
        numbers: list[float] = []
        for type_ in range(NUM_TYPES):
            if type_ in self.targets:
                numbers += [float(type_ not in reached), *self.targets[type_]]
            else:
                numbers += [0.0, 0.0, 0.0]
        return np.array([*numbers, *self.angles], dtype=np.float32)

    def expert_action(self, gain: float = 1.0) -> Pair:
        """Rule 7: turn the tip's polar coordinates towards the target's."""
        shoulder, elbow = self.angles
        # The tip's radius is signed: negative where the elbow is bent past pi, and there the angle flips too.
        radius_error = math.hypot(*self.target) - 2 * LINK * math.cos(elbow / 2)
        angle_error = math.atan2(self.target[1], self.target[0]) - (shoulder + elbow / 2)
        sign = 1 if elbow >= 0 else -1
        elbow_speed = clip_speed(-sign * gain * 40 * radius_error)
        # What the elbow does to the tip's angle is what it really turns, so the clipped speed is taken out.
        shoulder_speed = clip_speed(gain * 6 * math.remainder(angle_error, math.tau) - elbow_speed / 2)
        return shoulder_speed, elbow_speed


def demonstrate(level: TwinReacherLevel, *, max_steps: int = 100) -> TwinDemonstration:
    """The expert's demonstration of a level, cut at `max_steps`."""
    return record_expert(TwinReacher(level, max_steps=max_steps), level.tasks)
