"""Compares iterations and time to the official toy code's criterion with those of a plain loop over time steps.

The criterion is a reconstruction accuracy of 1.00 as the official code prints it, at least 0.995 on a fresh evaluation
batch: each action is repeated by the code inferred for its step, where the recognition model segments discretely. The
plain loop is `plain_loop.py`. Both sides have the same weights of the divergences, batches and learning rate. Their
seeds take turns, since machines are not always equally busy, and for each pair of weights both compile anew, once for
all seeds. Whether its operations are compiled one by one or all at once, the plain loop makes the same steps: it is
trained in its fastest form, and of the others a few iterations are timed.

python -m experiments.toy.compare --out results/symbols.json
"""

import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import tyro

from compile_il.config import TEST_SEED, Config
from compile_il.data import Demonstrations
from compile_il.evaluation.execute import reconstruct
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner
from experiments.toy.plain_loop import LEARNING_RATE, Betas, Form, PlainToy, draw_sequences

GOAL = 0.995
SLOWER_FORMS: tuple[Form, ...] = ("cell", "eager")


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train several seeds of the toy task, each with our engine and with the plain loop."""

    batch_size: int = 512
    """Number of demonstrations in an iteration, and in an evaluation."""
    betas: tuple[tuple[float, float], ...] = ((0.1, 0.1), (0.001, 0.3))
    """Weights of the codes' and of the boundaries' divergence, each pair for both sides: first the official code's,
    then those chosen for our engine on other seeds."""
    most: int = 60
    """Number of iterations after which to give up."""
    num_seeds: int = 20
    """Number of runs of each side, for each pair of weights."""
    num_timed: int = 5
    """Number of timed iterations of the slower forms of the plain loop, after a first one that compiles."""

    def config(self, betas: Betas) -> Config:
        """Returns the settings of our engine, with these weights of the divergences."""
        return Config(
            inference="relaxed",
            codes="gaussian",
            batch_size=self.batch_size,
            learning_rate=LEARNING_RATE,
            beta_codes=betas.codes,
            beta_boundaries=betas.boundaries,
            cooldown=0.0,
            num_iterations=self.most,
        )


def main(run: Run) -> None:
    """Trains both sides; writes the file after each seed, so that a run that is stopped keeps them."""
    settings = {"settings": run.config(Betas()).resolved().to_json(), "goal": GOAL, "learning_rate": LEARNING_RATE}
    results = runner.Results(run.out, run.to_json() | settings, range(run.num_seeds))
    figures: dict[str, Any] = {"comparisons": [], "plain_forms": {}}
    for betas in itertools.starmap(Betas, run.betas):
        jax.clear_caches()
        sides: dict[str, Ours | Plain] = {"plain": Plain(run, betas), "ours": Ours(run, betas)}
        compared: dict[str, Any] = {name: {"betas": betas._asdict(), "seeds": []} for name in sides}
        figures["comparisons"].append(compared)
        for seed, (name, side) in itertools.product(range(run.num_seeds), sides.items()):
            trained = side.train(seed)
            if seed == 0:
                first = trained["first_seconds"] - trained["typical_seconds"]
                compared[name]["compile_seconds"] = side.setup_seconds + first
            compared[name]["seeds"].append(trained)
            results.write(figures, f"{name} {betas} {seed}", trained)
    for form in SLOWER_FORMS:
        figures["plain_forms"][form] = time_form(run, form)
        results.write(figures, form, figures["plain_forms"][form])


class Ours:
    """The relaxed engine, compiled once: seeds differ in their first parameters and in the numbers of their steps."""

    def __init__(self, run: Run, betas: Betas):
        began = time.perf_counter()
        self.run, config = run, run.config(betas)
        self.trainer = Trainer(config, make_source("symbols", config))
        self.trainer.start()
        self.setup_seconds = time.perf_counter() - began
        self.starts = Trainer(dataclasses.replace(config, num_seeds=run.num_seeds), self.trainer.source).start()

    def train(self, seed: int) -> dict[str, Any]:
        """Trains one seed until the criterion holds."""
        state = [jax.tree.map(lambda leaf: leaf[seed : seed + 1].copy(), self.starts)]
        numbers = itertools.count()

        def step(iteration: int) -> Any:
            state[0], loss = self.trainer.step(state[0], seed * self.run.most + iteration)
            return loss

        def accuracy() -> float:
            model, demos = self.trainer.models(state[0])[0], evaluation_batch(self.run.batch_size, next(numbers))
            return reconstruct(model.skills, demos, model.segment(demos)).accuracy

        return until_goal(self.run.most, step, accuracy)


@functools.cache
def evaluation_batch(size: int, number: int) -> Demonstrations:
    """Makes demonstrations that no training has seen; each seed is shown the same ones, in the same order."""
    return demonstrate("symbols", num_demos=size, seed=TEST_SEED + number)


class Plain:
    """The plain loop, compiled once for all seeds."""

    def __init__(self, run: Run, betas: Betas, form: Form = "whole"):
        began = time.perf_counter()
        self.run, self.new = run, functools.partial(PlainToy, form, run.batch_size, betas)
        self.new(0)
        self.setup_seconds = time.perf_counter() - began

    def train(self, seed: int) -> dict[str, Any]:
        """Trains one seed until the criterion holds."""
        toy, rng = self.new(seed), np.random.default_rng(TEST_SEED)
        return until_goal(self.run.most, toy.step, lambda: toy.accuracy(draw_sequences(rng, self.run.batch_size)))


def until_goal(most: int, step: Callable[[int], Any], accuracy: Callable[[], float]) -> dict[str, Any]:
    """Counts and times iterations until the criterion holds or `most` are done, without the time of evaluations."""
    times, accuracies = list[float](), [0.0]
    while accuracies[-1] < GOAL and len(times) < most:
        times.append(_seconds_of(step, len(times)))
        accuracies.append(accuracy())
    typical = statistics.median(times[1:])
    return {
        "reached": accuracies[-1] >= GOAL,
        "iterations": len(times),
        "typical_seconds": typical,
        "first_seconds": times[0],
        "seconds": typical + sum(times[1:]),
        "accuracies": accuracies[1:],
    }


def _seconds_of(step: Callable[[int], Any], iteration: int) -> float:
    began = time.perf_counter()
    jax.block_until_ready(step(iteration))
    return time.perf_counter() - began


def time_form(run: Run, form: Form) -> dict[str, float]:
    """Returns the seconds of an iteration of the plain loop, and those of compiling it before."""
    jax.clear_caches()
    plain = Plain(run, Betas(), form)
    toy = plain.new(0)
    first, *others = (_seconds_of(toy.step, iteration) for iteration in range(run.num_timed + 1))
    typical = statistics.median(others)
    return {"typical_seconds": typical, "compile_seconds": plain.setup_seconds + first - typical}


if __name__ == "__main__":
    main(tyro.cli(Run))
