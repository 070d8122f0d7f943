"""Options once more: one episode, one step at a time, in plain Python.

Options 0 to 7 are the grid world's actions and take one step. Option 8 + k is skill k: it acts until it says stop or
the episode is over. An option's reward is the sum of gamma^i times the reward of its i-th step; its discount is gamma
to the power of its number of steps, or 0 where the episode is over, by success, by failure or at its limit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tests.twins.grid_twin import TwinGrid

NUM_ACTIONS = 8


class Skill(Protocol):
    """A skill at work."""

    def act(self) -> Any: ...

    def arrive(self, action: Any, observation: Any) -> bool: ...

    def follow(self, skill: int) -> "Skill": ...


@dataclass
class Outcome:
    """What came of an option."""

    reward: float
    discount: float
    num_steps: int
    over: bool


def run_options(
    world: TwinGrid, running: Skill, options: list[int], gamma: float, max_steps: int | None = None
) -> Iterator[Outcome]:
    """Runs options one after the other until there are no more or the episode is over.

    `running` is any skill that has begun where the episode did: it observes every step, so that it can remember.
    """
    for option in options:
        running = running.follow(max(option - NUM_ACTIONS, 0))
        total, discount, num_steps = 0.0, 1.0, 0
        while True:
            action = option if option < NUM_ACTIONS else int(running.act())
            reward, terminated, truncated = world.step(action)
            total += discount * reward
            discount *= gamma
            num_steps += 1
            stops = running.arrive(np.array(action), world.observation())
            if terminated or truncated:
                yield Outcome(total, 0.0, num_steps, True)
                return
            if stops or option < NUM_ACTIONS or num_steps == max_steps:
                break
        yield Outcome(total, discount, num_steps, False)
