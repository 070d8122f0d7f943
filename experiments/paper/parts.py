"""A part of a study: one method in one world, several seeds at once, trained and measured; it can be interrupted.

Records of how long each part had the machine: of the time in which several run at once, each has its share.

Time is written down as it passes, so that a process that is killed takes no more than a moment of it along.

Records of which versions of the program trained a folder's checkpoints: those that score may be others.
"""

import contextlib
import dataclasses
import hashlib
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax

from compile_il.baselines import SurprisalCuts, evaluate_cuts, without_end
from compile_il.config import TEST_SEED, Config
from compile_il.data.files import write_atomically
from compile_il.data.segment_counts import CountWarning
from compile_il.evaluation.evaluate import Evaluation, evaluate, true_counts
from compile_il.evaluation.results import commit, hardware
from compile_il.inference.segmenter import DivergedError
from compile_il.model.model import Model
from compile_il.training.checkpoints import Checkpoints
from compile_il.training.loop import Stopped, StopRequest, TrainingLoop
from compile_il.training.runs import RunOutputs
from compile_il.training.sources import make_source, training_world
from compile_il.training.trainer import Trainer
from compile_il.worlds import make_world
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper.names import PAPER_SIZES, SMOKE_SIZES, SMOKE_TEST, TRAINING, Scale

VERSIONS_FILE = "commits.json"


UNKNOWN_VERSION = "unknown"
"""Name in place of the commit of versions that did not write down that they had trained."""


def commits_of(folder: Path) -> list[str]:
    """Returns the commits that trained the checkpoints in a folder, the first one first; "unknown" without a record."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / VERSIONS_FILE).read_text())
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return found
    return [UNKNOWN_VERSION]


def sign(folder: Path, earlier: list[str]) -> list[str]:
    """Records this version beside earlier ones, and returns all; to be called before what it has trained is kept."""
    commits = list(dict.fromkeys([*earlier, commit()]))
    if commits != earlier:
        with write_atomically(folder / VERSIONS_FILE) as temporary:
            temporary.write_text(json.dumps(commits) + "\n")
    return commits


def all_commits(part: dict[str, Any]) -> list[str]:
    """Returns the commits in a part's result: those that trained it, if others did, then the one that scored it."""
    return [*part.get("trained_by", []), part["commit"]]


TELL_SECONDS = 10.0


DONE = "part.json"


TRAINING_TASKS = 3
"""Number of tasks in each demonstration that models are trained on."""


Say = Callable[[str], None]


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
    """Whether to cut where actions surprise a policy with a memory, the paper's baseline LSTM surprisal."""
    unending: bool = False
    """Whether skills run until the episode ends, as the paper runs its baseline of one segment."""

    def to_json(self) -> dict[str, Any]:
        """Returns the part as plain values for JSON, its settings settled, with the seed of its test levels."""
        plain = {"config": trained_with(self.config), "test_tasks": list(self.test_tasks), "test_seed": TEST_SEED}
        return dataclasses.asdict(self) | plain

    @property
    def needs_models(self) -> bool:
        """Whether models have to be trained before the part can be measured."""
        return True

    @property
    def num_seeds(self) -> int:
        """Number of models, or agents, that there are scores of."""
        return self.config.num_seeds

    def check_libraries(self) -> None:
        """Raises an error if a library is missing that only parts of this kind need; here there is none."""

    def at_scale(self, scale: Scale) -> Self:
        """Returns the same part with the scale's sizes and training."""
        if scale == "smoke":
            return dataclasses.replace(
                self, config=dataclasses.replace(self.config, **SMOKE_SIZES), num_test=SMOKE_TEST
            )
        where = "grid" if self.world.startswith("grid") else "reacher"
        # A baseline is trained as long as the paper's model.
        engine = "relaxed" if self.surprisal else self.config.inference
        chosen = TRAINING[scale][f"{engine} {where}"]
        config = dataclasses.replace(self.config, **PAPER_SIZES, **chosen, half_precision=True)
        return dataclasses.replace(self, config=config)

    def measure(self, models: list[Model], folder: Path, say: Say) -> dict[str, Any]:
        """Measures trained models, and returns what was found as plain values for a result file.

        Args:
          models: one for each seed; empty if the part needs none.
          folder: the part's own, for what it may have to keep on its way.
          say: function that is told in words how far the part is.
        """
        del folder
        return score_models(self, models, say)

    @property
    def training_hash(self) -> str:
        """Short hash of world and settings; parts with equal hashes share checkpoints, and differ in scoring alone."""
        return hash_of({"world": self.world, "config": trained_with(self.config)})


