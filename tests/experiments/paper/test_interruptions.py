"""Whatever is interrupted, and wherever, gives the same results file once it has been started again."""

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compile_il.training.trainer import Trainer
from experiments.paper import classic as older
from experiments.paper import jobs as several
from experiments.paper import parts
from experiments.paper import parts as shares
from experiments.paper import parts as versions
from experiments.paper import run as runner
from experiments.paper.jobs import Job, jobs_left, run_several
from tests.experiments.paper import tiny

PATIENCE = 60.0
ROOT = Path(__file__).parents[3]
NETWORKS, CLASSIC = "table1", "classic"
A_PART = """
import time
import tyro
from experiments.paper import jobs as part
from experiments.paper import classic as older, jobs as several
from tests.experiments.paper import tiny

score = older.evaluate_cuts

def slowly(*args):  # so that there is something left to be interrupted
    time.sleep(0.3)
    return score(*args)

older.evaluate_cuts = slowly
several.make_study = tiny.make_study
part.main(tyro.cli(several.Job))
"""


def reproduce(name: Any, folder: Path) -> dict[str, Any]:
    """Runs what is left to run; work and result are in the folder."""
    study = tiny.make_study(name, "smoke")
    return without_times(runner.reproduce(study, "smoke", work=folder / "work", out=folder / f"{name}.json", say=print))


def without_times(result: Any) -> Any:
    """A result file less the times in it, at any depth."""
    if not isinstance(result, dict):
        return result
    times = {"wall_time", "clock_time", "finished", "training_seconds"}
    return {key: without_times(value) for key, value in result.items() if key not in times}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The result of a study that nobody has interrupted."""
    return functools.cache(lambda name: reproduce(name, tmp_path_factory.mktemp(name)))


def interrupt_call(number: int, where: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Interrupts one call of a function, the first, second, ... as it begins; all its calls are noted."""
    function, calls = getattr(where, what), []

    def interrupted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        if len(calls) == number:
            raise KeyboardInterrupt
        return function(*args, **more)

    monkeypatch.setattr(where, what, interrupted)
    return calls


@pytest.mark.parametrize(
    ("name", "where", "what", "number", "calls_in_all"),
    [
        # Each of two parts has two seeds; a part is scored whole or not at all ...
        pytest.param(NETWORKS, parts, "evaluate", 2, 2 + 4, id="while a network is scored"),
        # ... but what an older method has been fitted to is kept: two seeds with 3 and 5 tasks.
        pytest.param(CLASSIC, older, "evaluate_cuts", 4, 4 + 6, id="while an older method is scored"),
        pytest.param(NETWORKS, runner, "run_part", 2, 2 + 2, id="between networks"),
        pytest.param(CLASSIC, runner, "run_part", 2, 2 + 2, id="between older methods"),
        pytest.param(NETWORKS, parts, "train_models", 2, 2 + 1, id="before the second network is trained"),
    ],
)
def test_an_interruption_changes_nothing(
    name: str,
    where: Any,
    what: str,
    number: int,
    calls_in_all: int,
    undisturbed: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = undisturbed(name)
    calls = interrupt_call(number, where, what, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        reproduce(name, tmp_path)
    assert not (tmp_path / f"{name}.json").exists()
    assert reproduce(name, tmp_path) == whole
    assert len(calls) == calls_in_all
    assert_clean(tmp_path)


@pytest.mark.parametrize("name", [NETWORKS, CLASSIC])
def test_interruptions_before_every_renaming_change_nothing(
    name: str, undisturbed: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is written beside its place; each time one is to take it for the first time, somebody interrupts."""
    whole, replace, met = undisturbed(name), Path.replace, list[Path]()

    def interrupted(self: Path, target: Path) -> Path:
        # Seconds are replaced again and again, by a thread, which no Ctrl-C reaches.
        if target.name != shares.FILE and target not in met:
            met.append(target)
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    found = None
    while found is None:
        try:
            found = reproduce(name, tmp_path)
        except KeyboardInterrupt:
            assert not (tmp_path / f"{name}.json").exists()
    assert found == whole
    names = [path.name for path in met]
    assert names.count(parts.DONE) == 2
    assert names.count(f"{name}.json") == 1
    if name == NETWORKS:
        assert names.count(versions.FILE) == 2
        assert any(map(str.isdecimal, names)), "no checkpoint was written"
    else:
        assert {"choice-0.json", "seed-0.json", "seed-1.json"} <= set(names)
    assert_clean(tmp_path)


def assert_clean(folder: Path) -> None:
    """Nothing half-written is left."""
    assert not [path for path in folder.rglob("*") if path.name.endswith(".part")]


def test_ctrl_c_in_training_changes_nothing(
    undisturbed: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models of four iterations: while the first is trained, in its last iteration, while the second is."""
    whole = undisturbed(NETWORKS)
    step, steps = Trainer.step, []

    def interrupted(self: Trainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) in (2, 4, 7):
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    monkeypatch.setattr(Trainer, "step", interrupted)
    for after in (2, 4, 3):
        with pytest.raises(KeyboardInterrupt, match=f"after iteration {after} of 4"):
            reproduce(NETWORKS, tmp_path)
        assert not (tmp_path / f"{NETWORKS}.json").exists()
    assert reproduce(NETWORKS, tmp_path) == whole
    assert steps == [0, 1, 2, 3, 0, 1, 2, 3]


def test_ctrl_c_with_two_processes_changes_nothing(
    undisturbed: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are started by `--jobs 2`, but for the study; both are told to stop once one has kept something."""
    whole, work = undisturbed(CLASSIC), tmp_path / "work"
    popen, started = subprocess.Popen, list[list[str]]()

    def start(command: list[str], **more: Any) -> "subprocess.Popen[bytes]":
        started.append(command)
        return popen([sys.executable, "-c", A_PART, *command[3:]], cwd=ROOT, **more)

    def interrupt_once_something_is_kept() -> None:
        deadline = time.monotonic() + PATIENCE
        while not list(work.rglob("choice-0.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(several, "make_study", tiny.make_study)
    monkeypatch.setattr(subprocess, "Popen", start)
    threading.Thread(target=interrupt_once_something_is_kept, daemon=True).start()
    jobs = jobs_left((CLASSIC,), "smoke", work)
    assert len(jobs) == 2
    with pytest.raises(KeyboardInterrupt):
        run_several(jobs, 2)
    left = jobs_left((CLASSIC,), "smoke", work)
    assert left
    run_several(left, 2)
    assert len(started) == 2 + len(left)
    monkeypatch.setattr(older, "candidates", None)  # all is done
    assert reproduce(CLASSIC, tmp_path) == whole
    seconds = [shares.seconds_had(Job(CLASSIC, job.part, "smoke", work).folder) for job in jobs]
    assert all(0 < each.share < each.by_the_clock for each in seconds)
