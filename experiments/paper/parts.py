"""Trains and measures one part of a study: one method in one world, several seeds at once, resumed where it stopped."""

import contextlib
import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

import jax

from compile_il.baselines import SurprisalCuts, evaluate_cuts, without_end
from compile_il.config import TEST_SEED, Config
from compile_il.data.files import write_atomically
from compile_il.data.segment_counts import CountWarning
from compile_il.evaluation.evaluate import Evaluation, evaluate, true_counts
from compile_il.evaluation.results import UNKNOWN_COMMIT, commit, hardware
from compile_il.model.model import DivergedError, Model
from compile_il.training.checkpoints import Checkpoints
from compile_il.training.loop import StopRequest, TrainingLoop
from compile_il.training.runs import RunOutputs
from compile_il.training.sources import make_source, training_world
from compile_il.training.trainer import Trainer
from compile_il.worlds import make_world
from compile_il.worlds.demonstrate import demonstrate

Scale = Literal["smoke", "short", "paper"]
"""How long to train: two steps of tiny networks; minutes on one accelerator; the paper's iterations."""
PAPER_SIZES: dict[str, Any] = {"batch_size": 256, "hidden_dim": 256, "num_maps": 64, "num_seeds": 5}
SMOKE_SIZES: dict[str, Any] = {"batch_size": 8, "hidden_dim": 16, "num_maps": 4, "num_seeds": 2, "num_iterations": 2}
SMOKE_TEST = 16
"""Number of demonstrations that smoke is scored on; classic methods are fitted to as many."""
TRAINING: dict[Scale, dict[str, dict[str, Any]]] = {
    "smoke": {},
    "short": {
        "relaxed grid": {"num_iterations": 7_000, "learning_rate": 5e-4, "cooldown": 0.3},
        "relaxed reacher": {"num_iterations": 5_000, "learning_rate": 1e-3, "cooldown": 0.3},
        "exact grid": {"num_iterations": 8_000},
        "exact reacher": {"num_iterations": 2_000},
    },
    "paper": {
        "relaxed grid": {"num_iterations": 50_000},
        "relaxed reacher": {"num_iterations": 500_000},
        "exact grid": {"num_iterations": 20_000},
        "exact reacher": {"num_iterations": 20_000},
    },
}
"""Training settings by scale, then by engine and world. The paper's model takes 50,000 steps, and 500,000 for the
reacher, at a small constant rate; short trainings have a larger one that falls in the end (docs/decisions.md, "Short
trainings")."""
TRAINING_TASKS = 3
"""Number of tasks in each demonstration that models are trained on."""
SAY_SECONDS = 10.0
"""Seconds between two lines about a training."""
RESULT_FILE, COMMITS_FILE = "part.json", "commits.txt"

Say = Callable[[str], None]
"""Function that prints a line about the progress of a part."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Models of one kind in one world, one for each seed, to be trained and measured."""

    name: str
    world: str
    config: Config
    test_tasks: tuple[int, ...] = (3, 5)
    """Numbers of tasks that the models are scored on, each with demonstrations of its own."""
    num_test: int = 1024
    """Number of test demonstrations for each number of tasks."""
    as_trained: bool = False
    """Whether to find as many segments as in training, right or wrong, instead of as many as there are."""
    surprisal: bool = False
    """Whether to cut at actions that surprise a recurrent policy, the paper's baseline LSTM surprisal."""
    unending: bool = False
    """Whether skills run until the episode ends, as the paper runs its baseline of one segment."""

    def to_json(self) -> dict[str, Any]:
        """Returns the part as plain values for JSON, its settings resolved, with the seed of its test levels."""
        about = {
            "config": self.config.resolved().to_json(),
            "test_tasks": list(self.test_tasks),
            "test_seed": TEST_SEED,
        }
        return dataclasses.asdict(self) | about

    @property
    def needs_models(self) -> bool:
        """Whether models have to be trained before the part can be measured."""
        return True

    @property
    def num_seeds(self) -> int:
        """Number of models, or agents, that there are scores of."""
        return self.config.num_seeds

    @property
    def training_hash(self) -> str:
        """Short hash of world and settings; parts with equal hashes share checkpoints, and differ in scoring alone."""
        return hash_of({"world": self.world, "config": self.config.resolved().to_json()})

    def at_scale(self, scale: Scale) -> Self:
        """Returns the same part with the scale's sizes and training."""
        if scale == "smoke":
            config = dataclasses.replace(self.config, **SMOKE_SIZES)
            return dataclasses.replace(self, config=config, num_test=SMOKE_TEST)
        engine = "relaxed" if self.surprisal else self.config.inference  # a baseline is trained as the paper's model
        training = TRAINING[scale][f"{engine} {'grid' if self.world.startswith('grid') else 'reacher'}"]
        config = dataclasses.replace(self.config, **PAPER_SIZES, **training, half_precision=True)
        return dataclasses.replace(self, config=config)

    def measure(self, models: list[Model], folder: Path, say: Say) -> dict[str, Any]:
        """Scores the models of all seeds by number of tasks, as plain values; each None where training diverged.

        The folder is for files that an interrupted measurement continues from.
        """
        scores: dict[str, list[dict[str, Any]]] = {}
        for tasks in self.test_tasks:
            rows = scores[str(tasks)] = []
            for seed, model in enumerate(models):
                try:
                    rows.append(self.score(model, tasks))
                except DivergedError:
                    rows.append(dict.fromkeys(Evaluation._fields))
                    say(f"{self.name}: seed {seed} diverged, and has no scores")
            say(f"{self.name}: scored on {tasks} tasks")
        return {"scores": scores}

    def score(self, model: Model, tasks: int) -> dict[str, Any]:
        """Returns all scores of one model on unseen levels of one number of tasks."""
        if self.surprisal:
            demos = demonstrate(make_world(self.world, num_tasks=tasks), num_demos=self.num_test, seed=TEST_SEED)
            return evaluate_cuts(SurprisalCuts(model).segment(demos, true_counts(demos)), demos)._asdict()
        model = without_end(model) if self.unending else model
        count: Any = None if self.as_trained else "unknown" if model.resolved.num_segments is None else "true"
        with warnings.catch_warnings(action="ignore", category=CountWarning):  # table 3 asks for few on purpose
            return evaluate(model, self.world, num_tasks=tasks, num_demos=self.num_test, count=count)._asdict()


