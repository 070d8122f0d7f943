"""Trains variants of the paper's model on the official code's toy: codes, readouts, priors and temperatures.

    python -m experiments.ablations.variants --out results/variants-cpu.json

That they learn is what this shows; how they compare at the paper's sizes, the toy cannot tell.
"""

import dataclasses
from typing import Annotated, Any

import tyro

from compile_il.config import TEST_SEED, Config, Decoder
from compile_il.evaluation.evaluate import evaluate
from experiments.ablations import runner

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
class Run(runner.Run):
    """Train variants of the paper's model on the toy."""

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
    about = {"world": WORLD, "test_seed": TEST_SEED, "num_demos": run.num_demos, **run.config.resolved().to_json()}
    results = runner.Results(run.out, about, range(run.config.num_seeds))
    figures: dict[str, Any] = {}
    for name in run.variants:
        config = dataclasses.replace(run.config, **VARIANTS[name])
        decoders: list[Decoder] = ["recognition"] if config.codes == "gaussian" else ["recognition", "exact"]
        levels: dict[str, Any] = {"num_tasks": 3, "num_demos": run.num_demos}
        figures[name] = [
            {decoder: evaluate(model, WORLD, decoder=decoder, **levels)._asdict() for decoder in decoders}
            for model in runner.train(WORLD, config)
        ]
        results.write(figures, name, runner.means([seed["recognition"] for seed in figures[name]]))


if __name__ == "__main__":
    main(tyro.cli(Run))
