"""One world and one set of settings, at the paper's sizes: training curves and final scores over five seeds.

    python -m experiments.ablations.imitation --world grid-pickup --num-skills 32 --out results/exact-grid-pickup.json
    python -m experiments.ablations.imitation --world grid-pickup --inference relaxed --learning-rate 1e-4 \
        --cooldown 0 --num-iterations 50000 --seconds 100000 --out results/relaxed-grid-pickup-h200.json

Curves are scored on validation levels, on which settings were chosen; final scores on test levels
(`compile_il.evaluate`). With `--num-segments None` neither training nor scoring is told how many segments there
are.
"""

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro

from compile_il.config import TEST_SEED, VALIDATION_SEED, Config, Decoder
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import evaluate, score_model
from compile_il.evaluation.results import Measurement
from compile_il.model.model import Model, SegmentCount
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trained, Trainer
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper.parts import PAPER_SIZES

AT_PAPER_SIZES = Config(num_iterations=20_000, half_precision=True, **PAPER_SIZES)
NUM_VALIDATION = 256


@dataclasses.dataclass(frozen=True)
class Run:
    """Train in one world with one set of settings."""

    world: str
    """Name of the world."""
    out: Path
    """Result file."""
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
    """Trains and scores all seeds, and writes the result file."""
    measurement = Measurement()
    trainer = Trainer(run.config, make_source(run.world, run.config))
    state, curve = train_with_checks(trainer, run)
    count: Literal["true", "unknown"] = "unknown" if run.config.num_segments is None else "true"
    models = trainer.models(state)
    decoders: dict[str, Decoder | None] = {"scores": None}
    if run.also_exact:
        decoders["scores, exact decoder"] = "exact"
    figures: dict[str, Any] = {
        "iterations": curve[-1]["iteration"],
        "training_seconds": curve[-1]["seconds"],
        "held_out_log_likelihood": [held_out_likelihood(model, trainer) for model in models],
        **{name: {} for name in decoders},
        "curve": curve,
    }
    for position, tasks in enumerate(run.test_tasks, start=1):
        for name, decoder in decoders.items():
            levels: dict[str, Any] = {"num_tasks": tasks, "count": count, "decoder": decoder}
            rows = [evaluate(model, run.world, **levels)._asdict() for model in models]
            means = {score: np.mean([row[score] for row in rows]) for score in rows[0] if rows[0][score] is not None}
            print(tasks, name, {score: round(float(mean), 4) for score, mean in means.items()}, flush=True)
            figures[name][str(tasks)] = rows
        # Written again after each number of tasks: long demonstrations take long to score, and may not be waited for.
        measurement.write(
            run.out,
            config={
                "world": run.world,
                "test_tasks": run.test_tasks[:position],
                "test_seed": TEST_SEED,
                **trainer.resolved.to_json(),
            },
            seeds=range(run.config.num_seeds),
            figures=figures,
        )


def train_with_checks(trainer: Trainer, run: Run) -> tuple[Trained, list[dict[str, Any]]]:
    """Returns the trained state, and scores on validation levels on the way; scoring is no training time."""
    total = run.config.num_iterations
    marks = {int(mark) for mark in np.geomspace(min(100, total), total, run.num_checks)} | {total}
    validation = {
        tasks: demonstrate(run.world, num_demos=NUM_VALIDATION, num_tasks=tasks, seed=VALIDATION_SEED)
        for tasks in run.test_tasks[:2]
    }
    state, curve, spent, since = trainer.start(), [], 0.0, time.perf_counter()
    for iteration in range(1, total + 1):
        state, loss = trainer.step(state, iteration - 1)
        if iteration not in marks:
            continue
        jax.block_until_ready(loss)
        spent += time.perf_counter() - since
        checks = {str(tasks): check_seeds(trainer, state, demos, tasks) for tasks, demos in validation.items()}
        curve.append({"iteration": iteration, "seconds": spent, "loss": loss.total.tolist(), "validation": checks})
        means = {tasks: {name: round(float(np.mean(v)), 4) for name, v in row.items()} for tasks, row in checks.items()}
        print(f"{iteration} iterations, {spent:.1f} s, loss {np.mean(loss.total):.3f}", means, flush=True)
        if spent > run.seconds:
            break
        since = time.perf_counter()
    return state, curve


def check_seeds(trainer: Trainer, state: Trained, demos: Demonstrations, tasks: int) -> dict[str, list[float]]:
    """Returns scores of boundaries by name, each with a value for every seed."""
    count: SegmentCount = tasks if trainer.resolved.num_segments is not None else "unknown"
    scores = [score_model(model, demos, count) for model in trainer.models(state)]
    names = ("boundary_accuracy", "f1", "count_accuracy")
    return {name: [round(getattr(score, name), 5) for score in scores] for name in names}


def held_out_likelihood(model: Model, trainer: Trainer) -> float:
    """Returns the mean log-likelihood of held-out demonstrations, by which one of several seeds would be kept."""
    held_out = trainer.source.held_out.with_labels()  # what is told of them would count as found
    return float(model.segment(held_out).log_likelihood.mean())


if __name__ == "__main__":
    main(tyro.cli(Run))
