"""Measures the likelihood of skills that agree with tasks, where each task has a fixed place.

In the paper's worlds the objects of tasks lie elsewhere in each level. Here the six stations of a point robot stay in
place, and one might expect a skill for each. Four ways of training, each with as many skills as stations:

- `few demonstrations` and `many demonstrations`: without labels.
- `given`: many, with the codes of their segments in order.
- `grouped`: many, without labels at first; the places where inferred segments end are put into as many groups as there
  are skills, and the groups are the labels of a second training.

If skills that agree with stations were better explanations, `given` would be more likely than `many demonstrations`.

python -m experiments.ablations.stations --out results/stations-cpu.json
"""

import dataclasses
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

from compile_il.config import TEST_SEED, Config
from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import label_scores, score_model
from compile_il.model.model import Model
from experiments.ablations import runner

STATIONS = np.array([[1.0, 1.0], [9.0, 1.0], [9.0, 9.0], [1.0, 9.0], [5.0, 2.0], [5.0, 8.0]])
SPEED, NOISE, REACH = 0.4, 0.05, 0.3
WAYS = ("few demonstrations", "many demonstrations", "given", "grouped")


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train in several ways among the stations."""

    ways: tuple[str, ...] = WAYS
    """Names of the ways of training."""
    num_iterations: int = 6000
    """Number of steps of each training."""
    num_seeds: int = 5
    """Number of models of each way, one after the other."""
    num_few: int = 300
    """Number of demonstrations where they are few."""
    num_many: int = 2000
    """Number of demonstrations where they are many."""
    num_test: int = 500
    """Number of demonstrations that all models are scored on."""


def main(run: Run) -> None:
    """Trains and scores all models; writes the result file after each one."""
    many, test = station_demos(run.num_many, seed=0), station_demos(run.num_test, seed=TEST_SEED)
    figures: dict[str, Any] = {way: {"seeds": []} for way in run.ways}
    results = runner.Results(run.out, run.to_json() | {"test_seed": TEST_SEED}, range(run.num_seeds))
    for seed in range(run.num_seeds):
        config = Config(num_skills=len(STATIONS), num_iterations=run.num_iterations, seed=seed)
        for way in run.ways:
            figures[way]["seeds"].append(describe(train(way, many, config, run.num_few), test))
            results.write(figures, f"{way} {seed}", figures[way]["seeds"][-1])


def station_demos(num_demos: int, seed: int, num_tasks: int = 3) -> Demonstrations:
    """Makes demonstrations of a point that goes from station to station, and opens or closes its gripper at each."""
    rng = np.random.default_rng(seed)
    observations, actions, boundaries, codes = [], [], [], []
    for _ in range(num_demos):
        tasks: list[int] = []
        while len(tasks) < num_tasks:  # none of them twice in a row
            if [task := int(rng.integers(len(STATIONS)))] != tasks[-1:]:
                tasks.append(task)
        seen, done, ends = [np.append(rng.uniform(0, 10, 2), 0.0)], [], []
        for task in tasks:
            pressed = False
            while not pressed:
                position, gripper = seen[-1][:2], seen[-1][2]
                ahead = STATIONS[task] - position
                distance = float(np.linalg.norm(ahead))
                step = min(SPEED * rng.uniform(0.8, 1.2), distance)
                move = ahead / max(distance, 1e-9) * step + rng.normal(0, NOISE, 2)
                pressed = bool(np.linalg.norm(ahead - move) < REACH)
                done.append(np.append(move, float(pressed)))
                seen.append(np.append(position + move, 1 - gripper if pressed else gripper))
            ends.append(len(done))
        observations.append(np.array(seen))
        actions.append(np.array(done))
        boundaries.append(ends[:-1])
        codes.append(tasks)
    return Demonstrations.from_arrays(observations, actions, boundaries=boundaries, codes=codes)


def train(way: str, many: Demonstrations, config: Config, num_few: int) -> Model:
    """Returns a model that is trained in one of the ways."""
    if way == "given":
        assert many.truth.codes is not None, "stations are codes"
        return runner.train(many.with_labels(segment_codes=many.truth.codes), config)[0]
    [model] = runner.train(many[:num_few] if way == "few demonstrations" else many, config)
    if way != "grouped":
        return model
    groups = grouped_by_ends(model.segment(many), many, config.num_skills, config.seed)
    return runner.train(many.with_labels(segment_codes=groups), config)[0]


def grouped_by_ends(found: Segments, demos: Demonstrations, num_groups: int, seed: int) -> list[NDArray[np.int64]]:
    """Returns, for each demonstration, the group of the place where each segment ends, by k-means."""
    from scipy.cluster.vq import kmeans, vq

    ends = [
        seen[[*inner, -1], :2].astype(float) for inner, seen in zip(found.boundaries, demos.observations, strict=True)
    ]
    centres, _ = kmeans(np.concatenate(ends), num_groups, seed=seed)  # the best of twenty starts
    return [vq(places, centres)[0].astype(np.int64) for places in ends]


def describe(model: Model, test: Demonstrations) -> dict[str, float]:
    """Returns scores and mean log-likelihood on demonstrations that training has not seen."""
    found = model.segment(test)
    likelihood = {"test_log_likelihood": float(found.log_likelihood.mean())}
    return label_scores(found.labels, test) | score_model(model, test)._asdict() | likelihood


if __name__ == "__main__":
    main(tyro.cli(Run))
