"""Measures what the duration factor costs and what it is good for, with the default sizes on any machine.

Costs: boundary accuracy on the three worlds, with and without it. Good for: demonstrations in which one policy explains
everything, because tasks always come in the same order, and which are cut into more segments than they have events, so
that likelihood does not say where the last cut belongs. Of those there are two kinds: `fixed-order`, of about 20 steps,
and `fixed-order-short`, of about 10, in which segments are so short that the Poisson itself expects some of one step.

python -m experiments.ablations.durations --data fixed-order --out results/durations-fixed-order.json
"""

import dataclasses
from typing import Any

import numpy as np
import tyro

from compile_il.config import TEST_SEED, VALIDATION_SEED, Config
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import score_model
from compile_il.inference.exact.skills import ExactSkills
from compile_il.model.model import Model
from compile_il.worlds import GridWorld
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

FIXED_ORDERS = {"fixed-order": (16, 16, 24), "fixed-order-short": (10, 3, 42)}
"""Cells along a side of the grid, fewest and most steps of kinds of demonstrations that pick up the same two objects in
the same order, and are to be cut into three segments."""


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train with several weights of the duration factor, on several kinds of data."""

    data: tuple[str, ...] = ("grid-pickup", "grid-visit", "reacher", *FIXED_ORDERS)
    """Names of worlds, and fixed-order or fixed-order-short."""
    weights: tuple[float | None, ...] = (0.0, None, 1.0)
    """Weights of the duration factor; None is learned, as by default."""
    num_iterations: int = 3000
    """Number of training steps."""
    num_seeds: int = 5
    """Number of models for each weight and kind of data."""
    num_test: int = 1024
    """Number of demonstrations that models are scored on."""


def main(run: Run) -> None:
    """Trains and scores all models, and writes the result file."""
    figures: dict[str, Any] = {}
    results = runner.Results(run.out, run.to_json(), range(run.num_seeds))
    for name in run.data:
        figures[name] = {}
        source: Demonstrations | str = name
        if kind := FIXED_ORDERS.get(name):
            source = fixed_order_demos(kind, 4000, VALIDATION_SEED)
            test = fixed_order_demos(kind, run.num_test, TEST_SEED)
        else:
            test = demonstrate(name, num_demos=run.num_test, seed=TEST_SEED)
        for weight in run.weights:
            config = Config(num_iterations=run.num_iterations, num_seeds=run.num_seeds, duration_weight=weight)
            key = "learned" if weight is None else str(weight)
            figures[name][key] = [describe(model, test) for model in runner.train(source, config)]
            results.write(figures, f"{name} {key}", runner.means(figures[name][key]))


def fixed_order_demos(kind: tuple[int, int, int], num_demos: int, seed: int) -> Demonstrations:
    """Makes demonstrations that pick up the types 0 and 1, in this order, in levels that hold one of each."""
    size, shortest, longest = kind
    world = GridWorld(kind="pickup", num_tasks=2, num_types=2, num_objects=2, distinct_types=True, size=size)
    demos = demonstrate(world, num_demos=8 * num_demos, seed=seed)  # half are in order, and not all of a good length
    assert demos.truth.codes is not None, "worlds know their codes"
    fits = (shortest <= demos.lengths) & (demos.lengths <= longest)
    kept = [i for i, codes in enumerate(demos.truth.codes) if fits[i] and codes.tolist() == [0, 1]]
    assert len(kept) >= num_demos, "enough are drawn"
    return demos[np.array(kept[:num_demos])]


def describe(model: Model, demos: Demonstrations) -> dict[str, float]:
    """Returns the weight, boundary scores, and the shares of demonstrations with a one-step segment, found and true."""
    found, true = model.segment(demos), demos.truth.boundaries
    scores = score_model(model, demos)
    assert true is not None, "worlds know their boundaries"
    assert isinstance(model.skills, ExactSkills), "of the exact engine"
    hits = [np.isin(t, f) for t, f in zip(true, found.boundaries, strict=True)]
    return {
        "weight": float(model.skills.durations.weight),
        "boundary_accuracy": scores.boundary_accuracy,
        "f1": scores.f1,
        "true_boundaries_found": float(np.mean(np.concatenate(hits))),
        "with_one_step_segment": _one_step(found.boundaries, demos.lengths),
        "with_one_step_segment_in_truth": _one_step(true, demos.lengths),
    }


def _one_step(boundaries: Any, lengths: Any) -> float:
    ends = zip(boundaries, lengths, strict=True)
    return float(np.mean([np.diff([0, *inner, length]).min() == 1 for inner, length in ends]))


if __name__ == "__main__":
    main(tyro.cli(Run))
