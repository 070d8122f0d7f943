"""`cil.fit`: from demonstrations, or from a world, to a model."""

import contextlib
import dataclasses
import os
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from compile_il.checkpoints import Checkpoint, Checkpoints
from compile_il.config import Config
from compile_il.demos import Demonstrations
from compile_il.interrupts import StopRequest
from compile_il.metrics import boundary_accuracy
from compile_il.model import Model
from compile_il.progress import Check, ProgressBar
from compile_il.runs import CHECKPOINT_FOLDER, MODEL_FOLDER, open_run
from compile_il.sources import fingerprint, make_source
from compile_il.train import Trained, Trainer
from compile_il.training_log import TrainingLog
from compile_il.worlds import World

NUM_CHECKS = 20
"""How often held-out demonstrations are scored in the course of a training, where anybody looks."""
CHECKPOINT_SECONDS = 60.0


class Stopped(KeyboardInterrupt):
    """Training was asked to stop, and has saved what it had; the message says how to go on."""


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
      config: all settings at once; or
      out: a folder for the log, for checkpoints and for the model; nothing is written if None.
      resume: whether to go on with the run in `out`, from its last checkpoint.
      progress: whether to show a bar; by default, where there is a terminal.
      checkpoint_seconds: time between checkpoints.
      **settings: single ones, such as `num_segments=3, num_skills=10`; see `Config`.

    Returns:
      A model that segments demonstrations and whose skills act. Of several seeds, the one whose held-out demonstrations
      are most likely.
    """
    config = dataclasses.replace(config or Config(), **settings)
    if out is None:
        trainer = Trainer(config, make_source(demos, config))
        return _train(trainer, _Run(trainer.start()), progress)
    source = make_source(demos, config)
    folder = open_run(out, config, fingerprint(demos), resume=resume)
    trainer = Trainer(config, source)
    with contextlib.closing(Checkpoints(folder / CHECKPOINT_FOLDER)) as checkpoints:
        last = checkpoints.latest(trainer.start()) or Checkpoint(trainer.start(), 0, 0.0)
        with TrainingLog(folder, resumed_at=last.iteration) as log:
            run = _Run(last.state, last.iteration, last.seconds, checkpoints, checkpoint_seconds, log)
            model = _train(trainer, run, progress)
    model.save(folder / MODEL_FOLDER, overwrite=True)
    return model


@dataclasses.dataclass
class _Run:
    """A training under way, and where it leaves its traces."""

    state: Trained
    iteration: int = 0
    """Iterations done."""
    seconds: float = 0.0
    checkpoints: Checkpoints | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    log: TrainingLog | None = None

    def save(self) -> None:
        """Writes a checkpoint, where there is a folder for it."""
        if self.checkpoints is not None:
            self.checkpoints.save(Checkpoint(self.state, self.iteration, self.seconds))


def _train(trainer: Trainer, run: _Run, progress: bool | None) -> Model:
    total = trainer.config.num_iterations
    every = max(1, -(-total // NUM_CHECKS))
    # Without a folder there is nothing to save, and Ctrl-C simply ends the program.
    stop = StopRequest() if run.checkpoints is not None else contextlib.nullcontext(None)
    with stop as request, ProgressBar(total, run.iteration, progress) as bar:
        began, saved = time.monotonic() - run.seconds, time.monotonic()
        while run.iteration < total:
            run.state, losses = trainer.step(run.state, run.iteration)
            run.iteration += 1
            bar.advance()
            watched = bar.shown or run.log is not None
            if watched and (run.iteration % every == 0 or run.iteration == total):
                run.seconds = time.monotonic() - began
                _check(trainer, run, losses, bar)
            if time.monotonic() - saved > run.checkpoint_seconds:
                run.seconds = time.monotonic() - began
                run.save()
                saved = time.monotonic()
            if request is not None and request.requested:
                run.seconds = time.monotonic() - began
                run.save()
                raise Stopped(
                    f"after iteration {run.iteration} of {total}; saved. To go on, fit again with the same data, "
                    "settings and folder, and resume=True (--resume)."
                )
        run.save()
        return _best(trainer, run.state, bar)


def _check(trainer: Trainer, run: _Run, losses: jax.Array, bar: ProgressBar) -> None:
    """Scores held-out demonstrations, for the log and for the bar."""
    standings = compare_seeds(trainer, run.state)
    best = int(np.argmax([standing.log_likelihood for standing in standings]))
    check = Check(
        iteration=run.iteration,
        seconds=round(run.seconds, 2),
        seed=best,
        loss=float(losses[best]),
        held_out_log_likelihood=standings[best].log_likelihood,
        boundary_accuracy=standings[best].boundary_accuracy,
    )
    bar.tell(check)
    if run.log is not None:
        by_seed = [standing._asdict() | {"loss": float(loss)} for standing, loss in zip(standings, losses, strict=True)]
        run.log.write(check._asdict() | {"by_seed": by_seed})


class Standing(NamedTuple):
    """How one seed does on held-out demonstrations."""

    log_likelihood: float
    boundary_accuracy: float | None


def compare_seeds(trainer: Trainer, state: Trained) -> list[Standing]:
    """Held-out likelihood of each seed, and boundary accuracy where the truth is known."""
    held_out = trainer.source.held_out
    standings = []
    for model in trainer.models(state):
        found = model.segment(held_out)
        true = held_out.truth.boundaries if held_out.truth is not None else None
        accuracy = boundary_accuracy(found.boundaries, true) if true is not None else None
        standings.append(Standing(float(found.log_likelihood.mean()), accuracy))
    return standings


def _best(trainer: Trainer, state: Trained, bar: ProgressBar) -> Model:
    """The model with the best likelihood of held-out demonstrations."""
    models = trainer.models(state)
    if len(models) == 1:
        return models[0]
    likelihoods = [standing.log_likelihood for standing in compare_seeds(trainer, state)]
    best = int(np.argmax(likelihoods))
    others = ", ".join(f"{value:.2f}" for seed, value in enumerate(likelihoods) if seed != best)
    bar.say(f"Kept seed {best} of {len(models)}: held-out log-likelihood {likelihoods[best]:.2f}, the others {others}.")
    return models[best]