def trained_with(config: Config) -> dict[str, Any]:
    """Returns what settings come to in a world, as result files and names of folders have had it from the first.

    They say of each model, too, that no labels told it the number of segments.
    """
    return config.resolved().to_json() | {"counts_told": False}


class TrainedPart(NamedTuple):
    """Models of a part after training, and how they came about."""

    models: list[Model]
    """One model for each seed."""
    seconds: float
    """Seconds that training took, now and before interruptions."""
    commits: list[str]
    """Commits of the versions of the program that trained the models, the first one first."""


def hash_of(what: dict[str, Any]) -> str:
    """Returns a short hash of plain values, 12 hexadecimal digits; equal values have equal hashes."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


def score_models(part: Part, models: list[Model], say: Say) -> dict[str, Any]:
    """Scores the models of all seeds, by number of tasks; where training diverged, each score is None."""
    scores: dict[str, list[dict[str, Any]]] = {}
    for tasks in part.test_tasks:
        rows = scores[str(tasks)] = []
        for seed, model in enumerate(models):
            try:
                rows.append(score(model, part, tasks))
            except DivergedError:
                rows.append(dict.fromkeys(Evaluation._fields))
                say(f"{part.name}: seed {seed} diverged, and has no scores")
        say(f"{part.name}: scored on {tasks} tasks")
    return {"scores": scores}


def run_part(part: Part, folder: Path, say: Say, *, trained: Path | None = None) -> dict[str, Any]:
    """Returns the result of a part: read, if it is there already; else trained from the last checkpoint, and measured.

    Args:
      part: what to train and to measure.
      folder: for the result, of this part alone.
      say: function that is told in words how far the part is.
      trained: a folder for checkpoints, shared by parts that train the same; the part's own if None.
    """
    version = commit()  # before anything is run: the files may change meanwhile
    if (found := read_done(folder, part)) is not None:
        older = "" if found["commit"] == version else f", by another version of the program ({found['commit']})"
        say(f"{part.name}: done before{older}")
        return found
    folder.mkdir(parents=True, exist_ok=True)
    learned = train_models(part, trained or folder, say) if part.needs_models else TrainedPart([], 0.0, [])
    measured = part.measure(learned.models, folder, say)
    by_others = set(learned.commits) - {version}
    found = {
        "part": part.to_json(),
        "commit": version,
        **({"trained_by": learned.commits} if by_others else {}),
        "hardware": hardware(),
        "training_seconds": round(learned.seconds, 2),
        **measured,
    }
    with write_atomically(folder / DONE) as temporary:
        temporary.write_text(json.dumps(found, indent=2) + "\n")
    return found


def train_models(part: Part, trained: Path, say: Say) -> TrainedPart:
    """Returns the models of all seeds, trained now or before."""
    # Three tasks, whatever the number of segments: a world that is only named would have as many tasks as segments.
    trainer = Trainer(part.config, make_source(training_world(part.world, TRAINING_TASKS), part.config))
    return train(trainer, trained / part.training_hash, lambda words: say(f"{part.name}: {words}"))


def is_done(folder: Path, part: Part) -> bool:
    """Whether the folder holds the result of this part with the same settings, so that there is nothing left to run."""
    return read_done(folder, part) is not None


def read_done(folder: Path, part: Part) -> dict[str, Any] | None:
    """Returns the result of the same part with the same settings; None if the folder holds none that can be read."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / DONE).read_text())
        whole = isinstance(found, dict) and found.keys() >= {"part", "commit", "hardware"}
        if whole and found["part"] == part.to_json():
            return found
    return None


