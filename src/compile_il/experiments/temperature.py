"""Low temperatures on the reacher: how much of the distance to the paper's table 3 is due to how steps are taken.

    python -m compile_il.experiments.temperature --temperature 0.1 --out results/temperature-0.1.json

Where samples are nearly discrete, a gradient is mostly small and now and then very large. Adam divides by an average of
squares, which one such gradient fills for a thousand steps: a fifth of a short training, a five-hundredth of the
paper's. So rates are varied, and the norm beyond which gradients are cut down. All variants are trained at once in one
program, each with seeds of its own, and scored on the levels for choosing: as their recognition models segment, and as
their policies do when all segmentations are summed over, which tells what each of the two has learned.
"""

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jaxtyping import Array, Float

from compile_il.config import Config
from compile_il.decoders import Decoder
from compile_il.evaluate import VALIDATION_SEED, evaluate
from compile_il.reproduce.parts import TRAINING_TASKS
from compile_il.reproduce.studies import PAPER_SIZES, TRAINING, relaxed
from compile_il.results import write_result
from compile_il.sources import make_source, training_world
from compile_il.train import Trained, Trainer, learning_rates

WORLD = "reacher"
SHORT = {**PAPER_SIZES, **TRAINING["short"]["relaxed reacher"], "half_precision": True, "temperature": 0.1}
QUANTILES = (0.1, 0.5, 0.9, 0.99, 1.0)


@dataclasses.dataclass(frozen=True)
class Run:
    """Several ways to take steps."""

    out: Path
    """Result file."""
    variants: tuple[tuple[float, float], ...] = ((1e-3, np.inf), (3e-4, np.inf), (1e-3, 100.0), (3e-4, 100.0))
    """Learning rates, each with the largest norm of a gradient."""
    repeats: int = 3
    """Seeds of each variant."""
    num_levels: int = 1024
    """That models are scored on."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=lambda: dataclasses.replace(relaxed(WORLD), **SHORT)
    )
    """Of all; the learning rate and the number of seeds are those of the variants."""

    @property
    def settings(self) -> Config:
        """A seed for each repeat of each variant; rates are factors of 1."""
        return dataclasses.replace(self.config, num_seeds=len(self.variants) * self.repeats, learning_rate=1.0)


class OwnSteps(NamedTuple):
    """What an optimiser of one seed is told, and the norm that it saw last."""

    rate: Float[Array, ""]
    largest: Float[Array, ""]
    norm: Float[Array, ""]
    adam: Any


def own_steps(adam: optax.GradientTransformation) -> optax.GradientTransformation:
    """Adam with a rate and a largest norm that are part of its state, so that those of seeds can differ."""

    def begin(params: Any) -> OwnSteps:
        return OwnSteps(jnp.ones(()), jnp.full((), jnp.inf), jnp.zeros(()), adam.init(params))

    def update(gradient: Any, state: OwnSteps, params: Any = None) -> tuple[Any, OwnSteps]:
        norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        shrunk = jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, state.largest / norm), gradient)
        steps, inner = adam.update(shrunk, state.adam, params)
        return jax.tree.map(lambda leaf: leaf * state.rate, steps), OwnSteps(state.rate, state.largest, norm, inner)

    return optax.GradientTransformation(begin, update)


def main(run: Run) -> None:
    """Trains, scores and writes."""
    began = time.perf_counter()
    trainer = Trainer(run.settings, make_source(training_world(WORLD, TRAINING_TASKS), run.settings))
    trainer.optimiser = own_steps(optax.adam(learning_rates(run.settings)))
    state, norms = train(trainer, run)
    seconds = time.perf_counter() - began
    figures = []
    for number, (rate, largest) in enumerate(run.variants):
        mine = slice(number * run.repeats, (number + 1) * run.repeats)
        models = trainer.models(state)[mine]
        levels: dict[str, Any] = {
            "num_tasks": TRAINING_TASKS,
            "num_demos": run.num_levels,
            "seed": VALIDATION_SEED,
        }
        decoders: tuple[Decoder, Decoder] = ("recognition", "exact")
        scores, summed = (
            [evaluate(model, WORLD, decoder=decoder, **levels)._asdict() for model in models] for decoder in decoders
        )
        seen = dict(zip(map(str, QUANTILES), np.quantile(norms[:, mine], QUANTILES).tolist(), strict=True))
        about = {"rate": rate, "largest": None if np.isinf(largest) else largest, "norms": seen}
        figures.append(about | {"scores": scores, "exact": summed})
        print(rate, largest, [round(row["boundary_accuracy"], 3) for row in scores], seen, flush=True)
    write_result(
        run.out,
        config=run.settings.settled().to_json(),
        seeds=list(range(run.settings.num_seeds)),
        wall_time=time.perf_counter() - began,
        figures={"training_seconds": seconds, "variants": figures},
    )


def train(trainer: Trainer, run: Run) -> tuple[Trained, np.ndarray]:
    """The last state, and the norms of all gradients, one row an iteration."""
    state = trainer.start()
    rates, largest = (jnp.repeat(jnp.array(values), run.repeats) for values in zip(*run.variants, strict=True))
    state = state._replace(optimiser=state.optimiser._replace(rate=rates, largest=largest))
    norms = []
    for iteration in range(run.settings.num_iterations):
        state, _ = trainer.step(state, iteration)
        norms.append(jnp.copy(state.optimiser.norm))
        if (iteration + 1) % 500 == 0:
            print(iteration + 1, np.round(np.median(np.stack(norms[-500:]), axis=0), 1), flush=True)
    return state, np.stack(norms)


if __name__ == "__main__":
    main(tyro.cli(Run))
