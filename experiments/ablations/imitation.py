"""Trains in one world with one set of settings, at the paper's sizes: curves and final scores over five seeds.

    python -m experiments.ablations.imitation --world grid-pickup --num-skills 32 --out results/exact-grid-pickup.json
    python -m experiments.ablations.imitation --world grid-pickup --inference relaxed --learning-rate 1e-4 \
        --cooldown 0 --num-iterations 50000 --seconds 100000 --out results/relaxed-grid-pickup-h200.json

Curves are scored on validation levels, on which settings were chosen; final scores on test levels
(`compile_il.evaluate`). With `--num-segments None` neither training nor scoring has the number of segments.
"""

import dataclasses
import time
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro

from compile_il.config import TEST_SEED, VALIDATION_SEED, Config, Decoder
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import evaluate, score_model
from compile_il.model.model import Model, SegmentCount
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner
from experiments.paper.parts import PAPER_SIZES

AT_PAPER_SIZES = Config(num_iterations=20_000, half_precision=True, **PAPER_SIZES)
NUM_VALIDATION = 256


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train in one world with one set of settings."""

    world: str = "grid-pickup"
    """Name of the world."""
    test_tasks: tuple[int, ...] = (3, 5)
    """Numbers of tasks that the models are scored on."""
    num_checks: int = 8
    """Number of times that the models are scored on validation levels while they train."""
    seconds: float = 500.0
    """Seconds after which training stops, at the next check, whatever the number of iterations."""
    also_exact: bool = False
    """Score by the exact decoder too, where inference is relaxed."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(default_factory=lambda: AT_PAPER_SIZES)


def main(run: Run) -> None:
    """Trains and scores all seeds, and writes the result file after each number of tasks."""
    about = {"world": run.world, "test_tasks": (), "test_seed": TEST_SEED, **run.config.resolved().to_json()}
    results = runner.Results(run.out, about, range(run.config.num_seeds))
    trainer = Trainer(run.config, make_source(run.world, run.config))
    models, curve = train(run, trainer)
    count: Literal["true", "unknown"] = "unknown" if run.config.num_segments is None else "true"
    decoders: dict[str, Decoder | None] = {"scores": None}
    if run.also_exact:
        decoders["scores, exact decoder"] = "exact"
    # Labels would count as inferred.
    held_out = trainer.source.held_out.with_labels()
    figures: dict[str, Any] = {
        "iterations": curve[-1]["iteration"],
        "training_seconds": curve[-1]["seconds"],
        # `fit` keeps the seed with the best of these.
        "held_out_log_likelihood": [float(model.segment(held_out).log_likelihood.mean()) for model in models],
        **{name: {} for name in decoders},
        "curve": curve,
    }
    for tasks in run.test_tasks:
        results.config["test_tasks"] = (*results.config["test_tasks"], tasks)
        for name, decoder in decoders.items():
            levels: dict[str, Any] = {"num_tasks": tasks, "count": count, "decoder": decoder}
            rows = [evaluate(model, run.world, **levels)._asdict() for model in models]
            figures[name][str(tasks)] = rows
            results.write(figures, f"{tasks} {name}", runner.means(rows))


def train(run: Run, trainer: Trainer) -> tuple[list[Model], list[dict[str, Any]]]:
    """Returns the model of each seed, and their scores on validation levels at several times of the training."""
    total = run.config.num_iterations
    marks = {int(mark) for mark in np.geomspace(min(100, total), total, run.num_checks)} | {total}
    validation = {
        tasks: demonstrate(run.world, num_demos=NUM_VALIDATION, num_tasks=tasks, seed=VALIDATION_SEED)
        for tasks in run.test_tasks[:2]
    }
    state, done, seconds, curve = trainer.start(), 0, 0.0, list[dict[str, Any]]()
    for mark in sorted(marks):
        began = time.perf_counter()
        for iteration in range(done, mark):
            state, loss = trainer.step(state, iteration)
        jax.block_until_ready(loss)
        done, seconds = mark, seconds + time.perf_counter() - began
        models = trainer.models(state)
        scores = {str(tasks): score_seeds(models, demos, tasks) for tasks, demos in validation.items()}
        about = {"iteration": done, "seconds": seconds, "loss": loss.total.tolist()}
        curve.append(about | {"validation": scores})
        print(curve[-1], flush=True)
        if seconds > run.seconds:
            break
    return models, curve


def score_seeds(models: list[Model], demos: Demonstrations, tasks: int) -> dict[str, list[float]]:
    """Returns scores of boundaries by name, each with a value for every seed."""
    count: SegmentCount = tasks if models[0].resolved.num_segments is not None else "unknown"
    scores = [score_model(model, demos, count) for model in models]
    names = ("boundary_accuracy", "f1", "count_accuracy")
    return {name: [round(getattr(score, name), 5) for score in scores] for name in names}


if __name__ == "__main__":
    main(tyro.cli(Run))