def train(trainer: Trainer, folder: Path, say: Say) -> TrainedPart:
    """Trains all seeds to the end, from the folder's last checkpoint on; Ctrl-C saves and stops."""
    total = trainer.config.num_iterations
    with StopRequest() as request:
        checkpoints = Checkpoints(folder)
        last = checkpoints.latest(trainer.start())
        commits = commits_of(folder) if last.iteration else []
        if last.iteration:
            say(f"goes on after {last.iteration} of {total} iterations")
        if last.iteration < total:
            commits = sign(folder, commits)
        outputs = RunOutputs(checkpoints)
        run = TrainingLoop(trainer.place(last.state), last.iteration, last.seconds, request, outputs)
        told = time.monotonic()

        def report(_: object) -> None:
            nonlocal told
            if run.iteration == total or time.monotonic() - told > TELL_SECONDS:
                jax.block_until_ready(run.state)
                run.update_seconds()
                told = time.monotonic()
                say(f"{run.iteration} of {total} iterations")

        run.run(total, trainer.step, report)
        if request.requested:  # in the last iteration; what would follow is not to begin
            raise Stopped(run.iteration, total)
    return TrainedPart(trainer.models(run.state), run.seconds, commits)


def score(model: Model, part: Part, tasks: int) -> dict[str, Any]:
    """Returns all scores of one model on unseen levels of one number of tasks."""
    if part.surprisal:
        demos = demonstrate(make_world(part.world, num_tasks=tasks), num_demos=part.num_test, seed=TEST_SEED)
        return evaluate_cuts(SurprisalCuts(model).segment(demos, true_counts(demos)), demos)._asdict()
    model = without_end(model) if part.unending else model
    count: Any = None if part.as_trained else "unknown" if model.resolved.num_segments is None else "true"
    with warnings.catch_warnings(action="ignore", category=CountWarning):  # table 3 asks for few on purpose
        return evaluate(model, part.world, num_tasks=tasks, num_demos=part.num_test, count=count)._asdict()


FILE = "seconds.json"


TICK = 1.0
"""Seconds between two records of the time of a part that has the machine to itself."""


class SecondsError(ValueError):
    """The recorded time of a part cannot be read; the message names the file and says what to do."""


class Seconds(NamedTuple):
    """Seconds that a part took over all its runs, whether they came to their end or not."""

    share: float = 0.0
    """Share in the time of a machine that may have run other parts beside it; all shares add up to the time in use."""
    by_the_clock: float = 0.0


def seconds_had(folder: Path) -> Seconds:
    """Returns the seconds recorded for the part in this folder; zero if there is no record."""
    path = folder / FILE
    if not path.exists():
        return Seconds()
    try:
        share, clock = (float(json.loads(path.read_text())[name]) for name in Seconds._fields)
    except (ValueError, TypeError, LookupError) as error:
        raise SecondsError(
            f"{path} does not hold the time that the part took: it is damaged. Delete it to go on; the time until now "
            "will be missing from the part's wall time. Or delete its folder, to run the part anew."
        ) from error
    return Seconds(share, clock)


def add_seconds(folder: Path, seconds: float, at_once: int = 1) -> None:
    """Adds a stretch of time to the record of a part, of which it had a share of one in `at_once`."""
    folder.mkdir(parents=True, exist_ok=True)
    share, clock = seconds_had(folder)
    # As they are, not rounded: many small stretches are added up.
    total = Seconds(share + seconds / at_once, clock + seconds)
    with write_atomically(folder / FILE) as temporary:
        temporary.write_text(json.dumps(total._asdict()))


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """A block whose time is counted for a part that has the machine to itself."""
    seconds_had(folder)  # which complains before the work, not after it
    watch, over = _Watch(folder), threading.Event()
    ticking = threading.Thread(target=watch.count_until, args=(over,), daemon=True)
    ticking.start()
    try:
        yield
    finally:
        over.set()
        ticking.join()
        watch.count()


class _Watch:
    """Counts the time of a part, and knows until when it has been counted."""

    def __init__(self, folder: Path):
        self._folder, self._last = folder, time.monotonic()

    def count(self) -> None:
        """Adds the time since the last count."""
        now = time.monotonic()
        add_seconds(self._folder, now - self._last)
        self._last = now

    def count_until(self, over: threading.Event) -> None:
        """Adds time every `TICK` seconds until `over` is set; what cannot be written is left to the next count."""
        while not over.wait(TICK):
            with contextlib.suppress(OSError, SecondsError):
                self.count()
