"""What the duration factor costs and what it is good for, with the default sizes on any machine.

Costs: boundary accuracy on the three worlds, with and without it. Good for: demonstrations whose tasks always come in
the same order, where one policy explains everything, so that likelihood alone says little about where to cut.

python -m compile_il.experiments.durations --out results/durations.json
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from compile_il.config import Config
from compile_il.demos import Demonstrations
from compile_il.evaluate import TEST_SEED, VALIDATION_SEED
from compile_il.generate import demonstrate
from compile_il.model import Model
from compile_il.results import write_result
from compile_il.sources import make_source
from compile_il.train import Trainer
from compile_il.worlds import GridWorld

FIXED_ORDER = "grid-pickup, always the same three objects in the same order"


@dataclasses.dataclass(frozen=True)
class Run:
    """Two weights, four kinds of data."""

    out: Path
    """Result file."""
    weights: tuple[float, ...] = (0.0, 0.3)
    """Weights of the duration factor."""
    num_iterations: int = 400
    """Steps of training."""
    num_seeds: int = 5
    """Models for each weight and kind of data."""
    num_test: int = 1024
    """Demonstrations that they are scored on."""


def main(run: Run) -> None:
    """Trains and scores everything, and writes."""
    began = time.perf_counter()
    figures: dict[str, Any] = {}
    for name in ("grid-pickup", "grid-visit", "reacher", FIXED_ORDER):
        fixed = name == FIXED_ORDER
        source = fixed_order_demos(4000, VALIDATION_SEED) if fixed else name
        test = (
            fixed_order_demos(run.num_test, TEST_SEED)
            if fixed
            else demonstrate(name, num_demos=run.num_test, seed=TEST_SEED)
        )
        figures[name] = {}
        for weight in run.weights:
            config = Config(num_iterations=run.num_iterations, num_seeds=run.num_seeds, duration_weight=weight)
            figures[name][str(weight)] = [describe(model, test) for model in train(source, config)]
            print(name, weight, _means(figures[name][str(weight)]), flush=True)
    seeds = list(range(run.num_seeds))
    config_json = dataclasses.asdict(run) | {"out": run.out.name}
    write_result(run.out, config=config_json, seeds=seeds, wall_time=time.perf_counter() - began, figures=figures)


def fixed_order_demos(num_demos: int, seed: int) -> Demonstrations:
    """Pick-ups of the types 0, 1, 2, always in this order, in levels that hold one object of each."""
    world = GridWorld(kind="pickup", num_tasks=3, num_types=3, num_objects=3, distinct_types=True)
    demos = demonstrate(world, num_demos=10 * num_demos, seed=seed)  # one list of six is in order
    assert demos.truth.codes is not None, "worlds know their codes"
    in_order = [i for i, codes in enumerate(demos.truth.codes) if codes.tolist() == [0, 1, 2]]
    return demos[np.array(in_order[:num_demos])]


def train(source: Demonstrations | str, config: Config) -> list[Model]:
    """One model a seed."""
    trainer = Trainer(config, make_source(source, config))
    state = trainer.start()
    for iteration in range(config.num_iterations):
        state, _ = trainer.step(state, iteration)
    return trainer.models(state)


def describe(model: Model, demos: Demonstrations) -> dict[str, float]:
    """Boundary scores, and how many demonstrations have a segment of a single step, found and in truth."""
    found, true = model.segment(demos), demos.truth.boundaries
    scores = model.score(demos)
    assert true is not None, "worlds know their boundaries"
    return {
        "boundary_accuracy": scores.boundary_accuracy,
        "f1": scores.f1,
        "with_one_step_segment": _one_step(found.boundaries, demos.lengths),
        "with_one_step_segment_in_truth": _one_step(true, demos.lengths),
    }


def _one_step(boundaries: Any, lengths: Any) -> float:
    ends = zip(boundaries, lengths, strict=True)
    return float(np.mean([np.diff([0, *inner, length]).min() == 1 for inner, length in ends]))


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


if __name__ == "__main__":
    main(tyro.cli(Run))
