"""`compile-il train`: what it says, what it refuses, and how it goes on."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import compile_il as cil
from compile_il.cli import main
from compile_il.cli.console import command_line
from compile_il.training.loop import Stopped
from compile_il.training.runs import read_log
from tests.cli.conftest import SETTINGS
from tests.cli.processes import assert_same_parameters, checkpoint_names
from tests.cli.typed import refuses


def train(source: Path | str, out: Path, *more: str) -> list[str]:
    return ["train", str(source), "--out", str(out), *SETTINGS, *more]


def test_the_end_is_printed(symbols: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run / "model")
    main(train(symbols, run, "--resume"))
    last = read_log(run)[-1]
    text = capsys.readouterr().out
    assert f"2 iterations, {last['seconds']:.0f} s; seed {last['seed']} of 2 kept, the best by held-out" in text
    assert f"{100 * last['boundary_accuracy']:.1f} % of true boundaries hit" in text
    assert f"The model: {run}; curves: tensorboard --logdir {run}" in text


def test_a_lost_log_does_not_matter(symbols: Path, run: Path, pristine_run: Path) -> None:
    (run / "log.jsonl").unlink()
    main(train(symbols, run, "--resume"))
    assert_same_parameters(run, pristine_run)


def test_damaged_checkpoints_and_the_way_out(
    symbols: Path, run: Path, pristine_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (latest,) = checkpoint_names(run)
    folder = run / "checkpoints" / latest
    model = (run / "model" / "model.safetensors").read_bytes()
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        message = refuses(train(symbols, run, "--resume"), capsys)
        assert f"The checkpoint {folder} " in message
        assert "delete that folder and resume again to start from the beginning." in message
        path.write_bytes(whole)
    assert (run / "model" / "model.safetensors").read_bytes() == model
    shutil.rmtree(folder)
    main(train(symbols, run, "--resume"))
    assert_same_parameters(run, pristine_run)
    assert [row["iteration"] for row in read_log(run)] == [1, 2]


def test_what_cannot_be_resumed(
    symbols: Path, data: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "holds a run: pass resume=True (--resume)" in refuses(train(symbols, run), capsys)
    assert "give the same data" in refuses(train(data, run, "--resume"), capsys)
    assert "num_skills=2, and this has num_skills=3" in refuses(
        train(symbols, run, "--resume", "--num-skills", "3"), capsys
    )
    assert "num_iterations=2, and this has num_iterations=1" in refuses(
        train(symbols, run, "--resume", "--num-iterations", "1"), capsys
    )
    assert "holds no run to resume" in refuses(train(symbols, tmp_path / "new", "--resume"), capsys)
    assert "is not a folder" in refuses(train(symbols, symbols), capsys)
    assert "holds other things" in refuses(train(symbols, symbols.parent), capsys)
    assert "cannot be written to" in refuses(train(symbols, symbols / "run"), capsys)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    (run / "run.json").write_text("{")
    assert "run.json is damaged" in refuses(train(symbols, run, "--resume"), capsys)


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ("symbols", ["--num-skills", "0"], "num_skills is 0: use a whole number of at least 1."),
        (
            "symbols",
            ["--num-segments", "0"],
            "num_segments is 0: use a whole number of at least 1 or 'unknown' or None.",
        ),
        ("chess", [], "chess is neither a file nor a world. Name a file, or one of grid-pickup"),
        ("grid-pikup", [], "neither a file nor a world; did you mean 'grid-pickup'? Name a file, or one of"),
        ("missing.npz", [], "missing.npz"),
        ("DATA", ["--num-segments", "5"], "has 4 steps, too few for 5 segments: lower num_segments"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    source: str, more: list[str], message: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refuses(train(source.replace("DATA", str(data)), tmp_path / "run", *more), capsys)
    assert list(tmp_path.iterdir()) == []


def test_stopping_names_the_command(
    symbols: Path, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["compile-il"])
    monkeypatch.setattr("shutil.which", lambda program: program)

    def interrupt(error: BaseException, arguments: list[str]) -> str:
        def fit(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(cil, "fit", fit)
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 130
        return capsys.readouterr().err.rstrip("\n")

    arguments = train(symbols, run, "--seed", "7")
    again = f"To go on: {shlex.join(['compile-il', *arguments, '--resume'])}"
    assert interrupt(Stopped(3, 9), arguments) == f"stopped after iteration 3 of 9; all is saved. {again}"
    assert interrupt(Stopped(3, 9), [*arguments, "--resume"]).endswith(again)
    assert interrupt(KeyboardInterrupt(), arguments) == f"stopped at once; what was saved before is kept. {again}"
    nothing = interrupt(KeyboardInterrupt(), train(symbols, run / "new"))
    assert nothing == "stopped; nothing half-written is left behind"


def test_demonstrations_may_have_more_tasks_than_segments(
    symbols: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those have of which agents clone whole demonstrations."""
    made = []

    def fit(demos: Any, **_: Any) -> None:
        made.append(demos)

    monkeypatch.setattr(cil, "fit", fit)
    monkeypatch.setattr("compile_il.training.runs.read_log", lambda _: [])
    main(train("grid-pickup", tmp_path, "--num-segments", "1", "--num-tasks", "5"))
    main(train("grid-pickup", tmp_path, "--num-segments", "1"))
    assert (made[0].kind, made[0].num_tasks, made[0].max_steps) == ("pickup", 5, 42)
    assert made[1] == "grid-pickup"
    capsys.readouterr()
    assert "--num-tasks is for worlds" in refuses(train(symbols, tmp_path, "--num-tasks", "3"), capsys)


@pytest.mark.parametrize("word", ["unknown", "None"])
def test_the_number_of_segments_may_be_unknown(word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = []
    monkeypatch.setattr(cil, "fit", lambda *_, config, **__: given.append(config))
    monkeypatch.setattr("compile_il.training.runs.read_log", lambda _: [])
    main(train("grid-pickup", tmp_path, "--num-segments", word))
    assert given[0].num_segments is None


def test_commands_are_those_that_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, module = tmp_path / "compile-il", [sys.executable, "-m", "compile_il"]
    program.touch(mode=0o755)
    for started, on_path, expected in (
        ("/lib/compile_il/__main__.py", True, module),
        (str(program), True, ["compile-il"]),
        (str(program), False, module),
    ):
        monkeypatch.setattr(sys, "argv", [started])
        monkeypatch.setenv("PATH", str(tmp_path) if on_path else "")
        line = command_line(["train", "it's a file", "--out", "$x"])
        assert shlex.split(line) == [*expected, "train", "it's a file", "--out", "$x"]


def test_rows_are_plain_json(pristine_run: Path) -> None:
    for line in (pristine_run / "log.jsonl").read_text().splitlines():
        row = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        assert len(row["by_seed"]) == 2
