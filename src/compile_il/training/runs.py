"""The folder of a training run: what it was started with, its log, its checkpoints and, once it is done, its model.

- `run.json`: settings and data, against which a resumed run is checked;
- `log.jsonl`: one row for each time that held-out demonstrations were scored, with the loss, of relaxed inference its
  terms (`loss_codes`, say), and a temperature that falls; in `tensorboard/` the same;
- `checkpoints/`: the last states of training;
- `model/`: written at the end and, as it is by then, where training is stopped: its `num_iterations` are those done.
  `cil.load` of the run's folder reads it.

A folder in which one process works at a time.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from compile_il.config import CompileError
from compile_il.data.files import write_atomically
from compile_il.model.files import MODEL_FOLDER, RUN_FILE
from compile_il.training.log import LOG_FILE


@contextlib.contextmanager
def alone_in(folder: Path, refusal: Exception) -> Iterator[None]:
    """Keeps other processes out of a folder inside the block, where the system has locks; one that is killed lets go.

    Args:
      folder: a folder that exists.
      refusal: the error to raise where another process keeps it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise refusal from error
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(place)


@runtime_checkable
class Settings(Protocol):
    """Settings of a run, such as `Config`: a frozen dataclass that has `num_iterations`, and plain values in files."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a dictionary of plain values."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Builds settings from what `to_json` returned."""


class RunError(CompileError):
    """A run that cannot be started or resumed there; the message says what to do."""


@contextlib.contextmanager
def open_run(folder: str | os.PathLike[str], config: Settings, data: str, *, resume: bool) -> Iterator[Path]:
    """Makes the folder of a new run, or checks that the one that is there can be resumed with these settings and data.

    Inside the `with` block nobody else can open it.

    Args:
      folder: the folder of the run.
      config: the settings; more iterations than before may be asked for, else they must be those of the run.
      data: the fingerprint of what is trained on.
      resume: whether to go on with a run that is there.
    """
    path = Path(folder)
    _check_place(path, resume=resume)
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)
    busy = RunError(f"A run is under way in {path}: wait until it ends, or name another folder.")
    with alone_in(path, busy):
        if resume:
            _check_same(path, config, data)
        with _writing(path):
            _prepare(path, config, data)
        yield path


def _check_place(path: Path, *, resume: bool) -> None:
    if (path.exists() or path.is_symlink()) and not path.is_dir():
        raise FileExistsError(f"{path} is not a folder: name a folder for the run.")
    if holds_run(path):
        if not resume:
            raise FileExistsError(
                f"{path} holds a run: pass resume=True (--resume) to go on with it, or name another folder."
            )
    elif resume:
        raise RunError(f"{path} holds no run to resume: leave out resume (--resume) to start one there.")
    elif path.is_dir() and set(path.iterdir()) != set(_leftovers(path)):
        raise FileExistsError(f"{path} holds other things: name a folder of its own for the run.")


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be written to ({error.strerror}): name another folder for the run.") from error


def holds_run(folder: Path) -> bool:
    """Whether a run was started in a folder."""
    return (folder / RUN_FILE).exists()


def _prepare(folder: Path, config: Settings, data: str) -> None:
    for path in _leftovers(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    started = {"data": data, "settings": config.to_json()}
    with write_atomically(folder / RUN_FILE) as temporary:
        temporary.write_text(json.dumps(started | {"sha256": _sum(started)}, indent=2) + "\n")


def _sum(started: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(started, sort_keys=True).encode()).hexdigest()


def _leftovers(folder: Path) -> list[Path]:
    """Files that a run was writing beside their places when it was killed."""
    return [path for name in (RUN_FILE, LOG_FILE, MODEL_FOLDER) for path in folder.glob(f".{name}.*.part")]


def _what_differs(one: str, other: str) -> tuple[str, str]:
    """Returns two descriptions of data; of worlds of one kind, which have many settings, only those that differ."""
    setting = re.compile(r"\w+=[^,()]+")
    if setting.sub("", one) != setting.sub("", other):
        return one, other
    pairs = zip(setting.findall(one), setting.findall(other), strict=True)
    sides = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
    first, second = (f"{one.split('(', 1)[0]} with {', '.join(side)}" for side in sides)
    return first, second


def _check_same(folder: Path, config: Settings, data: str) -> None:
    started = _read(folder / RUN_FILE, type(config))
    before = started["settings"]
    if started["data"] != data:
        then, now = _what_differs(started["data"], data)
        raise RunError(f"The run in {folder} was started on {then}, and this is {now}: give the same data.")
    for field in dataclasses.fields(config):
        old, new = getattr(before, field.name), getattr(config, field.name)
        if field.name == "num_iterations":
            if new < old:
                raise RunError(
                    f"The run in {folder} is to have {old} iterations, this asks for {new}: ask for as many or more."
                )
        elif old != new:
            raise RunError(
                f"The run in {folder} was started with {field.name}={old}, and this has {field.name}={new}: give the "
                "same settings (more iterations may be asked for), or name another folder."
            )


def _read(path: Path, kind: type[Settings]) -> dict[str, Any]:
    try:
        started = json.loads(path.read_bytes())
        promised = started.pop("sha256")
        if _sum(started) != promised:
            raise ValueError("it does not hold what was written")
        return {"data": started["data"], "settings": kind.from_json(started["settings"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} cannot be read ({type(error).__name__}: {error}): it is damaged. Copy the folder again, or start "
            "anew elsewhere."
        ) from error
