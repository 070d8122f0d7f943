"""Parts in processes of their own: all are run, so many at once, and stop when they are told to."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.paper import jobs as several
from experiments.paper.jobs import Job, PartError, run_several
from experiments.paper.parts import seconds_had
from tests.cli.typed import fails

PATIENCE = 120.0
COLLECTS_GARBAGE = """
import gc
import time
import tyro
from experiments.paper import jobs as part

def run_part(*_, **__):  # an interruption comes, and Python cannot pass it on
    gc.callbacks.append(interrupt)
    gc.collect()
    time.sleep(60)
    print("was not interrupted")

def interrupt(*_):
    gc.callbacks.remove(interrupt)
    raise KeyboardInterrupt

part.run_part = run_part
part.main(tyro.cli(part.Job))
"""
UNTIL_END_OF_INPUT = "import sys; sys.stdin.read(); sys.exit(130)"


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    # Three that train different models; the fourth is scored on what the second trains.
    names = [("table1", "exact"), ("table1", "CompILE"), ("table1", "b-CompILE"), ("table3", "M=3")]
    return [Job(study, part, "short", tmp_path) for study, part in names]  # type: ignore[arg-type]


def start_with(monkeypatch: pytest.MonkeyPatch, program: str, started: list[Job]) -> None:
    def start(self: Job) -> "subprocess.Popen[bytes]":
        started.append(self)
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)

    monkeypatch.setattr(Job, "start", start)


def test_all_are_run_and_time_is_shared(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Job] = []
    start_with(monkeypatch, "import time; time.sleep(0.4)", started)
    began = time.monotonic()
    run_several(jobs, 2)
    elapsed = time.monotonic() - began
    assert set(started) == set(jobs)
    seconds = [seconds_had(job.folder) for job in jobs]
    total = sum(each.share for each in seconds)
    assert all(each.share < each.by_the_clock for each in seconds)
    assert elapsed - 0.5 < total <= elapsed + 0.05, "shares add up to the time that the machine was in use"


def test_a_job_waits_for_one_that_trains_the_same(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, _, same = jobs
    assert first.find().training_hash == same.find().training_hash
    assert several._next([same], [first]) is None
    assert several._next([same], jobs[:1]) == same


def test_failures_are_told_after_all_have_run(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Job] = []
    start_with(monkeypatch, "import sys; sys.exit(1)", started)
    with pytest.raises(PartError, match="exact; CompILE; b-CompILE; M=3"):
        run_several(jobs, 1)


def test_an_interruption_is_passed_on(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Job] = []
    start_with(monkeypatch, UNTIL_END_OF_INPUT, started)
    threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run_several(jobs, 2)
    assert started == jobs[:2], "no other is begun"


def test_mistakes_are_told_in_one_line_each(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_with(monkeypatch, "import sys; sys.exit(1)", [])
    command = ["table1", "--scale", "smoke", "--jobs", "2", "--results", str(tmp_path)]
    told = fails([*command, "--work", str(tmp_path)], capsys)
    assert told.startswith("error: LSTM surprisal; CompILE; ")
    assert told.endswith("failed, as said above. What is done will not be done again.")


def test_a_process_tells_its_mistakes_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = Job("classic", "reacher, equal lengths", "smoke", tmp_path)
    job.folder.parent.parent.mkdir()
    job.folder.parent.touch()
    with job.start() as process:
        assert process.wait(PATIENCE) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: classic, reacher, equal lengths: [Errno 20] Not a directory")


@pytest.mark.parametrize("how", ["end of input", "signal"])
def test_a_process_that_has_just_begun_is_stopped_in_silence(
    how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Job("classic", "reacher, equal lengths", "smoke", tmp_path).start() as process:
        if how == "signal":
            process.send_signal(signal.SIGINT)
        elif process.stdin is not None:
            process.stdin.close()
        assert process.wait(PATIENCE) == several.INTERRUPTED
    assert capfd.readouterr() == ("", "")


def test_an_interruption_that_was_swallowed_comes_again(tmp_path: Path) -> None:
    names = ["--study=table1", "--part=exact", "--scale=smoke", f"--work={tmp_path}"]
    command = [sys.executable, "-c", COLLECTS_GARBAGE, *names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE) == several.INTERRUPTED
