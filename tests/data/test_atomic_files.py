"""Nothing half-written is ever seen."""

import os
from pathlib import Path

import pytest

from compile_il.data.files import check_target, write_atomically


def test_write_atomically_keeps_the_old_one_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    target.write_text("old")

    def write_half() -> None:
        with write_atomically(target) as temporary:
            temporary.write_text("half of the n")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_write_atomically_swaps_in_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    with write_atomically(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o077, "others on the machine cannot read it"


def test_new_files_have_the_rights_that_the_umask_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        # It is that of all threads, which would make files with other rights meanwhile.
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is changed"))
        with write_atomically(tmp_path / "new") as temporary:
            temporary.write_text("")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


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


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    assert not check_target(tmp_path / "a", overwrite=False).exists()
    assert not list(tmp_path.iterdir()), "the trial is gone"
    file = tmp_path / ("a" * 250)  # with room for its own name, but not for that of a file beside it
    with pytest.raises(OSError, match=rf"{file} cannot be written \(File name too long\): name a file somewhere"):
        check_target(file, overwrite=False)


def test_a_link_stays_and_what_it_points_at_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, real = tmp_path / "link", tmp_path / "far" / "real"
    link.symlink_to(Path("far") / "real")
    for content in ("made", "replaced"):  # the link is dangling at first
        assert check_target(link, overwrite=content == "replaced") == link
        with write_atomically(link) as temporary:
            temporary.write_text(content)
        assert link.is_symlink()
        assert not real.is_symlink()
        assert real.read_text() == content
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["real"]
    with pytest.raises(FileExistsError, match="link exists"):
        check_target(link, overwrite=False)


def test_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lost").symlink_to(tmp_path / "missing" / "file")
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing"):
        check_target(tmp_path / "lost", overwrite=True)


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(FileExistsError, match="a device, a pipe or a socket, which is never replaced"):
            check_target(path, overwrite=True)
        with pytest.raises(FileExistsError, match="never replaced"), write_atomically(path):
            pytest.fail("a place to write to was given")
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_is_no_folder_to_write_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileNotFoundError, match=r"no folder .*file: make it first"):
        check_target(tmp_path / "file" / "x", overwrite=True)


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*names: str) -> None:
        with write_atomically(tmp_path / "model") as new:
            new.mkdir()
            for name in names:
                (new / name).touch()

    write("a", "b")
    write("c")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["c"]
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name == target.name == "model":
            raise OSError("power cut")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="power cut"):
        write("d")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/c"]
