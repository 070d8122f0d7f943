"""Ways to segment that are older than networks, on the same levels and with the same scores as everything else.

Equal lengths, change points (ruptures, two kinds) and a hidden Markov model (hmmlearn). What each looks at, states,
actions or both, and the model's number of states are chosen on validation levels; each seed then fits it to other
demonstrations. All are told how many segments there are. Needs the extra `baselines`.

hmmlearn's small matrices are slower with several threads of BLAS than with one: set OMP_NUM_THREADS=1.

python -m compile_il.experiments.classic --out results/classic.json
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import tyro

from compile_il.baselines import Baseline, ChangePoints, EqualCuts, HiddenMarkov, best_on, views_for
from compile_il.demos import Demonstrations
from compile_il.evaluate import TEST_SEED, VALIDATION_SEED, evaluate_cuts, true_counts
from compile_il.generate import demonstrate
from compile_il.results import write_result

NUM_VALIDATION = 256


@dataclasses.dataclass(frozen=True)
class Run:
    """All methods in some worlds."""

    out: Path
    """Result file."""
    worlds: tuple[str, ...] = ("grid-pickup", "grid-visit", "reacher")
    """Names of the worlds."""
    test_tasks: tuple[int, ...] = (3, 5)
    """Tasks of the demonstrations that all are scored on."""
    num_train: int = 1000
    """Demonstrations, of three tasks, that methods are fitted to."""
    num_test: int = 1024
    """Demonstrations for each number of tasks."""
    num_seeds: int = 5
    """Times that each is fitted to other demonstrations."""
    num_restarts: int = 5
    """Of the hidden Markov model."""
    num_states: tuple[int, ...] = (10, 32)
    """Of the hidden Markov model, to choose from: as many as CompILE has skills, and more, since a skill that is more
    than one constant state needs several."""


def candidates(run: Run, demos: Demonstrations) -> dict[str, list[Baseline]]:
    """Settings of each method to choose from."""
    views = views_for(demos)
    return {
        "equal lengths": [EqualCuts()],
        "change points": [ChangePoints("dynp", view) for view in views],
        "change points, kernel": [ChangePoints("kernel", view) for view in views],
        "hidden Markov model": [
            HiddenMarkov(num_states, run.num_restarts, view=view) for num_states in run.num_states for view in views
        ],
    }


def main(run: Run) -> None:
    """Chooses, fits and scores; writes after each method."""
    began = time.perf_counter()
    config = dataclasses.asdict(run) | {"out": run.out.name, "test_seed": TEST_SEED}
    figures: dict[str, Any] = {}
    for world in run.worlds:
        trains = [demonstrate(world, num_demos=run.num_train, seed=seed) for seed in range(run.num_seeds)]
        validation = demonstrate(world, num_demos=min(NUM_VALIDATION, run.num_test), seed=VALIDATION_SEED)
        tests = {
            tasks: demonstrate(world, num_demos=run.num_test, num_tasks=tasks, seed=TEST_SEED)
            for tasks in run.test_tasks
        }
        figures[world] = {}
        for name, settings in candidates(run, trains[0]).items():
            figures[world][name] = score_method(settings, trains, validation, tests)
            print(world, name, figures[world][name]["chosen"], flush=True)
            seeds = list(range(run.num_seeds))
            write_result(run.out, config=config, seeds=seeds, wall_time=time.perf_counter() - began, figures=figures)


def score_method(
    settings: list[Baseline], trains: list[Demonstrations], validation: Demonstrations, tests: dict[int, Demonstrations]
) -> dict[str, Any]:
    """The settings that are best on validation levels, and their scores with each training set."""
    began = time.perf_counter()
    chosen = best_on(settings, trains[0], validation).baseline
    scores: dict[str, list[Any]] = {str(tasks): [] for tasks in tests}
    for train in trains:
        fitted = chosen.fit(train)
        for tasks, demos in tests.items():
            cuts = fitted.segment(demos, true_counts(demos))
            scores[str(tasks)].append(evaluate_cuts(cuts, demos)._asdict())
    return {"chosen": str(chosen), "wall_time": round(time.perf_counter() - began, 2), "scores": scores}


if __name__ == "__main__":
    main(tyro.cli(Run))
