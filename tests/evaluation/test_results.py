"""Result files: what is in them, and which repository they are said to come from."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from compile_il.evaluation import results
from compile_il.evaluation.results import ELSEWHERE, UNKNOWN_COMMIT, Measurement, commit, commit_of, write_result

OURS = '[project]\nname = "compile-il"\n'


def git(folder: Path, *command: str) -> str:
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    local_copy = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    command = ("git", "-C", str(folder), *who, *command)
    return subprocess.run(command, capture_output=True, text=True, check=True, env=local_copy).stdout.strip()


def repository(top: Path, pyproject: str, package: str = "src/compile_il") -> Path:
    """A repository of one commit that holds a package, whose folder is returned."""
    folder = top / package
    folder.mkdir(parents=True)
    (folder / "results.py").write_text("")
    (top / "pyproject.toml").write_text(pyproject)
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "Begin")
    return folder


def test_the_commit_is_that_of_our_sources(tmp_path: Path) -> None:
    top = tmp_path / "ours"
    package = repository(top, OURS)
    expected = git(top, "rev-parse", "--short=12", "HEAD")
    assert commit_of(package) == expected
    (package / "results.py").write_text("changed")
    assert commit_of(package) == f"{expected}-dirty"


def test_it_is_found_in_another_worktree(tmp_path: Path) -> None:
    top = tmp_path / "ours"
    repository(top, OURS)
    git(top, "worktree", "add", "--quiet", "--detach", str(tmp_path / "beside"))
    assert commit_of(tmp_path / "beside" / "src" / "compile_il") == git(top, "rev-parse", "--short=12", "HEAD")


@pytest.mark.parametrize(
    ("pyproject", "package"),
    [
        ('[project]\nname = "theirs"\n', ".venv/lib/python3.11/site-packages/compile_il"),
        (OURS, ".venv/lib/python3.11/site-packages/compile_il"),
        ('[project]\nname = "theirs"\n', "src/compile_il"),
        ("no TOML [", "src/compile_il"),
    ],
)
def test_a_repository_around_an_installed_package_is_not_believed(pyproject: str, package: str, tmp_path: Path) -> None:
    assert commit_of(repository(tmp_path, pyproject, package)) == UNKNOWN_COMMIT


def test_a_copy_in_a_folder_of_another_repository_is_not_believed(tmp_path: Path) -> None:
    package = repository(tmp_path, OURS, "copied/src/compile_il")
    (tmp_path / "copied" / "pyproject.toml").write_text(OURS)
    assert commit_of(package) == UNKNOWN_COMMIT


def test_a_hook_of_another_repository_does_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path / "theirs", '[project]\nname = "theirs"\n')
    package = repository(tmp_path / "ours", OURS)
    expected = git(tmp_path / "ours", "rev-parse", "--short=12", "HEAD")
    (tmp_path / "theirs" / "another").write_text("")
    git(tmp_path / "theirs", "add", "--all")
    git(tmp_path / "theirs", "commit", "--quiet", "--message", "Go on")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs" / ".git"))
    assert commit_of(package) == expected


def test_a_measurement_is_of_the_version_that_began_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is committed while it runs; and nobody is asked before it begins."""
    versions = iter(["first", "second"])
    monkeypatch.delenv("COMPILE_IL_COMMIT", raising=False)
    monkeypatch.setattr(results, "commit_of", lambda package: next(versions))
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
