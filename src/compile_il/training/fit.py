"""`cil.fit`: from demonstrations, or from a world, to a model."""

import contextlib
import dataclasses
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import numpy as np

from compile_il.config import CompileError, Config, given_config
from compile_il.data import Demonstrations
from compile_il.data.segment_counts import CountWarning, attach_counts, counts_from_labels
from compile_il.evaluation.metrics import boundary_accuracy
from compile_il.inference.engines import engine_of
from compile_il.inference.records import Loss
from compile_il.inference.segmenter import DivergedError
from compile_il.model.files import CHECKPOINT_FOLDER, MODEL_FOLDER
from compile_il.model.model import Model
from compile_il.training.checkpoints import Checkpoint, Checkpoints
from compile_il.training.devices import (
    broadcast,
    check_num_devices,
    check_other_hosts,
    check_same,
    fail_together,
    is_first_process,
    shares_in_words,
)
from compile_il.training.log import TrainingLog
from compile_il.training.loop import (
    CHECKPOINT_SECONDS,
    Check,
    ProgressBar,
    RunOutputs,
    Stopped,
    StopRequest,
    TrainingLoop,
    usable_when_stopped,
)
from compile_il.training.runs import open_run
from compile_il.training.sources import Source, fingerprint, make_source
from compile_il.training.trainer import Trained, Trainer
from compile_il.worlds import World

NUM_CHECKS = 20
"""Most times that a training scores held-out demonstrations for its progress bar and its log."""


class TrainingError(CompileError):
    """Training that cannot continue; the message says what to change."""

    @classmethod
    def diverged(cls, iteration: int) -> Self:
        """Returns the error for a training whose losses or weights are no longer numbers in any seed."""
        return cls(f"Training diverged by iteration {iteration}. Train again with a lower learning_rate.")


def fit(
    demos: Demonstrations | str | World,
    *,
    config: Config | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    **settings: Any,
) -> Model:
    """Finds skills in demonstrations.

    Args:
      demos: demonstrations; or the name of a world (or a world), of which fresh ones are made in each step.
      config: all settings at once; those given one by one change it.
      out: a folder for the log, checkpoints and the model, which is written at the end or where Ctrl-C stops training;
        nothing is written if None.
      resume: whether to go on with the run in `out`, from its last checkpoint. With more iterations than before, rates
        and temperatures that fall follow the longer schedule from there on.
      progress: whether to show a bar; by default, where there is a terminal, and else a line once a minute.
      checkpoint_seconds: time between checkpoints.
      **settings: single ones, such as `num_segments=3, num_skills=10`; see `Config`. Where demonstrations have
        different numbers of segments, `num_segments` may be a list with one for each (exact inference: or None in it).

    Returns:
      A model that segments demonstrations and whose skills act. Of several seeds, the one whose held-out demonstrations
      are most likely.
    """
    with fail_together():
        if resume and out is None:
            raise ValueError("There is nothing to resume: give the folder of the run as out.")
        demos, config = attach_counts(demos, given_config(config), settings)
        check_num_devices(config.num_devices)  # before demonstrations are made
    _check_hosts(demos, config, in_folder=out is not None)
    with fail_together():
        source = make_source(demos, config)
    if out is None:
        with fail_together():
            trainer = Trainer(config, source)
        return _train(trainer, TrainingLoop(trainer.start()), progress if is_first_process() else False)
    if not is_first_process():
        return _follow(config, source)
    with StopRequest() as request, _open(out, config, fingerprint(demos), resume=resume) as (folder, checkpoints):
        with fail_together():
            trainer = Trainer(config, source)
            start = trainer.start()
            last = checkpoints.latest(start) or Checkpoint(start, 0, 0.0)
        last = broadcast(last)
        with TrainingLog(folder, resumed_at=int(last.iteration)) as log:
            traces = RunOutputs(checkpoints, checkpoint_seconds, log)
            run = TrainingLoop(trainer.place(last.state), int(last.iteration), float(last.seconds), request, traces)
            with usable_when_stopped(functools.partial(_save_stopped, trainer, run, folder)):
                model = _train(trainer, run, progress)
        with request.unbroken():
            model.save(folder / MODEL_FOLDER, overwrite=True)
    if request.requested:  # too late to stop anything here, but not for what the caller does next
        raise Stopped(run.iteration, config.num_iterations, usable=True)
    return model


def _check_hosts(demos: Demonstrations | str | World, config: Config, *, in_folder: bool) -> None:
    """Refuses hosts with different data or settings, whose gradients would be summed all the same."""
    if jax.process_count() == 1:  # to read all data takes a while
        return
    settings = {name: str(value) for name, value in config.to_json().items()}
    check_same({"data": fingerprint(demos), "out": "a folder" if in_folder else "None", **settings})


@contextlib.contextmanager
def _open(
    out: str | os.PathLike[str], config: Config, data: str, *, resume: bool
) -> Iterator[tuple[Path, Checkpoints]]:
    """Opens the folder of a run and its checkpoints, in the first process; if that fails, the others fail too."""
    with contextlib.ExitStack() as stack:
        with fail_together():
            folder = stack.enter_context(open_run(out, config, data, resume=resume))
            checkpoints = stack.enter_context(contextlib.closing(Checkpoints(folder / CHECKPOINT_FOLDER)))
        yield folder, checkpoints


