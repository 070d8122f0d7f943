"""`compile-il segment`, `evaluate` and `report`: what a trained model is good for."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import compile_il as cil
from compile_il.cli import main
from compile_il.cli.evaluate import score_table
from compile_il.evaluate import Evaluation
from tests.cli.typed import fails, refuses


def test_segment_writes_what_the_model_finds(
    pristine_run: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, demos = tmp_path / "found.jsonl", cil.Demonstrations.load(symbols)
    arguments = ["segment", str(pristine_run), str(symbols), "--out", str(out)]
    main(arguments)
    text = " ".join(capsys.readouterr().out.split())
    found = cil.load(pristine_run).segment(demos)
    assert f"{found.num_segments.sum()} segments in 12 demonstrations" in text
    assert f"{100 * cil.score(found, demos).boundary_accuracy:.1f} % of true boundaries hit" in text
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["boundaries"] for row in rows] == [inner.tolist() for inner in found.boundaries]
    assert [row["skills"] for row in rows] == [skills.tolist() for skills in found.skills]
    np.testing.assert_allclose([row["log_likelihood"] for row in rows], found.log_likelihood)
    assert [len(row["boundary_probs"]) for row in rows] == demos.lengths.tolist()
    assert "exists" in refuses(arguments, capsys)
    main([*arguments, "--overwrite", "--num-segments", "unknown"])
    assert [path.name for path in tmp_path.iterdir()] == ["found.jsonl"]


def test_evaluate_prints_and_writes_scores(
    pristine_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scores.json"
    typed = ["evaluate", str(pristine_run), "symbols", "--num-tasks", "2", "--num-demos", "4", "--out", str(out)]
    main(typed)
    text = capsys.readouterr().out
    (name,) = figures = json.loads(out.read_text())["figures"]
    assert name == "symbols, 2 tasks"
    assert f"{100 * figures[name]['boundary_accuracy']:.1f}" in text
    assert "online" not in text, "nothing acts in the world of symbols"
    assert "exists" in refuses(typed, capsys)


def test_report_shows_the_curves_of_the_run(
    pristine_run: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    typed = ["report", str(pristine_run), str(symbols), "--out", str(out)]
    main(typed)
    assert out.read_text().startswith("<!")
    assert str(out) in capsys.readouterr().out
    assert "exists" in refuses(typed, capsys)
    assert "name at least one file" in refuses(["report", str(pristine_run), "--out", str(tmp_path / "x")], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("command", ["segment", "report"])
def test_models_and_demonstrations_that_do_not_fit(
    command: str, run: Path, data: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    def refused(model: Path, demos: Path) -> str:
        return refuses([command, str(model), str(demos), "--out", str(out)], capsys)

    assert "These demonstrations differ from those the model was trained on: shape (2,) and not (0,)" in refused(
        run, data
    )
    assert "cannot be read" in refused(tmp_path / "nothing", symbols)
    weights = run / "model" / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:99] + bytes([whole[99] ^ 1]) + whole[100:], b""):
        weights.write_bytes(damaged)
        assert f"{weights} does not hold the bytes" in refused(run, symbols)
    shutil.rmtree(run / "model")
    assert "holds a run that has not ended yet: go on with it" in refused(run, symbols)
    assert not out.exists()


def test_evaluate_refuses(pristine_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["evaluate", str(pristine_run)]
    assert "--num-demos is 0" in refuses([*typed, "symbols", "--num-demos", "0"], capsys)
    assert "grid-pickup" in fails([*typed, "chess"], capsys)


def test_the_table_of_scores_fits_into_80_columns() -> None:
    full = Evaluation(1, 1, 1, 1, 1, 1, 1)
    scores = {f"{world}, {n} tasks": full for world in ("grid-pickup", "reacher") for n in (3, 15)}
    scores["reacher, 3 tasks"] = full._replace(reconstruction=None, exact_match=None)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(score_table(scores, {"reacher, 3 tasks": "62.0 ± 4.5"}))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 5 + 8, "something was wrapped"
    assert "62.0 ± 4.5" in lines[5]
    assert "…" not in capture.get()
    assert lines[9].split("│")[4].strip() == "-"
