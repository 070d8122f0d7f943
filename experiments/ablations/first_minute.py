"""Measures how far training gets in its first minute on this machine, with the default sizes and without labels.

python -m experiments.ablations.first_minute --out results/first-minute-cpu.json
"""

import dataclasses
import itertools
from typing import Any

import tyro

from compile_il.config import VALIDATION_SEED, Config
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import evaluate, score_model
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

GOAL = 0.99
SETTINGS = Config(cooldown=0.0)  # a constant rate: how many iterations there will be is not given beforehand


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train for a given time in one world, several seeds one after the other."""

    world: str = "grid-pickup"
    """Name of the world."""
    seconds: float = 60.0
    """Seconds of training, compilation included, scoring not."""
    every: int = 25
    """Number of iterations between looks at validation levels."""
    num_seeds: int = 5
    """Number of runs."""


def main(run: Run) -> None:
    """Trains and scores all seeds, and writes the result file."""
    validation = demonstrate(run.world, num_demos=256, seed=VALIDATION_SEED)
    config = run.to_json() | {"settings": SETTINGS.resolved().to_json()}
    results = runner.Results(run.out, config, range(run.num_seeds))
    figures: list[dict[str, Any]] = []
    for seed in range(run.num_seeds):
        figures.append(train_for(run, seed, validation))
        results.write(figures, f"seed {seed}", figures[-1])


def train_for(run: Run, seed: int, validation: Demonstrations) -> dict[str, Any]:
    """Trains one seed; returns when it reached the goal on validation levels, and final scores on test levels."""
    reached = None
    config = dataclasses.replace(SETTINGS, seed=seed)
    for check in runner.train_with_checks(run.world, config, itertools.count(run.every, run.every)):
        [model] = check.models
        if reached is None and score_model(model, validation).boundary_accuracy >= GOAL:
            reached = check.seconds
        if check.seconds >= run.seconds:
            break
    about = {"seconds_to_goal": reached, "goal": GOAL, "iterations": check.iteration, "seconds": check.seconds}
    return about | {"scores": evaluate(model, run.world, num_tasks=3)._asdict()}


if __name__ == "__main__":
    main(tyro.cli(Run))
