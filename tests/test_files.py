"""Nothing half-written is ever seen."""

import json
from pathlib import Path

import pytest

from compile_il.files import check_target, replace_file
from compile_il.results import write_result


def test_replace_file_keeps_the_old_one_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    target.write_text("old")

    def write_half() -> None:
        with replace_file(target) as temporary:
            temporary.write_text("half of the n")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_replace_file_swaps_in_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    with replace_file(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o077, "others on the machine cannot read it"


def test_check_target(tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert check_target(file, overwrite=False) == file
    file.write_text("")
    assert check_target(file, overwrite=True) == file
    with pytest.raises(FileExistsError, match="overwrite"):
        check_target(file, overwrite=False)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_target(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="no folder"):
        check_target(tmp_path / "b" / "c", overwrite=False)


def test_results_say_where_they_come_from(tmp_path: Path) -> None:
    write_result(tmp_path / "r" / "x.json", config={"batch": 2}, seeds=[0], wall_time=1.234, figures={"rate": 5})
    result = json.loads((tmp_path / "r" / "x.json").read_text())
    assert set(result) == {"config", "commit", "seeds", "hardware", "wall_time", "finished", "figures"}
    assert result["figures"] == {"rate": 5}
    assert result["hardware"]["platform"] == "cpu"
    assert result["commit"]
