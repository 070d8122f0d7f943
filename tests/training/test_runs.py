"""The folder of a run: where one may start, and with what it may be resumed."""

import dataclasses
import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from compile_il.config import Config
from compile_il.model.files import RUN_FILE
from compile_il.training.runs import LOCK_FILE, RunError, holds_run, open_run

CONFIG, DATA = Config(num_iterations=100), "world symbols"


def start(folder: Path, data: str = DATA, *, resume: bool = False, **settings: Any) -> Path:
    config = dataclasses.replace(CONFIG, **settings)
    with open_run(folder, config, data, resume=resume, checkpoint_seconds=60.0):
        return folder


resume = functools.partial(start, resume=True)
MADE = {LOCK_FILE, RUN_FILE, "checkpoints", "log.jsonl", "tensorboard"}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_run_under_way_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with open_run(folder, CONFIG, DATA, resume=False, checkpoint_seconds=60.0):
        with pytest.raises(RunError, match=r"A run is under way in .*run: wait until it ends"):
            resume(folder)
        (folder / f".{RUN_FILE}.abc.part").mkdir()  # as if it were writing
        with pytest.raises(RunError, match="under way"):
            resume(folder)
        assert (folder / f".{RUN_FILE}.abc.part").exists()
    assert resume(folder) == folder


@pytest.mark.parametrize("place", ["run", "a/b/run", "."])
def test_a_run_is_started_once_and_resumed_as_often_as_one_likes(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    assert not holds_run(folder)
    assert start(folder) == folder
    assert holds_run(folder)
    written = (folder / RUN_FILE).read_text()
    assert resume(folder) == resume(folder) == folder
    assert (folder / RUN_FILE).read_text() == written
    with pytest.raises(FileExistsError, match=r"holds a run: pass resume=True \(--resume\) to go on with it"):
        start(folder)
    assert names(folder) == MADE


def test_other_things_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "lost").symlink_to(tmp_path / "missing")
    for name in ("file", "lost"):
        for act in (start, resume):
            with pytest.raises(FileExistsError, match="is not a folder: name a folder for the run"):
                act(tmp_path / name)
    with pytest.raises(FileExistsError, match="holds other things: name a folder of its own for the run"):
        start(tmp_path)
    with pytest.raises(RunError, match=r"holds no run to resume: leave out resume \(--resume\)"):
        resume(tmp_path)
    with pytest.raises(RunError, match="holds no run to resume"):
        resume(tmp_path / "nothing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "lost"]
    assert (tmp_path / "file").read_text() == "precious"


def test_a_place_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(RunError, match=r"cannot be written to \(Not a directory\): name another folder"):
        start(tmp_path / "file" / "run")


def test_a_folder_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.mkdir

    def refuse(path: Any, *more: Any) -> None:
        if str(path).endswith(".part"):
            raise PermissionError(13, "Permission denied")
        make(path, *more)

    monkeypatch.setattr("os.mkdir", refuse)
    with pytest.raises(RunError, match=r"cannot be written to \(Permission denied\): name another folder"):
        start(tmp_path / "run")


def test_what_a_killed_run_was_writing_is_swept_away(tmp_path: Path) -> None:
    def litter() -> None:
        (tmp_path / f".{RUN_FILE}.abc.part").mkdir()
        (tmp_path / ".model.abc.part" / "new").mkdir(parents=True)

    litter()
    start(tmp_path)
    litter()
    resume(tmp_path)
    assert names(tmp_path) == MADE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "world reacher"}, "was started on world symbols, and this is world reacher: give the same data"),
        ({"num_skills": 4}, r"was started with num_skills=10, and this has num_skills=4: give the same settings"),
        ({"num_segments": None}, "num_segments=3, and this has num_segments=None"),
        ({"seed": 1}, "seed=0, and this has seed=1"),
        (
            {"num_iterations": 99},
            r"num_iterations=100, and this has num_iterations=99: .* \(more iterations",
        ),
    ],
)
def test_resuming_with_something_else(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    start(tmp_path)
    written = (tmp_path / RUN_FILE).read_text()
    with pytest.raises(RunError, match=message):
        resume(tmp_path, **changes)
    assert (tmp_path / RUN_FILE).read_text() == written


def test_more_iterations_may_be_asked_for(tmp_path: Path) -> None:
    start(tmp_path)
    resume(tmp_path, num_iterations=200)
    with pytest.raises(RunError, match="num_iterations=200, and this has num_iterations=100"):
        resume(tmp_path)


def test_a_damaged_description(tmp_path: Path) -> None:
    path = start(tmp_path) / RUN_FILE
    whole = path.read_bytes()
    values = json.loads(whole)
    flips = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(0, len(whole) - 1, 7)]
    others = [{}, [], 3, None, values | {"settings": []}, values | {"sha256": 3}, {"settings": values["settings"]}]
    for damaged in [
        *(whole[:n] for n in range(0, len(whole) - 2, 50)),
        *flips,
        *(json.dumps(o).encode() for o in others),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"run.json is damaged: copy the folder again"):
            resume(tmp_path)
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    resume(tmp_path)
