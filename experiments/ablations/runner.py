"""Trains models of several seeds for ablations, looks at them on the way, and writes a result file."""

import dataclasses
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from compile_il.config import Config
from compile_il.data import Demonstrations
from compile_il.evaluation.results import Measurement
from compile_il.inference.records import Loss
from compile_il.model.model import Model
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from compile_il.worlds import World


@dataclasses.dataclass(frozen=True)
class Run:
    """Run of an ablation, whose settings are those of the command line."""

    out: Path
    """Result file."""

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as plain values for the result file."""
        return dataclasses.asdict(self) | {"out": self.out.name}


class Results:
    """The result file of a run, written again whenever there is more in it: what takes long may not be waited for."""

    def __init__(self, out: Path, config: dict[str, Any], seeds: Iterable[int]):
        self.out, self.config, self.seeds, self.measurement = out, config, seeds, Measurement()

    def write(self, figures: Any, about: str, shown: Any) -> None:
        """Writes all figures so far, and prints some of the last ones."""
        self.measurement.write(self.out, config=self.config, seeds=self.seeds, figures=figures)
        print(about, shown, flush=True)


def train(data: Demonstrations | str | World, config: Config) -> list[Model]:
    """Returns the model of each seed, trained on demonstrations, or on fresh ones of a world."""
    return train_all(Trainer(config, make_source(data, config)))


def train_all(trainer: Trainer) -> list[Model]:
    """Trains all iterations and returns the model of each seed, of which `compile_il.fit` keeps the best."""
    state = trainer.start()
    for iteration in range(trainer.config.num_iterations):
        state, _ = trainer.step(state, iteration)
    return trainer.models(state)


class Check(NamedTuple):
    """A training after some of its iterations."""

    iteration: int
    seconds: float
    """Seconds of training, compilation included and what is done with earlier checks left out."""
    loss: Loss
    models: list[Model]
    """The model of each seed."""


def train_with_checks(data: Demonstrations | str | World, config: Config, marks: Iterable[int]) -> Iterator[Check]:
    """Trains, and yields the models after each of these numbers of iterations, which rise."""
    trainer = Trainer(config, make_source(data, config))
    state, iteration, seconds = trainer.start(), 0, 0.0
    for mark in marks:
        since = time.perf_counter()
        while iteration < mark:
            state, loss = trainer.step(state, iteration)
            iteration += 1
        jax.block_until_ready(loss)
        seconds += time.perf_counter() - since
        yield Check(iteration, seconds, loss, trainer.models(state))


def means(rows: list[dict[str, Any]], names: Iterable[str] = ()) -> dict[str, float]:
    """Returns rounded means over seeds of some scores, or of all that are known."""
    known = [name for name in names or rows[0] if rows[0][name] is not None]
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in known}
