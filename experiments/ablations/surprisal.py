"""Measures what LSTM surprisal owes to the least spread of actions that it may learn, on the reacher.

    python -m experiments.ablations.surprisal --out results/surprisal-cpu.json

The paper's baseline hits 24.8 % of the reacher's boundaries, ours 87. A large floor on the spread makes the log-density
of an action all but a squared error, and hides how sure the model is; the paper does not say what its spread is.

Small models hit 98 % with a floor of 1 and with a spread that is learned. Floors of 0.05 and 0.25 are one and the same
training, since what is learned stays above both: they say nothing of each other.
"""

import dataclasses
from typing import Annotated, Any

import tyro

from compile_il.baselines import SurprisalCuts, evaluate_cuts, surprisal_settings
from compile_il.config import VALIDATION_SEED, Config
from compile_il.training.sources import training_world
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

TASKS = 3
SMALL = Config(num_iterations=2000, batch_size=64, hidden_dim=64, policy_layers=2, num_seeds=3)


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train LSTM surprisal with several floors on the spread of actions."""

    floors: tuple[float, ...] = (0.05, 0.25, 1.0)
    """Floors, the least spreads of actions, in standard deviations of the data's actions."""
    num_levels: int = 512
    """Number of levels that models are scored on."""
    config: Annotated[Config, tyro.conf.arg(name="")] = SMALL


def main(run: Run) -> None:
    """Trains and scores all models, and writes the result file."""
    demos = demonstrate("reacher", num_demos=run.num_levels, num_tasks=TASKS, seed=VALIDATION_SEED)
    shared, figures = surprisal_settings(run.config), list[dict[str, Any]]()
    results = runner.Results(run.out, shared.to_json(), range(run.config.num_seeds))
    for floor in run.floors:
        models = runner.train(training_world("reacher", TASKS), dataclasses.replace(shared, sigma_floor=floor))
        scores = [evaluate_cuts(SurprisalCuts(model).segment(demos, TASKS), demos)._asdict() for model in models]
        figures.append({"floor": floor, "scores": scores})
        results.write({"floors": figures}, str(floor), runner.means(scores))


if __name__ == "__main__":
    main(tyro.cli(Run))
