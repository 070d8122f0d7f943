"""Measures how well skills agree with the objects of tasks, in several ways of training.

The paper finds that its codes stand for places instead of objects. Ways that were tried against it, each with the same
sizes and as many skills as there are objects:

- `plain`: nothing.
- `weak actions`: a likelihood in which the termination rule weighs ten times as much as actions do.
- `merged`: more skills, of which those with the most similar policies count as one.
- `labels`: one demonstration in a hundred comes with the codes of its segments in order.
- `effects`: each skill has a change of its own that it makes where it ends (`compile_il.inference.exact.effects`).
- `effects, untrained`: the same before anything is learned, which shows how much comes from initial effects alone.

Of each, the seed with the best held-out likelihood, which `fit` would keep, is reported too.

python -m experiments.ablations.meaning --world grid-pickup --out results/meaning-grid-pickup.json
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from numpy.typing import NDArray

from compile_il.config import TEST_SEED, VALIDATION_SEED, Config
from compile_il.data import UNKNOWN, Demonstrations
from compile_il.data.batch import batch_of
from compile_il.evaluation.evaluate import label_scores, score_model
from compile_il.evaluation.metrics import Labels
from compile_il.inference.exact.skills import ExactSkills
from compile_il.model.model import Model
from compile_il.training.sources import make_source, training_world
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

NUM_THINGS = 10
"""Number of object types of a grid, and of targets of the reacher."""
MANY_SKILLS = 32
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weak actions": {"termination_weight": 10.0},
    "merged": {"num_skills": MANY_SKILLS},
    "labels": {},
    "effects": {"effects": True},
    "effects, untrained": {"effects": True, "num_iterations": 1, "learning_rate": 1e-12},
}
"""Settings of each way of training, by its name."""


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train in several ways in one world."""

    world: str = "grid-pickup"
    """Name of the world."""
    ways: tuple[str, ...] = tuple(WAYS)
    """Names of the ways of training."""
    num_iterations: int = 3000
    """Number of training steps."""
    num_seeds: int = 5
    """Number of models of each way."""
    num_demos: int = 20_000
    """Number of demonstrations for the way with labels; the others get fresh ones."""
    num_test: int = 1024
    """Number of demonstrations that all models are scored on."""


def main(run: Run) -> None:
    """Trains and scores all models; writes the result file after each way."""
    results = runner.Results(run.out, run.to_json() | {"settings": WAYS, "test_seed": TEST_SEED}, range(run.num_seeds))
    test = demonstrate(run.world, num_demos=run.num_test, seed=TEST_SEED)
    figures: dict[str, Any] = {}
    for way in run.ways:
        config = Config(**{"num_iterations": run.num_iterations, "num_seeds": run.num_seeds} | WAYS[way])
        data = labelled(run) if way == "labels" else run.world
        held_out = make_source(data, config).held_out.with_labels()
        rows = [describe(model, held_out, test, merge=way == "merged") for model in runner.train(data, config)]
        best = max(range(len(rows)), key=lambda seed: rows[seed]["held_out_log_likelihood"])
        figures[way] = {"seeds": rows, "kept": rows[best] | {"seed": best}}
        results.write(figures, way, {name: rows[best][name] for name in ("agreement", "nmi", "boundary_accuracy")})


def labelled(run: Run) -> Demonstrations:
    """Makes demonstrations of which a few come with the codes of their segments in order."""
    world = training_world(run.world, num_tasks=3)
    demos = demonstrate(world, num_demos=run.num_demos, seed=VALIDATION_SEED)
    truth = demos.truth
    assert truth.codes is not None, "worlds know their codes"
    num_labelled = len(demos) // 100
    codes = [list(c) if i < num_labelled and len(c) == 3 else [UNKNOWN] * 3 for i, c in enumerate(truth.codes)]
    return demos.with_labels(segment_codes=codes)


def describe(model: Model, held_out: Demonstrations, test: Demonstrations, *, merge: bool) -> dict[str, float]:
    """Returns all scores of one model; its skills are merged into groups first if asked for."""
    labels: Labels = model.segment(test).labels
    if merge:
        group = merged(model, held_out)
        labels = [group[part] for part in labels]
    likelihood = {"held_out_log_likelihood": float(model.segment(held_out).log_likelihood.mean())}
    return label_scores(labels, test) | score_model(model, test)._asdict() | likelihood


def merged(model: Model, demos: Demonstrations) -> NDArray[np.int64]:
    """Returns the group of each skill; skills that rate the actions of the same steps alike share a group."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    assert isinstance(model.skills, ExactSkills), "of the exact engine"
    batch = jax.tree.map(jnp.asarray, batch_of(demos.storage, int(demos.num_frames), demos.max_length))
    scores = np.asarray(model.skills.score_steps(batch).log_policy)
    real = np.arange(demos.max_length) < demos.lengths[:, None]
    rated = np.exp(scores[real])  # a probability: what is hopeless under both is no difference
    distance = np.sqrt(np.mean((rated[:, :, None] - rated[:, None]) ** 2, axis=0))
    tree = linkage(squareform(distance, checks=False), method="average")
    return fcluster(tree, NUM_THINGS, criterion="maxclust").astype(np.int64)


if __name__ == "__main__":
    main(tyro.cli(Run))
