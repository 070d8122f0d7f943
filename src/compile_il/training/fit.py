"""Trains a model on demonstrations or a world: `cil.fit`."""

import contextlib
import dataclasses
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from compile_il.config import CompileError, Config
from compile_il.data import Demonstrations
from compile_il.data.segment_counts import CountWarning, attach_counts, counts_from_labels
from compile_il.evaluation.metrics import boundary_accuracy
from compile_il.inference.records import Loss
from compile_il.inference.relaxed.engine import temperature_at
from compile_il.model.files import MODEL_FOLDER
from compile_il.model.model import DivergedError, Model
from compile_il.training import devices
from compile_il.training.checkpoints import Checkpoint
from compile_il.training.loop import ProgressBar, StopRequest, TrainingError, TrainingLoop
from compile_il.training.runs import CHECKPOINT_SECONDS, RunOutputs, open_run
from compile_il.training.sources import fingerprint, make_source
from compile_il.training.trainer import Trained, Trainer
from compile_il.worlds import World

NUM_CHECKS = 20
"""Most times that a training scores held-out demonstrations for its progress bar and its log."""


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
    with devices.fail_together():
        if resume and out is None:
            raise CompileError("There is nothing to resume: give the folder of the run as out.")
        demos, config = attach_counts(demos, config, settings)
    if jax.process_count() > 1:  # to read all data takes a while
        given = {name: str(value) for name, value in config.to_json().items()}
        devices.check_same({"data": fingerprint(demos), "out": "None" if out is None else "a folder", **given})
    with devices.fail_together():
        source = make_source(demos, config)
    progress = progress if devices.is_first_process() else False
    with contextlib.ExitStack() as stack:
        request = None if out is None else stack.enter_context(StopRequest(announce=progress is not False))
        outputs: RunOutputs | None = None
        with devices.fail_together():
            if out is not None and devices.is_first_process():  # which alone writes files
                run = open_run(out, config, fingerprint(demos), resume=resume, checkpoint_seconds=checkpoint_seconds)
                outputs = stack.enter_context(run)
        with devices.fail_together():
            trainer = Trainer(config, source)
            start = trainer.start()
            last = Checkpoint(start) if outputs is None else outputs.checkpoints.latest(start)
        last = devices.broadcast(last)
        loop = TrainingLoop(trainer.place(last.state), int(last.iteration), float(last.seconds), request, outputs)
        return _train(trainer, loop, out, progress)


def _train(
    trainer: Trainer, loop: TrainingLoop[Trained], out: str | os.PathLike[str] | None, progress: bool | None
) -> Model:
    total = trainer.config.num_iterations
    every = max(1, -(-total // NUM_CHECKS))

    def report(loss: Loss) -> None:
        bar.advance()
        if loop.iteration % every == 0 or loop.iteration == total:
            _report(trainer, loop, loss, bar)

    def save(model: Model, iteration: int) -> None:
        done = dataclasses.replace(model.config, num_iterations=iteration)  # people look there for it
        assert out is not None, "there are outputs"
        dataclasses.replace(model, config=done).save(Path(out) / MODEL_FOLDER, overwrite=True)

    with ProgressBar(total, loop.iteration, progress) as bar:
        if words := devices.shares_in_words(trainer.mesh.size, jax.device_count(), trainer.batch_size):
            bar.say(words)
        number = trainer.config.resolved(trainer.source.segment_counts).num_segments
        if trainer.source.world is None and number is not None:
            bar.say(f"Each demonstration is cut into {number} segments (num_segments).")
        return loop.train(total, trainer.step, report, lambda state: _best(trainer, state, bar.say), save)


def _report(trainer: Trainer, loop: TrainingLoop[Trained], loss: Loss, bar: ProgressBar) -> None:
    """Scores held-out demonstrations for the log and the bar, or raises an error if training has diverged."""
    if not np.isfinite(loss.total).any():
        raise TrainingError.diverged(loop.iteration)
    loop.update_seconds()
    log = None if loop.outputs is None else loop.outputs.log
    if log is None and not bar.shown:
        return
    scores = score_seeds(trainer, loop.state)
    best = best_of(scores, loop.iteration)
    losses = {"loss": loss.total, **{f"loss_{name}": values for name, values in loss.terms.items()}}
    by_seed = [
        {name: float(values[seed]) for name, values in losses.items()} | score._asdict()
        for seed, score in enumerate(scores)
    ]
    row: dict[str, Any] = {
        "iteration": loop.iteration,
        "seconds": round(loop.seconds, 2),
        "seed": best,
        **by_seed[best],
    }
    row["held_out_log_likelihood"] = row.pop("log_likelihood")
    words = f"loss {row['loss']:.2f}  held-out {row['held_out_log_likelihood']:.2f}"
    if row["boundary_accuracy"] is not None:
        words += f"  boundaries {100 * row['boundary_accuracy']:.1f} %"
    bar.show(words)
    if trainer.config.final_temperature is not None:
        row["temperature"] = float(temperature_at(trainer.config, jax.numpy.asarray(loop.iteration - 1)))
    if log is not None:
        log.write(row | {"by_seed": by_seed})


class HeldOutScores(NamedTuple):
    """Scores of one seed on held-out demonstrations: NaN if it has diverged, None without the truth."""

    log_likelihood: float
    boundary_accuracy: float | None


def score_seeds(trainer: Trainer, state: Trained) -> list[HeldOutScores]:
    """Scores the model of each seed on held-out demonstrations."""
    held_out = trainer.source.held_out.with_labels()  # labels would make boundaries too easy to find
    counts = counts_from_labels(trainer.source.held_out) if trainer.source.segment_counts.of_all else None
    scores = []
    for model in trainer.models(state):
        try:
            with warnings.catch_warnings(action="ignore", category=CountWarning):  # training is not over
                segments = model.segment(held_out, counts)
        except DivergedError:
            scores.append(HeldOutScores(math.nan, None))
            continue
        true = held_out.truth.boundaries
        accuracy = boundary_accuracy(segments.boundaries, true) if true is not None else None
        scores.append(HeldOutScores(float(segments.log_likelihood.mean()), accuracy))
    return scores


def best_of(scores: list[HeldOutScores], iteration: int) -> int:
    """Returns the seed with the best held-out likelihood, or raises an error if all have diverged."""
    best = int(np.argmax(np.nan_to_num([each.log_likelihood for each in scores], nan=-np.inf)))
    if not math.isfinite(scores[best].log_likelihood):
        raise TrainingError.diverged(iteration)
    return best


def _best(trainer: Trainer, state: Trained, say: Callable[[str], None]) -> Model:
    """Returns the model with the best held-out likelihood; raises `TrainingError` if all have diverged."""
    models, total = trainer.models(state), trainer.config.num_iterations
    # The loss of the last step was that of the weights before it.
    leaves = [jax.tree.leaves(eqx.filter(model.skills, eqx.is_inexact_array)) for model in models]
    if not any(all(np.isfinite(leaf).all() for leaf in each) for each in leaves):
        raise TrainingError.diverged(total)
    if len(models) == 1:
        return models[0]
    scores = score_seeds(trainer, state)
    best = best_of(scores, total)
    values = [f"{each.log_likelihood:.2f}" for each in scores]
    others = ", ".join(value for seed, value in enumerate(values) if seed != best)
    say(f"Kept seed {best} of {len(models)}: held-out log-likelihood {values[best]}, the others {others}.")
    return models[best]
