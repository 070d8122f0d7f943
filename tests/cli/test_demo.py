"""`compile-il demo`: the whole way once; it deletes nothing but what a demo wrote."""

import re
from pathlib import Path

import pytest

import compile_il as cil
from compile_il.cli import main, worlds
from compile_il.cli.worlds import MARK, PAPER_UNSUPERVISED
from experiments.paper import published
from tests.cli.typed import refuses

TINY = ["--num-iterations", "2", "--num-demos", "8"]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_demo(folder: Path, num_columns: int, worlds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A demo, what it leaves, and that another one replaces it only with --overwrite."""
    main(["demo", "--out", str(folder), *TINY])
    captured = capsys.readouterr()
    table = [line for line in captured.out.splitlines() if line[0] in "┃│"]
    assert len(table[0].split("┃")) == 3 + num_columns
    assert max(map(len, table)) <= 80
    assert "2/2" in captured.err, "there was no bar"
    for world in worlds:
        assert cil.load(folder / world).config.num_segments == 3
        assert len(cil.Demonstrations.load(folder / world / "unseen-3-tasks.npz")) == 8
    pages = re.search(r"Look at (.*)", captured.out)
    assert pages is not None
    assert all(Path(page).read_text().startswith("<!") for page in pages[1].split(" and "))
    before = contents(folder)
    assert "holds a demo: pass --overwrite" in refuses(["demo", "--out", str(folder), *TINY], capsys)
    assert contents(folder) == before


def test_demo_goes_the_whole_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "DEMO_WORLDS", {"symbols": 2})
    monkeypatch.setattr(worlds, "TEST_TASKS", (3,))
    run_demo(tmp_path / "demo", 1, ["symbols"], capsys)
    (tmp_path / "demo" / "symbols" / "log.jsonl").write_text("old")
    main(["demo", "--out", str(tmp_path / "demo"), "--overwrite", *TINY])
    assert "old" not in (tmp_path / "demo" / "symbols" / "log.jsonl").read_text()


@pytest.mark.slow
def test_demo_of_both_worlds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_demo(tmp_path / "demo", 4, ["grid-pickup", "reacher"], capsys)


@pytest.mark.parametrize("name", ["notes.txt", "report.html", "reacher/run.json"])
def test_demo_deletes_nothing_in_a_folder_of_others(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("precious")
    before = contents(tmp_path)
    for more in ([], ["--overwrite"]):
        assert "was not made by a demo" in refuses(["demo", "--out", str(tmp_path), *more], capsys)
    assert contents(tmp_path) == before


def test_demo_follows_no_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").write_text("precious")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / MARK).touch()
    (tmp_path / "demo" / "reacher").symlink_to(tmp_path / "mine")
    assert "symbolic link" in refuses(["demo", "--out", str(tmp_path / "demo"), "--overwrite"], capsys)
    assert (tmp_path / "mine" / "run.json").read_text() == "precious"


def test_demo_makes_no_folder_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, name in (("--num-demos", "--num-demos"), ("--num-iterations", "num_iterations")):
        assert f"{name} is 0" in refuses(["demo", "--out", str(tmp_path / "demo"), option, "0"], capsys)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("precious")
    (tmp_path / "lost").symlink_to(tmp_path / "missing")
    for name in ("file", "lost"):
        assert f"{name} was not made by a demo" in refuses(["demo", "--out", str(tmp_path / name)], capsys)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_stopped_demo_names_how_to_start_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cil, "fit", stop)
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--out", str(tmp_path / "demo")])
    assert ended.value.code == 130
    printed = capsys.readouterr().err
    assert printed.startswith("stopped before the demo was complete. To start it again: ")
    assert printed.rstrip().endswith(f"demo --out {tmp_path / 'demo'} --overwrite")


def test_figures_of_the_paper_are_those_of_its_table() -> None:
    for (_, tasks), figure in PAPER_UNSUPERVISED.items():
        assert figure == published.printed("table1", "CompILE", tasks, "boundary_accuracy")