def _follow(config: Config, source: Source) -> Model:
    """Trains in a process beside the first one, which alone writes files, and starts from the state that one has."""
    with StopRequest() as request:
        check_other_hosts()  # the first one opens the run
        with fail_together():
            trainer = Trainer(config, source)
            start = trainer.start()
        last = broadcast(Checkpoint(start, 0, 0.0))
        run = TrainingLoop(trainer.place(last.state), int(last.iteration), float(last.seconds), request)
        with usable_when_stopped(functools.partial(_save_stopped, trainer, run, None)):
            return _train(trainer, run, progress=False)


def _save_stopped(trainer: Trainer, run: TrainingLoop[Trained], folder: Path | None, stopped: Stopped) -> bool:
    """Writes the model of a stopped run, in the first process, which alone has a folder; False if it has diverged."""
    try:
        model = _best(trainer, run.state)
    except TrainingError:  # nothing is a number any more, and there is nothing to use
        return False
    if folder is not None and run.request is not None:
        done = dataclasses.replace(model.config, num_iterations=stopped.iteration)  # people look there for it
        with run.request.unbroken():
            dataclasses.replace(model, config=done).save(folder / MODEL_FOLDER, overwrite=True)
    return True


def _train(trainer: Trainer, run: TrainingLoop[Trained], progress: bool | None) -> Model:
    total = trainer.config.num_iterations
    every = max(1, -(-total // NUM_CHECKS))
    with ProgressBar(total, run.iteration, progress) as bar:
        if words := shares_in_words(trainer.mesh.size, jax.device_count(), trainer.batch_size):
            bar.say(words)
        if trainer.source.world is None and (number := trainer.resolved.num_segments) is not None:
            bar.say(f"Each demonstration is cut into {number} segments (num_segments).")
        watched = bar.shown or run.log is not None
        for loss in run.steps(total, trainer.step):
            bar.advance()
            if run.iteration % every == 0 or run.iteration == total:
                if not np.isfinite(loss.total).any():
                    raise TrainingError.diverged(run.iteration)
                run.look_at_clock()
                if watched:
                    _check(trainer, run, loss, bar)
        return _best(trainer, run.state, bar.say)


def _check(trainer: Trainer, run: TrainingLoop[Trained], loss: Loss, bar: ProgressBar) -> None:
    """Scores held-out demonstrations, for the log and for the bar."""
    standings = score_seeds(trainer, run.state)
    best = best_of(standings)
    if not math.isfinite(standings[best].log_likelihood):
        raise TrainingError.diverged(run.iteration)
    check = Check(
        iteration=run.iteration,
        seconds=round(run.seconds, 2),
        seed=best,
        loss=float(loss.total[best]),
        held_out_log_likelihood=standings[best].log_likelihood,
        boundary_accuracy=standings[best].boundary_accuracy,
    )
    bar.tell(check)
    if run.log is not None:
        paid = [_in_terms(loss, seed) for seed in range(len(standings))]
        map_seeds = [standing._asdict() | each for standing, each in zip(standings, paid, strict=True)]
        annealed = engine_of(trainer.config).annealed(trainer.config, run.iteration - 1)
        run.log.write(check._asdict() | paid[best] | annealed | {"by_seed": map_seeds})


def _in_terms(loss: Loss, seed: int) -> dict[str, float]:
    """The loss of one seed and its terms, for the log."""
    terms = {f"loss_{name}": float(values[seed]) for name, values in loss.terms.items()}
    return {"loss": float(loss.total[seed]), **terms}


class HeldOutScores(NamedTuple):
    """Scores of one seed on held-out demonstrations; the likelihood is NaN if it has diverged."""

    log_likelihood: float
    boundary_accuracy: float | None


def score_seeds(trainer: Trainer, state: Trained) -> list[HeldOutScores]:
    """Scores each seed on held-out demonstrations: likelihood, and boundary accuracy where the truth is known."""
    held_out = trainer.source.held_out.with_labels()  # what is told of them would count as found
    counts = counts_from_labels(trainer.source.held_out) if trainer.source.segment_counts.of_all else None
    standings = []
    for model in trainer.models(state):
        try:
            with warnings.catch_warnings(action="ignore", category=CountWarning):  # training is not over
                found = model.segment(held_out, counts)
        except DivergedError:
            standings.append(HeldOutScores(math.nan, None))
            continue
        true = held_out.truth.boundaries
        accuracy = boundary_accuracy(found.boundaries, true) if true is not None else None
        standings.append(HeldOutScores(float(found.log_likelihood.mean()), accuracy))
    return standings


def best_of(standings: list[HeldOutScores]) -> int:
    """Index of the seed with the best held-out likelihood; those that have diverged come last."""
    return int(np.argmax(np.nan_to_num([standing.log_likelihood for standing in standings], nan=-np.inf)))


def _best(trainer: Trainer, state: Trained, say: Callable[[str], None] = lambda _: None) -> Model:
    """Returns the model with the best held-out likelihood; raises `TrainingError` if all have diverged."""
    models = trainer.models(state)
    if not any(map(_has_numbers, models)):
        raise TrainingError.diverged(trainer.config.num_iterations)
    if len(models) == 1:
        return models[0]
    standings = score_seeds(trainer, state)
    best = best_of(standings)
    if not math.isfinite(standings[best].log_likelihood):
        raise TrainingError.diverged(trainer.config.num_iterations)
    values = [f"{standing.log_likelihood:.2f}" for standing in standings]
    others = ", ".join(value for seed, value in enumerate(values) if seed != best)
    say(f"Kept seed {best} of {len(models)}: held-out log-likelihood {values[best]}, the others {others}.")
    return models[best]


def _has_numbers(model: Model) -> bool:
    """Whether all weights of a model are finite; the loss of the last step was that of the weights before it."""
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(model.skills, eqx.is_inexact_array)))
