"""Saves and restores the state of a training: a folder for each checkpoint, written as models are, whole or not at all.

What is read is checked against the sum of its bytes, so that a damaged checkpoint is refused.
"""

import shutil
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx

from compile_il.config import CompileError
from compile_il.model.files import ModelError, fill_shapes, load_arrays, save_arrays

CHECKPOINT_FORMAT = 2
"""Version of the files, which goes up whenever older ones can no longer be read."""
NUM_KEPT = 2
"""Number of checkpoints of a run that are kept, of which the older one serves if the last one is damaged."""

State = TypeVar("State")
"""All arrays that training continues from: `training.trainer.Trained`, or `rl.trainer.TrainerState` for agents."""


class CheckpointError(CompileError):
    """A checkpoint that cannot be read or written; the message names it and says what to do."""


class Checkpoint(NamedTuple, Generic[State]):
    """A saved state of a training run, with the number of iterations and the seconds that led to it."""

    state: State
    iteration: int = 0
    seconds: float = 0.0


class Checkpoints:
    """Saves and restores the checkpoints of one run in a folder; deletes what a killed run left unfinished there."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)

    @property
    def iterations(self) -> list[int]:
        """Iterations done by each checkpoint, in order."""
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdecimal())

    def save(self, checkpoint: Checkpoint[Any]) -> None:
        """Writes a checkpoint and deletes old ones; one of an iteration that has one already is left as it is."""
        place = self.folder / str(checkpoint.iteration)
        if place.exists():
            return
        about = {"format": CHECKPOINT_FORMAT, "iteration": checkpoint.iteration, "seconds": checkpoint.seconds}
        try:
            save_arrays(checkpoint.state, about, place, overwrite=False)
        except OSError as error:
            raise CheckpointError(
                f"The checkpoint {place} cannot be written ({error.strerror or error}). Free some space or fix its "
                "rights, then resume; earlier checkpoints are as they were."
            ) from error
        for iteration in self.iterations[:-NUM_KEPT]:
            shutil.rmtree(self.folder / str(iteration), ignore_errors=True)

    def latest(self, start: State) -> Checkpoint[State]:
        """Returns the last checkpoint, or `start` where there is none; a damaged one is never skipped silently."""
        if not self.iterations:
            return Checkpoint(start)
        *others, last = self.iterations
        place = self.folder / str(last)
        try:
            about, arrays = load_arrays(place, CHECKPOINT_FORMAT)
            state = fill_shapes(eqx.filter_eval_shape(lambda: start), arrays, place)
        except ModelError as error:
            then = f"go on from iteration {others[-1]}" if others else "start from the beginning"
            raise CheckpointError(
                f"The checkpoint {place} is damaged, or of another version of compile-il. Resume with that version, or "
                f"delete that folder and resume again to {then}."
            ) from error
        return Checkpoint(state, about["iteration"], about["seconds"])
