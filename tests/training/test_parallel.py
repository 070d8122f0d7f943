"""Many devices and several processes train as one device does."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from compile_il.cli import main
from compile_il.config import ConfigError
from compile_il.model.files import MODEL_FOLDER
from compile_il.training.devices import join_hosts, make_mesh, shares_in_words
from tests.training.parallel_run import both_engines

LIMIT = 600
"""Seconds after which a process is given up."""


def launch(*arguments: str) -> "subprocess.Popen[str]":
    cache = {"JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir or "")}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.parallel_run", *arguments],
        env=os.environ | cache,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def launch_two(what: str, out: Path) -> "list[subprocess.Popen[str]]":
    """Two processes that find each other."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    return [launch(what, str(out), str(i), port) for i in range(2)]


def finish(process: "subprocess.Popen[str]", code: int = 0) -> str:
    try:
        printed, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == code, printed
    return printed


@functools.cache
def alone() -> dict[str, dict[str, Any]]:
    """What one device of one process finds, with either engine."""
    return both_engines(1)


def assert_same(found: dict[str, dict[str, Any]], num_devices: int) -> None:
    """Either engine, on all of so many devices, finds what it finds alone."""
    assert set(found) == {"relaxed", "exact"}
    for engine in found:
        expected = alone()[engine]
        assert (found[engine]["devices"], expected["devices"]) == (num_devices, 1), engine
        assert len(set(np.ravel(expected["losses"]))) == 4, engine
        np.testing.assert_allclose(found[engine]["losses"], expected["losses"], rtol=1e-5, err_msg=engine)
        least = 1e-5 * np.abs(expected["gradients"]).max()
        np.testing.assert_allclose(
            found[engine]["gradients"], expected["gradients"], rtol=1e-3, atol=least, err_msg=engine
        )


def test_eight_devices_train_as_one(tmp_path: Path) -> None:
    finish(launch("devices", str(tmp_path / "found.json")))
    found = json.loads((tmp_path / "found.json").read_text())
    assert_same(found, 8)
    assert all(all(each["awaited"]) for each in found.values()), "with steps piling up, simulated devices can deadlock"


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    for process in launch_two("processes", tmp_path / "out"):
        finish(process)
    first, second = (json.loads((tmp_path / f"out.{i}.json").read_text()) for i in range(2))
    assert first == second
    assert_same(first["engines"], 2)
    assert (tmp_path / "whole" / MODEL_FOLDER).is_dir()
    assert len((tmp_path / "whole" / "log.jsonl").read_text().splitlines()) == 4
    stopped = "after iteration 2 of 4; all is saved, and can be used as it is."
    assert first["stopped"] == stopped  # where Ctrl-C in one of them stops both
    np.testing.assert_allclose(first["resumed"], first["whole"], rtol=1e-6)


def test_hosts_that_cannot_train_together_say_why(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").touch()
    printed = [finish(process, code=1) for process in launch_two("refusals", tmp_path / "out")]
    first, second = (json.loads((tmp_path / f"out.{i}.json").read_text()) for i in range(2))
    data = r"20 demonstrations, sha256 \w+"
    for host, messages in enumerate((first, second)):
        assert re.search(rf"these differ: data is {data} here\. Start all", messages["data"])
        settings = f"num_skills is {3 + host} here, learning_rate is {host + 0.01} here."
        assert f"these differ: {settings}" in messages["settings"]
    assert "taken holds other things" in first["folder"]
    assert second["folder"].startswith("HostError: Training could not begin on host 0: see the error there")
    assert "error: Training could not begin on host 1" in printed[0]
    assert "missing.npz" in printed[1]
    assert not (tmp_path / "new").exists()


def test_shares_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "devices", lambda: [jax.local_devices()[0]] * 6)
    assert [make_mesh(None, size).size for size in (32, 12, 9, 7, 5, 1)] == [4, 6, 3, 1, 5, 1]
    assert make_mesh(3, 9).size == 3
    with pytest.raises(ConfigError, match=r"A batch of 32 cannot be shared equally by 3 devices"):
        make_mesh(3, 32)
    with pytest.raises(ConfigError, match=r"num_devices is 7, and there are 6"):
        make_mesh(7, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coordinator": "first"}, r"coordinator is 'first': name the first host and a free port"),
        ({"coordinator": "first:port"}, r"coordinator is 'first:port'"),
        ({"coordinator": "first:1"}, r"num_hosts is None: say how many"),
        ({"coordinator": "first:1", "num_hosts": 2}, r"host is None: number the hosts from 0 to 1"),
        ({"coordinator": "first:1", "num_hosts": 2, "host": 2}, r"host is 2: number the hosts from 0 to 1"),
    ],
)
def test_hosts_must_differ(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        join_hosts(**arguments)


def test_hosts_are_joined_from_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    joined: list[Any] = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *args, **kwargs: joined.append((args, kwargs)))
    with pytest.raises(SystemExit):  # the file is looked for when the others have been found
        main(f"train {tmp_path}/none.npz --out {tmp_path}/run --coordinator first:1 --num-hosts 2 --host 1".split())
    assert joined == [(("first:1",), {"num_processes": 2, "process_id": 1})]


def test_hosts_without_a_meeting_point_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["train", "symbols", "--out", str(tmp_path / "run"), "--num-hosts", "2"])
    assert "--coordinator first-host:1234" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("used", "there", "batch_size", "words"),
    [
        (1, 1, 32, None),
        (8, 8, 32, "8 devices share each batch."),
        (1, 8, 32, "1 of 8 devices share each batch."),
        (2, 6, 32, "2 of 6 devices share each batch: to use all, make batch_size a multiple of 6."),
    ],
)
def test_the_number_of_working_devices_in_words(used: int, there: int, batch_size: int, words: str | None) -> None:
    assert shares_in_words(used, there, batch_size) == words
