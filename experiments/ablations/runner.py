"""Trains models of several seeds for ablations, and writes result files."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from compile_il.config import Config
from compile_il.data import Demonstrations
from compile_il.evaluation.results import Measurement
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
    """Result file of a run, written again whenever there is more in it, so that a run that is stopped keeps it."""

    def __init__(self, out: Path, config: dict[str, Any], seeds: Iterable[int]):
        self.out, self.config, self.seeds, self.measurement = out, config, seeds, Measurement()

    def write(self, figures: Any, about: str, shown: Any) -> None:
        """Writes all figures so far, and prints some of the last ones."""
        self.measurement.write(self.out, config=self.config, seeds=self.seeds, figures=figures)
        print(about, shown, flush=True)


def train(data: Demonstrations | str | World, config: Config) -> list[Model]:
    """Returns the model of each seed, trained on demonstrations or on fresh ones of a world; `fit` keeps the best."""
    trainer = Trainer(config, make_source(data, config))
    state = trainer.start()
    for iteration in range(config.num_iterations):
        state, _ = trainer.step(state, iteration)
    return trainer.models(state)


def means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Returns rounded means over seeds of all scores that exist."""
    return {
        name: round(float(np.mean([row[name] for row in rows])), 4)
        for name, value in rows[0].items()
        if value is not None
    }
