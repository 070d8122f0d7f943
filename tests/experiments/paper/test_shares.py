"""Seconds of a part: they add up, survive the death of a process, and are not made up where they are lost."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.paper import parts as shares
from experiments.paper.parts import FILE, SecondsError, add_seconds, counted, seconds_had

KILLED = """
import os, pathlib, signal, sys, time
from experiments.paper import parts as shares
shares.TICK = 0.05
with shares.counted(pathlib.Path(sys.argv[1])):
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_small_stretches_add_up(tmp_path: Path) -> None:
    for _ in range(100):
        add_seconds(tmp_path, 0.2, at_once=3)
    assert seconds_had(tmp_path) == pytest.approx((100 * 0.2 / 3, 20.0))


def test_seconds_add_up(tmp_path: Path) -> None:
    folder = tmp_path / "part"
    assert seconds_had(folder) == (0, 0)
    add_seconds(folder, 3.0, at_once=2)
    with pytest.raises(KeyError), counted(folder):
        raise KeyError
    assert seconds_had(folder) == pytest.approx((1.5, 3.0), abs=0.1)


def test_time_is_not_lost_with_the_process(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = seconds_had(tmp_path)
    assert 0.3 < before.share == before.by_the_clock
    with counted(tmp_path):
        time.sleep(0.02)
    assert before.share + 0.02 <= seconds_had(tmp_path).share < before.share + 1


def test_time_is_written_down_as_it_passes_and_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, fails = shares.write_atomically, iter([False, True, True])

    def fail_at_times(path: Path) -> contextlib.AbstractContextManager[Path]:
        if next(fails, False):
            raise OSError("no space left")
        return replace(path)

    monkeypatch.setattr(shares, "TICK", 0.02)
    monkeypatch.setattr(shares, "write_atomically", fail_at_times)
    began = time.monotonic()
    with counted(tmp_path):
        inside = time.monotonic()
        while seconds_had(tmp_path).share < 0.2:
            assert time.monotonic() < began + 10
            time.sleep(0.01)
        least = time.monotonic() - inside
    assert least <= seconds_had(tmp_path).share <= time.monotonic() - began
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("text", ["", '{"share": 1', "[]", '{"share": 1}', '{"share": null, "by_the_clock": 1}'])
def test_damage_is_told_with_the_file(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    for use in (seconds_had, lambda folder: add_seconds(folder, 1.0), lambda folder: counted(folder).__enter__()):
        with pytest.raises(SecondsError, match=re.escape(f"{tmp_path / FILE} does not hold the time") + ".*Delete it"):
            use(tmp_path)
    assert (tmp_path / FILE).read_text() == text
