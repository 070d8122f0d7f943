"""Trains with labels of Gaussian codes on a small reacher: where boundaries come to lie, and what draws them there.

    told="python -m experiments.ablations.told_gaussian"
    $told --weights 0.1 --out results/told-gaussian-0.1-cpu.json
    $told --weights 0.01 --out results/told-gaussian-0.01-cpu.json
    ten="--weights 0.1 --num-types 10 --num-iterations 5000 --num-checks 20"
    $told $ten --out results/told-gaussian-ten-types-cpu.json
    $told $ten --expert-gain 4 --out results/told-gaussian-hard-expert-cpu.json

Recognition first finds the step before a touch, where the arm slows down. The prior, which wants segments of three
steps where the reacher's have nine, holds boundaries back. With four types of targets, which keep the networks and the
time small, and a weight of 0.1 it does until policies know what codes mean, and boundaries then arrive in their place;
with 0.01 they go at once to where recognition finds something, one step early, and are slow to leave. With all ten
types one of two seeds does so in spite of 0.1, but none where the expert does not slow down.
"""

import dataclasses
from typing import Annotated, Any

import numpy as np
import tyro

from compile_il.config import VALIDATION_SEED, Config
from compile_il.data import Demonstrations
from compile_il.model.model import Model
from compile_il.worlds import ReacherWorld
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

SMALL = Config(
    inference="relaxed",
    codes="gaussian",
    supervision="z",
    num_iterations=3000,
    batch_size=64,
    hidden_dim=64,
    policy_layers=2,
    cooldown=0.3,
    num_seeds=2,
)


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train with labels of Gaussian codes and several weights of the boundaries' prior."""

    weights: tuple[float, ...] = (0.1, 0.01)
    """Weights of the boundaries' divergence from their prior."""
    num_levels: int = 512
    """Number of validation levels on which it is looked where boundaries lie."""
    num_types: int = 4
    """Number of types of targets."""
    expert_gain: float = 1.0
    """How hard the expert pulls; at 1 the arm slows down before a touch, at 4 it does not."""
    num_checks: int = 12
    """Number of looks at boundaries in the course of a training, in equal distances."""
    config: Annotated[Config, tyro.conf.arg(name="")] = SMALL


def main(run: Run) -> None:
    """Trains, looks where boundaries lie, and writes the result file after each check."""
    most = min(run.num_types, ReacherWorld.max_targets)
    world = ReacherWorld(num_types=run.num_types, max_targets=most, expert_gain=run.expert_gain)
    demos = demonstrate(world, num_demos=run.num_levels, seed=VALIDATION_SEED)
    about = run.config.to_json() | {"world": dataclasses.asdict(world), "level_seed": VALIDATION_SEED}
    results = runner.Results(run.out, about, range(run.config.num_seeds))
    figures: dict[str, list[dict[str, Any]]] = {}
    for weight in run.weights:
        curve = figures[str(weight)] = []
        config = dataclasses.replace(run.config, beta_boundaries=weight)
        marks = np.linspace(0, config.num_iterations, run.num_checks + 1).astype(int)[1:]
        for check in runner.train_with_checks(world, config, marks.tolist()):
            seeds = [shares(offsets(model, demos)) for model in check.models]
            by_name = {name: [seed[name] for seed in seeds] for name in seeds[0]}
            curve.append({"iteration": check.iteration, **by_name})
            results.write(figures, str(weight), curve[-1])


def offsets(model: Model, demos: Demonstrations) -> np.ndarray:
    """Returns by how many steps inferred boundaries are late, first against first; missing ones lie at the end."""
    truth = demos.truth.boundaries
    assert truth is not None, "worlds know their boundaries"
    inferred = model.segment(demos.with_labels()).boundaries
    padded = [np.append(f, np.full(len(t) - len(f), n)) for f, t, n in zip(inferred, truth, demos.lengths, strict=True)]
    return np.concatenate([f - t for f, t in zip(padded, truth, strict=True)])


def shares(late: np.ndarray) -> dict[str, float]:
    """Returns the shares of boundaries that are in their place, a step early, a step late, and elsewhere."""
    where = {"hit": late == 0, "early": late == -1, "late": late == 1, "elsewhere": np.abs(late) > 1}
    return {name: round(float(np.mean(chosen)), 4) for name, chosen in where.items()}


if __name__ == "__main__":
    main(tyro.cli(Run))
