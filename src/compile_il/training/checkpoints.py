"""Checkpoints of a training run, with Orbax: each is written beside its place and renamed when it is complete.

Orbax finds out when a checkpoint is incomplete; whether its bytes are still those that were written, it does not say in
all cases, and where it does, its threads print tracebacks of their own. So sums of all files lie beside them, and are
looked at before Orbax is; and a digest of all numbers lies among them, for what is read must have the same.
"""

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np

from compile_il.config import CompileError
from compile_il.data.files import write_atomically
from compile_il.model.files import map_named, named_leaves

NUM_KEPT = 2
"""Checkpoints of a run that are kept, older ones are deleted; the one before the last is for when that is damaged."""
SUMS_FILE = "sums.json"

State = TypeVar("State")


class CheckpointError(CompileError):
    """A checkpoint that cannot be read or written; the message names it and says what to do."""


class Checkpoint(NamedTuple, Generic[State]):
    """A saved state of a training run, with the iterations and the time that led to it."""

    state: State
    iteration: int
    """Number of iterations done."""
    seconds: float
    """Seconds that these iterations took."""


class Checkpoints:
    """The checkpoints of one run, in a folder of their own.

    Args:
      folder: where they are; it is made if it is not there.
    """

    def __init__(self, folder: Path):
        import orbax.checkpoint as ocp

        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        if jax.process_index() == 0:
            _sweep(self.folder)
        # Of several processes, only the first writes; the others are not asked, and must not be waited for.
        alone = ocp.options.MultiprocessingOptions(active_processes={0} if jax.process_count() > 1 else None)
        options = ocp.CheckpointManagerOptions(
            max_to_keep=NUM_KEPT,
            create=False,
            enable_async_checkpointing=False,
            multiprocessing_options=alone,
        )
        with _quiet():
            self._manager = ocp.CheckpointManager(self.folder, options=options)

    def save(self, checkpoint: Checkpoint[Any]) -> None:
        """Writes a checkpoint, whole or not at all; the one of an iteration that has one already is left as it is."""
        import orbax.checkpoint as ocp

        if self._manager.latest_step() == checkpoint.iteration:
            return
        arrays = _named_arrays(checkpoint.state)
        digest = _digest(arrays, checkpoint.iteration, checkpoint.seconds)
        about = {"iteration": checkpoint.iteration, "seconds": checkpoint.seconds, "digest": digest}
        about |= {"layout": _layout(arrays)}
        parts = ocp.args.Composite(state=ocp.args.StandardSave(arrays), about=ocp.args.JsonSave(about))
        folder = self.folder / str(checkpoint.iteration)
        try:
            with _quiet():
                self._manager.save(checkpoint.iteration, args=parts)
            # A run that is killed between these two leaves a checkpoint without sums, which the digest still guards.
            with write_atomically(folder / SUMS_FILE) as temporary:
                temporary.write_text(json.dumps(_sums(folder), indent=2) + "\n")
        except Exception as error:  # a full disk surfaces as errors of many classes
            raise CheckpointError(
                f"The checkpoint {folder} cannot be written ({_first_line(error)}). Free some space or fix its rights, "
                "then resume; earlier checkpoints are as they were."
            ) from error

    def latest(self, like: State) -> Checkpoint[State] | None:
        """The last checkpoint, or None where there is none.

        Args:
          like: a state of the shapes that are expected.
        """
        step = self._manager.latest_step()
        return None if step is None else self._restore(step, like)

    def _restore(self, step: int, like: State) -> Checkpoint[State]:
        import orbax.checkpoint as ocp

        self._check_sums(step)
        places = _places(like)
        try:
            with _quiet():
                about = self._manager.restore(step, args=ocp.args.Composite(about=ocp.args.JsonRestore()))["about"]
                iteration, seconds, digest = int(about["iteration"]), float(about["seconds"]), about["digest"]
                if fits := about["layout"] == _layout(places):
                    parts = ocp.args.Composite(state=ocp.args.StandardRestore(places))
                    arrays = self._manager.restore(step, args=parts)["state"]
        except Exception as error:  # damaged bytes surface as errors of many classes
            raise self._damaged(step, f"cannot be read ({_first_line(error)})") from error
        if not fits:
            raise CheckpointError(
                f"The checkpoint {self.folder / str(step)} is of a model with other arrays: resume with the version of "
                "compile-il that wrote it, or start anew in another folder."
            )
        read = {name: np.asarray(array) for name, array in arrays.items()}
        if _digest(read, iteration, seconds) != digest or iteration != step:
            raise self._damaged(step, "does not hold the numbers that were written")
        return Checkpoint(_fill(like, arrays), iteration, seconds)

    def _check_sums(self, step: int) -> None:
        folder = self.folder / str(step)
        path = folder / SUMS_FILE
        if not path.exists():
            return
        try:
            promised, there = dict(json.loads(path.read_bytes())), _sums(folder)
        except (OSError, ValueError, TypeError) as error:
            raise self._damaged(step, f"cannot be read ({_first_line(error)})") from error
        if promised != there:
            changed = [name for name in sorted({*promised, *there}) if promised.get(name) != there.get(name)]
            raise self._damaged(step, f"does not hold the bytes that were written in {changed[0]}")

    def _damaged(self, step: int, problem: str) -> CheckpointError:
        others = [other for other in self._manager.all_steps() if other != step]
        then = f"go on from iteration {max(others)}" if others else "start from the beginning"
        return CheckpointError(
            f"The checkpoint {self.folder / str(step)} {problem}: it is damaged. Delete that folder and resume again "
            f"to {then}."
        )

    def close(self) -> None:
        """Closes Orbax's manager of the folder; nothing can be saved afterwards."""
        with _quiet():
            self._manager.close()


def _sweep(folder: Path) -> None:
    """Deletes what a killed run was writing. Orbax can too, but in a thread that nothing waits for."""
    for unfinished in folder.glob("*.orbax-checkpoint-tmp*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _named_arrays(state: Any) -> dict[str, np.ndarray]:
    """A state's arrays by name; empty ones, which Orbax refuses, are left out: there is nothing in them to lose."""
    return {name: np.asarray(leaf) for name, leaf in named_leaves(state).items() if leaf.size}


def _places(like: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of all arrays by name, on the first device: where a checkpoint was written does not matter."""
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return {
        name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        for name, leaf in named_leaves(like).items()
        if leaf.size
    }


def _fill(like: State, arrays: dict[str, jax.Array]) -> State:
    return map_named(lambda name, leaf: arrays[name] if leaf.size else leaf, like)


def _layout(arrays: dict[str, Any]) -> list[str]:
    """Name, dtype and shape of each array, as one line of text."""
    return [f"{name} {array.dtype} {list(array.shape)}" for name, array in sorted(arrays.items())]


def _digest(arrays: dict[str, np.ndarray], iteration: int, seconds: float) -> str:
    digest = hashlib.sha256(f"{iteration} {seconds!r} {_layout(arrays)}".encode())
    for _, array in sorted(arrays.items()):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 sum of every file of a checkpoint but the file of sums, be that complete or just being written."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and SUMS_FILE not in path.name)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences Orbax's log, in which it reports each of its steps, and damage, for which we have our own words."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
