"""The exact engine without labels: training curves and final scores over several seeds, one result file a run.

python -m compile_il.experiments.exact --world grid-pickup --iterations 20000 --out results/exact-grid-pickup.json
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

from compile_il.config import Config
from compile_il.evaluate import evaluate
from compile_il.fit import Trainer, make_source
from compile_il.results import write_result


@dataclasses.dataclass(frozen=True)
class Run:
    """Settings of one run; sizes are the paper's."""

    world: str
    """Name of the world."""
    out: Path
    """Result file."""
    iterations: int = 20_000
    """Steps of training."""
    num_seeds: int = 5
    """Models trained at once, each on fresh demonstrations of its own."""
    num_skills: int = 10
    """Skills to be found."""
    num_segments: int | None = 3
    """Segments in training; None where they are not told."""
    test_tasks: tuple[int, ...] = (3, 5)
    """Tasks of the demonstrations that the models are scored on."""
    batch_size: int = 256
    """Demonstrations in each step."""
    hidden_dim: int = 256
    """Units of hidden layers."""
    num_maps: int = 64
    """Feature maps of convolutions."""
    learning_rate: float = 1e-3
    """Of Adam."""
    duration_weight: float = 0.3
    """Weight of the Poisson factor on segment lengths."""
    sigma_floor: float = 0.3
    """Least spread of continuous actions."""
    segment_cost: float = 0.0
    """What a further segment costs, where their number is not told."""
    half_precision: bool = True
    """Whether networks for grids are trained in bfloat16."""
    num_checks: int = 8
    """How often the models are scored on 256 demonstrations while they train."""
    seconds: float = 500.0
    """Training stops after this time, whatever the number of iterations."""


def main(run: Run) -> None:
    """Trains, scores and writes."""
    own = ("world", "out", "iterations", "test_tasks", "num_checks", "seconds")
    settings = {name: value for name, value in dataclasses.asdict(run).items() if name not in own}
    config = Config(num_iterations=run.iterations, **settings)
    began = time.perf_counter()
    trainer = Trainer(config, make_source(run.world, config))
    state, curve, spent = trainer.start(), [], 0.0
    marks = set(np.unique(np.geomspace(100, run.iterations, run.num_checks).astype(int)).tolist())
    since = time.perf_counter()
    for iteration in range(1, run.iterations + 1):
        state, losses = trainer.step(state, iteration - 1)
        if iteration in marks:
            jax.block_until_ready(losses)
            spent += time.perf_counter() - since
            accuracy = [evaluate_boundaries(model, run, 256) for model in trainer.models(state)]
            curve.append({"iteration": iteration, "seconds": spent, "loss": losses.tolist(), "accuracy": accuracy})
            print(iteration, f"{spent:.1f} s", np.round(np.mean(accuracy, axis=0), 4), losses.tolist(), flush=True)
            if spent > run.seconds:
                break
            since = time.perf_counter()
    scores = {
        str(tasks): [
            evaluate(model, run.world, num_tasks=tasks, count_given=run.num_segments is not None)._asdict()
            for model in trainer.models(state)
        ]
        for tasks in run.test_tasks
    }
    figures: dict[str, Any] = {"curve": curve, "scores": scores, "training_seconds": spent, "iterations": iteration}
    for tasks, rows in scores.items():
        means = {name: np.mean([row[name] for row in rows]) for name in rows[0] if rows[0][name] is not None}
        print(tasks, {name: round(float(mean), 4) for name, mean in means.items()}, flush=True)
    config_json = dataclasses.asdict(run) | {"out": run.out.name}
    seeds = list(range(run.num_seeds))
    write_result(run.out, config=config_json, seeds=seeds, wall_time=time.perf_counter() - began, figures=figures)


def evaluate_boundaries(model: Any, run: Run, num_demos: int) -> list[float]:
    """Boundary accuracy for each number of test tasks; F1 where the number of segments is not told."""
    from compile_il.generate import demonstrate

    accuracy = []
    for tasks in run.test_tasks:
        demos = demonstrate(run.world, num_demos=num_demos, num_tasks=tasks, seed=1_000_003)
        scores = model.score(demos, tasks) if run.num_segments is not None else model.score(demos)
        accuracy.append(scores.boundary_accuracy if run.num_segments is not None else scores.f1)
    return accuracy


if __name__ == "__main__":
    main(tyro.cli(Run))
