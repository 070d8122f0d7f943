"""The command, as a person types it."""

from pathlib import Path

import pytest

import compile_il as cil
from compile_il.cli import main


def test_generate_writes_what_demonstrate_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pickup.npz"
    main(["generate", "grid-pickup", "--num-demos", "20", "--num-tasks", "2", "--out", str(out)])
    assert cil.Demonstrations.load(out) == cil.demonstrate("grid-pickup", num_demos=20, num_tasks=2)
    assert "20 episodes" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["pickup.npz"]


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code not in (0, None)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return " ".join((captured.out + captured.err).replace("│", " ").split())


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.npz"
    out.write_text("precious")
    arguments = ["generate", "symbols", "--num-demos", "3", "--out", str(out)]
    assert "exists" in fails(arguments, capsys)
    assert out.read_text() == "precious"
    main([*arguments, "--overwrite"])
    assert len(cil.Demonstrations.load(out)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grid-pickup", "--num-tasks", "9"], "9 pick-ups need as many objects"),
        (["grid-pickup", "--num-demos", "0"], "num_demos is 0"),
        (["reacher", "--num-objects", "3"], "no option 'num_objects'"),
        (["chess"], "grid-pickup"),
        (["grid-pickup", "--num-demos", "many"], "many"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fails(["generate", *arguments, "--out", str(tmp_path / "x.npz")], capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_told_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(["generate", "symbols", "--out", str(tmp_path / "no" / "x.npz"), "--num-demos", "1000000"], capsys)
    assert "no folder" in text


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ("generate", "demo", "Demonstrations in, skills out"):
        assert word in text


def test_demo_draws_every_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--out", str(tmp_path / "demo"), "--num-demos", "5"])
    written = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert written == ["grid-pickup.npz", "grid-visit.npz", "reacher.npz", "symbols.npz", "worlds.png"]
    assert (tmp_path / "demo" / "worlds.png").read_bytes().startswith(b"\x89PNG")
    assert "exists" in fails(["demo", "--out", str(tmp_path / "demo"), "--num-demos", "5"], capsys)
