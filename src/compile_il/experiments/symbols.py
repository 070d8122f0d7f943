"""The toy task of the official code: iterations and time to its criterion, beside a plain loop over time steps.

The criterion is a reconstruction accuracy of 1.00 as the official code prints it, at least 0.995 on a fresh evaluation
batch: each action is repeated by the code found for its step, under the discrete segmentation of the recognition model.
The plain loop is `benchmarks/plain_toy.py`, so this runs where the repository is; seeds of the two take turns, since
machines are not always equally busy. Whether its operations are compiled one by one or all at once, the plain loop
makes the same steps: it is trained in its fastest form, and of the others a few iterations are timed.

python -m compile_il.experiments.symbols --out results/symbols.json
"""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from benchmarks.plain_toy import LEARNING_RATE, Codes, Form, PlainToy, draw_sequences

from compile_il.config import Config
from compile_il.evaluate import TEST_SEED
from compile_il.execute import reconstruct
from compile_il.generate import demonstrate
from compile_il.results import write_result
from compile_il.sources import make_source
from compile_il.train import Trainer

GOAL = 0.995
SLOWER_FORMS: tuple[Form, ...] = ("cell", "eager")


@dataclasses.dataclass(frozen=True)
class Run:
    """Several seeds, each with our engine and with the plain loop; settings of ours were chosen on other seeds."""

    out: Path
    """Result file."""
    batch_size: int = 512
    """Demonstrations of an iteration, and of an evaluation."""
    learning_rate: float = 1e-2
    """Of our engine."""
    codes: Codes = "gaussian"
    """Of both; the official code's default."""
    beta_codes: float = 0.001
    """Of our engine."""
    beta_boundaries: float = 0.3
    """Of our engine."""
    every: int = 1
    """Iterations between evaluations."""
    most: int = 100
    """Iterations after which to give up."""
    num_seeds: int = 5
    """Runs of each."""
    num_timed: int = 2
    """Iterations of the slower forms of the plain loop, after a first one that compiles."""

    def config(self, seed: int) -> Config:
        """Settings of our engine."""
        return Config(
            inference="relaxed",
            codes=self.codes,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            beta_codes=self.beta_codes,
            beta_boundaries=self.beta_boundaries,
            cooldown=0.0,
            num_iterations=self.most,
            seed=seed,
        )


def main(run: Run) -> None:
    """Trains everything; writes after each seed, so that what was measured is kept if a run is stopped."""
    began = time.perf_counter()
    figures: dict[str, Any] = {"ours": [], "plain": [], "plain_milliseconds": {}}
    config = dataclasses.asdict(run) | {"out": run.out.name, "goal": GOAL, "plain_learning_rate": LEARNING_RATE}
    config["settings"] = run.config(0).settled().to_json()

    def write(num_done: int) -> None:
        wall_time = time.perf_counter() - began
        write_result(run.out, config=config, seeds=list(range(num_done)), wall_time=wall_time, figures=figures)

    for seed in range(run.num_seeds):
        for name, train in (("plain", train_plain), ("ours", train_ours)):
            figures[name].append(train(run, seed))
            print(name, seed, figures[name][-1], flush=True)
        write(seed + 1)
    for form in SLOWER_FORMS:
        figures["plain_milliseconds"][form] = time_form(run, form)
        print(form, figures["plain_milliseconds"][form], flush=True)
        write(run.num_seeds)


def train_ours(run: Run, seed: int) -> dict[str, Any]:
    """The relaxed engine."""
    began = time.perf_counter()
    config = run.config(seed)
    trainer = Trainer(config, make_source("symbols", config))
    state = [trainer.start()]
    setup = time.perf_counter() - began
    batches = (demonstrate("symbols", num_demos=run.batch_size, seed=TEST_SEED + i) for i in itertools.count())

    def step(iteration: int) -> Any:
        state[0], losses = trainer.step(state[0], iteration)
        return losses

    def accuracy() -> float:
        model, demos = trainer.models(state[0])[0], next(batches)
        return reconstruct(model.skills, demos, model.segment(demos)).accuracy

    return until_goal(run, setup, step, accuracy)


def train_plain(run: Run, seed: int, form: Form = "whole") -> dict[str, Any]:
    """The plain loop; only the first seed of a process compiles."""
    began = time.perf_counter()
    toy = PlainToy(run.codes, False, form, run.batch_size, seed)
    setup = time.perf_counter() - began
    rng = np.random.default_rng(TEST_SEED)
    return until_goal(run, setup, toy.step, lambda: toy.accuracy(draw_sequences(rng, run.batch_size, False)))


def until_goal(run: Run, setup: float, step: Callable[[int], Any], accuracy: Callable[[], float]) -> dict[str, Any]:
    """Iterations until the criterion holds, with the time they take; that of evaluations does not count."""
    times, accuracies = [], []
    for iteration in range(run.most):
        times.append(seconds_of(step, iteration))
        if (iteration + 1) % run.every == 0:
            accuracies.append(accuracy())
            if accuracies[-1] >= GOAL:
                break
    typical = statistics.median(times[1:])
    return {
        "reached": bool(accuracies and accuracies[-1] >= GOAL),
        "iterations": len(times),
        "milliseconds_an_iteration": 1e3 * typical,
        "seconds_with_compilation": setup + sum(times),
        "seconds": typical + sum(times[1:]),
        "first_iteration_seconds": times[0],
        "setup_seconds": setup,
        "accuracies": accuracies,
    }


def seconds_of(step: Callable[[int], Any], iteration: int) -> float:
    """Time of one iteration, waited for."""
    began = time.perf_counter()
    jax.block_until_ready(step(iteration))
    return time.perf_counter() - began


def time_form(run: Run, form: Form) -> dict[str, float]:
    """Milliseconds of an iteration of the plain loop, and of its first one."""
    toy = PlainToy(run.codes, False, form, run.batch_size, 0)
    first, *others = (1e3 * seconds_of(toy.step, iteration) for iteration in range(run.num_timed + 1))
    return {"first": first, "typical": statistics.median(others)}


if __name__ == "__main__":
    main(tyro.cli(Run))
