"""Result files: what is in them, and which repository they are said to come from."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from compile_il.evaluation import results
from compile_il.evaluation.results import UNKNOWN_COMMIT, Measurement, commit, commit_of, write_result


def git(folder: Path, *command: str) -> str:
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ("git", "-C", str(folder), *who, *command)
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def repository(top: Path) -> Path:
    """Makes a repository of one commit with one file."""
    top.mkdir()
    (top / "file").write_text("")
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "Begin")
    return top


def test_the_commit_is_that_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = repository(tmp_path / "ours"), repository(tmp_path / "theirs")
    git(ours, "commit", "--allow-empty", "--quiet", "--message", "Go on")
    expected = git(ours, "rev-parse", "--short=12", "HEAD")
    git(ours, "worktree", "add", "--quiet", "--detach", str(tmp_path / "beside"))
    monkeypatch.setenv("GIT_DIR", str(theirs / ".git"))  # as in a hook of another repository
    assert commit_of(ours) == commit_of(tmp_path / "beside") == expected
    (ours / "file").write_text("changed")
    assert commit_of(ours) == f"{expected}-dirty"


def test_a_repository_around_an_installed_package_is_not_believed(tmp_path: Path) -> None:
    installed = repository(tmp_path / "theirs") / ".venv" / "lib" / "python3.11"
    installed.mkdir(parents=True)
    assert commit_of(installed) == UNKNOWN_COMMIT


def test_a_measurement_is_of_the_version_that_began_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is committed while it runs; and nobody is asked before it begins."""
    versions = iter(["first", "second"])
    monkeypatch.delenv("COMPILE_IL_COMMIT", raising=False)
    monkeypatch.setattr(results, "commit_of", lambda checkout: next(versions))
    commit.cache_clear()
    try:
        measurement = Measurement()
        assert next(versions) == "second", "it has been asked for"
        for name in ("early", "late"):
            measurement.write(tmp_path / name, config={}, seeds=range(2), figures={})
    finally:
        commit.cache_clear()
    early, late = (json.loads((tmp_path / name).read_text()) for name in ("early", "late"))
    assert (early["commit"], late["commit"]) == ("first", "first")
    assert early["seeds"] == [0, 1]
    assert early["wall_time"] <= late["wall_time"]


def test_results_say_where_they_come_from(tmp_path: Path) -> None:
    write_result(tmp_path / "r" / "x.json", config={"batch": 2}, seeds=[0], wall_time=1.234, figures={"rate": 5})
    result = json.loads((tmp_path / "r" / "x.json").read_text())
    assert set(result) == {"config", "commit", "seeds", "hardware", "wall_time", "finished", "figures"}
    assert result["figures"] == {"rate": 5}
    assert result["hardware"]["platform"] == "cpu"
    assert result["commit"]


def test_numbers_of_a_result_stand_in_one_line(tmp_path: Path) -> None:
    figures = {
        "curve": [[0.5, None, 1], [-1e-3, True]],
        "words": ["a [\n1,\n 2]", "b"],
        "none": [],
        "deep": [{"x": [1, 2]}],
    }
    write_result(tmp_path / "x.json", config={}, seeds=[0, 1], wall_time=1.0, figures=figures)
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text)["figures"] == figures
    assert '"seeds": [0, 1],\n' in text
    assert "      [0.5, null, 1],\n      [-0.001, true]\n" in text
