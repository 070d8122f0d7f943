"""How far training gets in its first minute on this machine, with the default sizes and without labels.

python -m experiments.ablations.first_minute --out results/first-minute-cpu.json
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import tyro

from compile_il.config import VALIDATION_SEED, Config
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import evaluate, score_model
from compile_il.evaluation.results import Measurement
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import demonstrate

GOAL = 0.99


@dataclasses.dataclass(frozen=True)
class Run:
    """Train for a given time in one world, several seeds one after the other."""

    out: Path
    """Result file."""
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
    measurement = Measurement()
    validation = demonstrate(run.world, num_demos=256, seed=VALIDATION_SEED)
    seeds = range(run.num_seeds)
    figures = [train_for(run, seed, validation) for seed in seeds]
    config = dataclasses.asdict(run) | {"out": run.out.name, "settings": settings(0).resolved().to_json()}
    measurement.write(run.out, config=config, seeds=seeds, figures=figures)


def settings(seed: int) -> Config:
    """Returns the defaults, but with a constant rate: how many iterations there will be is not known beforehand."""
    return Config(seed=seed, cooldown=0.0)


def train_for(run: Run, seed: int, validation: Demonstrations) -> dict[str, Any]:
    """Trains one seed; returns when it reached the goal on validation levels, and final scores on test levels."""
    config = settings(seed)
    trainer = Trainer(config, make_source(run.world, config))
    state, iteration, spent, reached = trainer.start(), 0, 0.0, None
    while spent < run.seconds:
        since = time.perf_counter()
        for _ in range(run.every):
            state, loss = trainer.step(state, iteration)
            iteration += 1
        jax.block_until_ready(loss)
        spent += time.perf_counter() - since
        accuracy = score_model(trainer.models(state)[0], validation).boundary_accuracy
        if reached is None and accuracy >= GOAL:
            reached = spent
    scores = evaluate(trainer.models(state)[0], run.world, num_tasks=3)._asdict()
    print(seed, f"{GOAL:.0%} after {reached} s; {iteration} iterations in {spent:.1f} s", scores, flush=True)
    return {"seconds_to_goal": reached, "goal": GOAL, "iterations": iteration, "seconds": spent, "scores": scores}


if __name__ == "__main__":
    main(tyro.cli(Run))
