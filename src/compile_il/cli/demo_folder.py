"""The folder of a demo: a new one, or one emptied of what an earlier demo left there and of nothing else."""

import json
import shutil
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from compile_il.array_files import CONFIG_FILE, WEIGHTS_FILE
from compile_il.files import replace_file
from compile_il.runs import CHECKPOINT_FOLDER, MODEL_FOLDER, RUN_FILE
from compile_il.training_log import EVENTS_FOLDER, LOG_FILE

MARK = "demo.json"
"""File that says that a demo made the folder: a page of the same name that somebody else wrote is not replaced."""
RESULT_FILE = "result.json"
"""File with the scores and the time of a demo."""
OF_A_WORLD = (
    RUN_FILE,
    LOG_FILE,
    f"{EVENTS_FOLDER}/events.*",
    f"{CHECKPOINT_FOLDER}/*",
    f"{MODEL_FOLDER}/{CONFIG_FILE}",
    f"{MODEL_FOLDER}/{WEIGHTS_FILE}",
    "unseen-*-tasks.npz",
    ".*.part*",
)
"""Patterns of files that a demo writes into each world's folder; the last is of what a killed one was writing."""


def open_demo_folder(folder: Path, worlds: Iterable[str], pages: Iterable[Path], *, overwrite: bool) -> None:
    """Makes the folder of a demo; what is in it must be a demo's, and is deleted only if that is allowed.

    Args:
      folder: the folder of the demo.
      worlds: names of the worlds, each of which has a folder in it.
      pages: paths of the reports in it.
      overwrite: whether an earlier demo may be replaced.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise NotADirectoryError(f"{folder} is not a folder: name another one with --out.")
    worlds, files = list(worlds), [MARK, RESULT_FILE, *(page.name for page in pages), ".*.part"]
    if folder.exists() and any(folder.iterdir()):
        _check_ours(folder, [*files, *(f"{world}/{name}" for world in worlds for name in OF_A_WORLD)])
        if not overwrite:
            raise FileExistsError(f"{folder} holds a demo: pass --overwrite to replace it, or name another with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.name in worlds:
            shutil.rmtree(entry)
        elif entry.is_file() and entry.name != MARK:
            entry.unlink()
    with replace_file(folder / MARK) as temporary:
        temporary.write_text(json.dumps({"worlds": worlds}) + "\n")


def _check_ours(folder: Path, patterns: list[str]) -> None:
    """Raises an error if anything in the folder, however deep, is not what a demo writes."""
    marked = (folder / MARK).exists()
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue  # what is in it counts
        name = path.relative_to(folder).as_posix()
        known = any(fnmatchcase(name, pattern) for pattern in patterns)
        if not (marked and known) or path.is_symlink():
            raise FileExistsError(f"{path} was written by no demo: move it away, or name another folder with --out.")
