"""Parts in processes of their own: all are run, so many at once, and save what they have when they are stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.paper import classic, jobs
from experiments.paper.jobs import Job, jobs_of, next_job, run_several
from experiments.paper.studies import StudyName, make_study
from tests.experiments.paper import tiny
from tests.experiments.paper.test_run import reproduce

PATIENCE = 120.0
ROOT = Path(__file__).parents[3]
UNTIL_END_OF_INPUT = "import sys; sys.stdin.read(); sys.exit(130)"
A_SLOW_PART = """
import pathlib, sys, time
from experiments.paper import classic, jobs
from tests.experiments.paper import tiny

score = classic.evaluate_cuts

def slowly(*args):  # so that there is something left to be interrupted
    time.sleep(0.3)
    return score(*args)

classic.evaluate_cuts = slowly
jobs.make_study = tiny.make_study
jobs.main(*sys.argv[1:4], pathlib.Path(sys.argv[4]))
"""


def job(study: StudyName, name: str, work: Path) -> Job:
    return Job(study, next(part for part in make_study(study, "smoke").parts if part.name == name), "smoke", work)


@pytest.fixture
def four(tmp_path: Path) -> list[Job]:
    # Three that train different models; the fourth is scored on what the second trains.
    names: list[tuple[StudyName, str]] = [("table1", "exact"), ("table1", "CompILE"), ("table1", "b-CompILE")]
    return [job(study, part, tmp_path) for study, part in [*names, ("table3", "M=3")]]  # type: ignore[arg-type]


def start_with(monkeypatch: pytest.MonkeyPatch, program: str) -> list[Job]:
    started: list[Job] = []

    def start(self: Job) -> "subprocess.Popen[bytes]":
        started.append(self)
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)

    monkeypatch.setattr(Job, "start", start)
    return started


def test_all_are_run_and_time_is_shared(four: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    started = start_with(monkeypatch, "import time; time.sleep(0.4)")
    began = time.monotonic()
    run_several(four, 2)
    elapsed = time.monotonic() - began
    assert set(started) == set(four)
    total = sum(each.seconds for each in four)
    assert elapsed - 1 < total <= elapsed + 0.05, "the time that the machine was in use"


def test_a_job_waits_for_one_that_trains_the_same(four: list[Job]) -> None:
    _, first, _, same = four
    assert next_job([same], [first]) is None
    assert next_job([same], four[:1]) == same


def test_failures_are_named_after_all_have_run(four: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(monkeypatch, "import sys; sys.exit(1)")
    with pytest.raises(
        ChildProcessError, match="table1, exact; table1, CompILE; table1, b-CompILE; table3, M=3: failed, as said above"
    ):
        run_several(four, 1)


def test_an_interruption_is_passed_on(four: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    started = start_with(monkeypatch, UNTIL_END_OF_INPUT)
    threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt, match=r"in table1, (exact|CompILE) and table1, .*; what was done is saved"):
        run_several(four, 2)
    assert started == four[:2], "no other is begun"


def test_a_process_reports_mistakes_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = job("classic", "reacher, equal lengths", tmp_path)
    one.folder.parent.parent.mkdir()
    one.folder.parent.touch()
    with one.start() as process:
        assert process.wait(PATIENCE) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: classic, reacher, equal lengths: [Errno 20] Not a directory")


def test_a_process_that_has_just_begun_is_stopped_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with job("classic", "reacher, equal lengths", tmp_path).start() as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == jobs.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_with_two_processes_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are started by `--jobs 2`, but for the study; both are stopped once one has kept something."""
    whole, work = reproduce("classic", tmp_path / "alone"), tmp_path / "work"
    popen, started = subprocess.Popen, list[list[str]]()

    def start(command: list[str], **more: Any) -> "subprocess.Popen[bytes]":
        started.append(command)
        return popen([sys.executable, "-c", A_SLOW_PART, *command[3:]], cwd=ROOT, **more)

    def interrupt_once_something_is_kept() -> None:
        deadline = time.monotonic() + PATIENCE
        while not list(work.rglob("choice-0.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(jobs, "make_study", tiny.make_study)
    monkeypatch.setattr(subprocess, "Popen", start)
    threading.Thread(target=interrupt_once_something_is_kept, daemon=True).start()
    two = jobs_of(tiny.make_study("classic", "smoke"), "smoke", work)
    with pytest.raises(KeyboardInterrupt):
        run_several(two, 2)
    again = [job for job in two if not job.is_done]
    assert again
    run_several(again, 2)
    assert len(started) == 2 + len(again)
    monkeypatch.setattr(classic.ClassicPart, "candidates", None)  # all is done
    assert reproduce("classic", tmp_path) == whole
    assert all(each.seconds > 0 for each in two)
