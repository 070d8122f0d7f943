"""Each variant of the paper's model on the official code's toy: both kinds of codes, readouts, priors and temperatures.

    python -m experiments.ablations.variants --out results/variants-cpu.json

That they learn is what this shows; how they compare at the paper's sizes, the toy cannot tell.
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from compile_il.config import TEST_SEED, Config, Decoder
from compile_il.evaluation.evaluate import evaluate
from compile_il.evaluation.results import Measurement
from compile_il.model.model import Model
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer, train_all

WORLD = "symbols"
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "attentive readout": {"readout": "attentive"},
    "prior on lengths": {"boundary_term": "lengths"},
    "temperature from 1 to 0.1": {"final_temperature": 0.1},
    "Gaussian codes": {"codes": "gaussian"},
    "Gaussian codes, attentive readout": {"codes": "gaussian", "readout": "attentive"},
    "Gaussian codes, prior on lengths": {"codes": "gaussian", "boundary_term": "lengths"},
}


@dataclasses.dataclass(frozen=True)
class Run:
    """Train variants of the paper's model on the toy."""

    out: Path
    """Result file."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Names of variants."""
    num_demos: int = 1024
    """Number of unseen demonstrations that models are scored on."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=lambda: Config(inference="relaxed", num_segments=3, num_iterations=500, num_seeds=5)
    )
    """Settings that all variants share."""


def main(run: Run) -> None:
    """Trains and scores all variants, and writes the result file."""
    measurement = Measurement()
    figures = {}
    for name in run.variants:
        config = dataclasses.replace(run.config, **VARIANTS[name])
        models = train_all(Trainer(config, make_source(WORLD, config)))
        figures[name] = [score(model, run.num_demos) for model in models]
        print(name, *(f"{100 * seed['recognition']['boundary_accuracy']:.1f}" for seed in figures[name]), flush=True)
    measurement.write(
        run.out,
        config={"world": WORLD, "test_seed": TEST_SEED, "num_demos": run.num_demos, **run.config.resolved().to_json()},
        seeds=range(run.config.num_seeds),
        figures=figures,
    )


def score(model: Model, num_demos: int) -> dict[Decoder, dict[str, Any]]:
    """Returns the scores of one model by each decoder that it has."""
    decoders: list[Decoder] = ["recognition"] if model.config.codes == "gaussian" else ["recognition", "exact"]
    return {
        decoder: evaluate(model, WORLD, num_tasks=3, num_demos=num_demos, decoder=decoder)._asdict()
        for decoder in decoders
    }


if __name__ == "__main__":
    main(tyro.cli(Run))
