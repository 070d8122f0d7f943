"""What the duration factor costs and what it is good for, with the default sizes on any machine.

Costs: boundary accuracy on the three worlds, with and without it. Good for: demonstrations in which one policy explains
everything, because tasks always come in the same order, and which are cut into more segments than they have events, so
that likelihood does not say where the last cut belongs.

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

FIXED_ORDER = "fixed-order"
"""Pick-ups of the same two objects in the same order, cut into three."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Two weights, several kinds of data."""

    out: Path
    """Result file."""
    data: tuple[str, ...] = ("grid-pickup", "grid-visit", "reacher", FIXED_ORDER)
    """Worlds, and `fixed-order`."""
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
    for name in run.data:
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
    """Pick-ups of the types 0 and 1, always in this order, in levels that hold one of each; of 3 steps or more."""
    world = GridWorld(kind="pickup", num_tasks=2, num_types=2, num_objects=2, distinct_types=True)
    demos = demonstrate(world, num_demos=4 * num_demos, seed=seed)  # one list of two is in order
    assert demos.truth.codes is not None, "worlds know their codes"
    kept = [i for i, z in enumerate(demos.truth.codes) if z.tolist() == [0, 1] and demos.lengths[i] >= 3]
    return demos[np.array(kept[:num_demos])]


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
        "true_boundaries_found": float(
            np.mean(np.concatenate([np.isin(t, f) for t, f in zip(true, found.boundaries, strict=True)]))
        ),
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
