"""Scores classic methods of segmentation, without networks, on the same levels as all other models.

Equal lengths, change points (ruptures, two kinds) and a hidden Markov model (hmmlearn). Inputs (states, actions or
both) and the model's number of states are chosen on validation levels; each seed then fits the method to other
demonstrations. The number of segments is given to all. Needs the extra `baselines`, and no accelerator.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

from compile_il.baselines import Baseline, ChangePoints, EqualCuts, HiddenMarkov, best_on, evaluate_cuts, views_for
from compile_il.baselines.base import import_baseline_library
from compile_il.config import TEST_SEED, VALIDATION_SEED, Config
from compile_il.data import Demonstrations
from compile_il.data.files import write_atomically
from compile_il.evaluation.evaluate import true_counts
from compile_il.model.model import Model
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper.parts import SMOKE_SIZES, SMOKE_TEST, Part, Say, Scale, hash_of

NUM_VALIDATION = 256
Method = Literal["equal lengths", "change points", "change points, kernel", "hidden Markov model"]


def check_libraries() -> None:
    """Raises an error if a library that these methods need is missing."""
    for name in ("ruptures", "hmmlearn.hmm", "threadpoolctl", "sklearn.cluster"):
        import_baseline_library(name)


@dataclasses.dataclass(frozen=True)
class ClassicPart(Part):
    """One classic method in one world; of the part's config only the number of seeds counts."""

    method: Method = "equal lengths"
    num_train: int = 1000
    """Number of demonstrations, of three tasks, that the method is fitted to."""
    num_restarts: int = 5
    """Number of trainings of the hidden Markov model, of which the most likely is kept."""
    num_states: tuple[int, ...] = (10, 32)
    """Numbers of states of the hidden Markov model, to choose from: as many as CompILE has skills, and more, since a
    skill that is more than one constant state needs several."""

    def to_json(self) -> dict[str, Any]:
        """Leaves out the config, but for its number of seeds."""
        plain = super().to_json() | {"num_states": list(self.num_states), "num_seeds": self.config.num_seeds}
        return {name: value for name, value in plain.items() if name != "config"}

    @property
    def needs_models(self) -> bool:
        """False: there are no models to be trained before."""
        return False

    def at_scale(self, scale: Scale) -> Self:
        """Returns the same part, for smoke with few demonstrations."""
        if scale != "smoke":
            return self
        few: dict[str, Any] = {"num_train": SMOKE_TEST, "num_test": SMOKE_TEST, "num_restarts": 1, "num_states": (2,)}
        return dataclasses.replace(self, config=Config(num_seeds=SMOKE_SIZES["num_seeds"]), **few)

    def candidates(self, demos: Demonstrations) -> list[Baseline]:
        """Returns the settings of the method to choose from."""
        views = views_for(demos)
        settings: dict[Method, list[Baseline]] = {
            "equal lengths": [EqualCuts()],
            "change points": [ChangePoints("dynp", view) for view in views],
            "change points, kernel": [ChangePoints("kernel", view) for view in views],
            "hidden Markov model": [
                HiddenMarkov(number, self.num_restarts, view=view) for number in self.num_states for view in views
            ],
        }
        return settings[self.method]

    def measure(self, models: list[Model], folder: Path, say: Say) -> dict[str, Any]:
        """Returns the settings that are best on validation levels, and their scores with each seed's training set.

        Scores of each fit are kept in the folder, so that an interrupted run does not repeat it.
        """
        kept = folder / f"fits-{hash_of(self.to_json())}"
        validation = demonstrate(self.world, num_demos=min(NUM_VALIDATION, self.num_test), seed=VALIDATION_SEED)
        first = demonstrate(self.world, num_demos=self.num_train, seed=0)
        settings = self.candidates(first)

        def f1(one: Baseline) -> float:
            return best_on([one], first, validation).f1

        qualities = [keep(kept / f"choice-{number}.json", f1, one) for number, one in enumerate(settings)]
        chosen = settings[qualities.index(max(qualities))]
        say(f"{self.name}: {chosen}")
        tests = {
            str(tasks): demonstrate(self.world, num_demos=self.num_test, num_tasks=tasks, seed=TEST_SEED)
            for tasks in self.test_tasks
        }

        def score(seed: int) -> dict[str, Any]:
            fitted = chosen.fit(demonstrate(self.world, num_demos=self.num_train, seed=seed))
            cuts = {tasks: fitted.segment(demos, true_counts(demos)) for tasks, demos in tests.items()}
            return {tasks: evaluate_cuts(cuts[tasks], demos)._asdict() for tasks, demos in tests.items()}

        seeds = [keep(kept / f"seed-{seed}.json", score, seed) for seed in range(self.num_seeds)]
        return {"chosen": str(chosen), "scores": {tasks: [seed[tasks] for seed in seeds] for tasks in tests}}


def keep(path: Path, make: Callable[[Any], Any], of: Any) -> Any:
    """Returns the value in a JSON file; where none can be read, makes and writes it."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return json.loads(path.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    made = make(of)
    with write_atomically(path) as temporary:
        temporary.write_text(json.dumps(made))
    return made