def hash_of(what: dict[str, Any]) -> str:
    """Returns a short hash of plain values, 12 hexadecimal digits."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


def run_part(part: Part, folder: Path, say: Say, *, trained: Path | None = None) -> dict[str, Any]:
    """Reads the result of a part that is done; else trains from the last checkpoint on, measures and writes the result.

    The result is in `folder`; checkpoints are in `trained`, which parts with equal training share.
    """
    version = commit()  # before anything is run: the files may change meanwhile
    if (done := read_done(folder, part)) is not None:
        other = "" if done["commit"] == version else f", by another version of the program ({done['commit']})"
        say(f"{part.name}: done before{other}")
        return done
    folder.mkdir(parents=True, exist_ok=True)
    about = {"part": part.to_json(), "commit": version, "hardware": hardware(), "training_seconds": 0.0}
    models, training = train(part, trained or folder, say) if part.needs_models else ([], {})
    done = about | training | part.measure(models, folder, say)
    with write_atomically(folder / RESULT_FILE) as temporary:
        temporary.write_text(json.dumps(done, indent=2) + "\n")
    return done


def read_done(folder: Path, part: Part) -> dict[str, Any] | None:
    """Returns the result of the same part with the same settings; None if the folder holds none that can be read."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        done: dict[str, Any] = json.loads((folder / RESULT_FILE).read_text())
        if done.keys() >= {"part", "commit", "hardware"} and done["part"] == part.to_json():
            return done
    return None


def train(part: Part, trained: Path, say: Say) -> tuple[list[Model], dict[str, Any]]:
    """Returns the models of all seeds, trained from the last checkpoint on, with time and commits of their training.

    Ctrl-C saves a checkpoint and stops.
    """
    # Three tasks, whatever the number of segments: a world that is only named would have as many tasks as segments.
    trainer = Trainer(part.config, make_source(training_world(part.world, TRAINING_TASKS), part.config))
    folder, total = trained / part.training_hash, part.config.num_iterations
    said = time.monotonic()

    def report(_: object) -> None:
        nonlocal said
        if run.iteration == total or time.monotonic() - said > SAY_SECONDS:
            jax.block_until_ready(run.state)
            run.update_seconds()
            said = time.monotonic()
            say(f"{part.name}: {run.iteration} of {total} iterations")

    with StopRequest() as request:
        checkpoints = Checkpoints(folder)
        last = checkpoints.latest(trainer.start())
        if last.iteration:
            say(f"{part.name}: resumes after {last.iteration} of {total} iterations")
        commits = _sign(folder, begun=last.iteration > 0, done=last.iteration == total)
        state, outputs = trainer.place(last.state), RunOutputs(checkpoints)
        run = TrainingLoop(state, last.iteration, last.seconds, request, outputs)
        models = run.train(total, trainer.step, report, trainer.models)
    all_commits = ", ".join(dict.fromkeys([*commits, commit()]))  # this one scores, whoever trained
    return models, {"training_seconds": round(run.seconds, 2), "commit": all_commits}


def _sign(folder: Path, *, begun: bool, done: bool) -> list[str]:
    """Returns the commits that trained the checkpoints of a folder; adds this one to the record."""
    path = folder / COMMITS_FILE
    commits = (path.read_text().split() if path.exists() else [UNKNOWN_COMMIT]) if begun else []
    if not done and commit() not in commits:
        commits.append(commit())
        with write_atomically(path) as temporary:
            temporary.write_text("\n".join(commits))
    return commits
