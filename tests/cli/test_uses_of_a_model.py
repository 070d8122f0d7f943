"""`compile-il segment`, `evaluate` and `report`: what a trained model is good for."""

import csv
import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import compile_il as cil
from compile_il.cli import main
from compile_il.cli.show import score_table
from compile_il.config import Config
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import Evaluation, score_model
from compile_il.evaluation.metrics import Scores, score_labels, step_labels
from compile_il.report import page
from compile_il.worlds import make_world, with_num_tasks
from tests.cli.typed import fails, refuses
from tests.inference.exact.small import model_for

RELAXED = Config(inference="relaxed", num_segments=2, num_skills=2, hidden_dim=4, num_maps=1)


@pytest.fixture(scope="module")
def relaxed(symbols: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that can be decoded either way, untrained."""
    model = model_for(cil.Demonstrations.load(symbols), RELAXED.resolved())
    return model.save(tmp_path_factory.mktemp("relaxed") / "model")


def boundaries_of(segments: Segments) -> list[list[int]]:
    return [inner.tolist() for inner in segments.boundaries]


def test_segment_writes_what_the_model_finds(
    pristine_run: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, demos = tmp_path / "found.jsonl", cil.Demonstrations.load(symbols)
    arguments = ["segment", str(pristine_run), str(symbols), "--out", str(out)]
    main(arguments)
    text = " ".join(capsys.readouterr().out.split())
    segments = cil.load(pristine_run).segment(demos)
    assert f"{segments.num_segments.sum()} segments in 12 demonstrations" in text
    assert f"{100 * cil.score(segments, demos).boundary_accuracy:.1f} % of true boundaries hit" in text
    truth = demos.truth
    assert truth.boundaries is not None
    assert truth.codes is not None
    scores = score_labels(segments.labels, step_labels(truth.boundaries, truth.codes, demos.lengths))
    words = f"skills agree with true codes in {100 * scores.agreement:.1f} % of steps"
    assert f"{words}, and by chance in {100 * scores.agreement_by_chance:.1f} %" in text
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["boundaries"] for row in rows] == [inner.tolist() for inner in segments.boundaries]
    assert [row["skills"] for row in rows] == [skills.tolist() for skills in segments.skills]
    np.testing.assert_allclose([row["log_likelihood"] for row in rows], segments.log_likelihood)
    assert [len(row["boundary_probs"]) for row in rows] == demos.lengths.tolist()
    assert "exists" in refuses(arguments, capsys)
    assert "has the ending .txt: use .jsonl" in refuses([*arguments[:-1], str(tmp_path / "found.txt")], capsys)
    main([*arguments, "--overwrite", "--num-segments", "unknown", "--max-segments", "1"])
    note = "note: 12 of 12 demonstrations have as many segments as were considered, 1: raise max_segments"
    assert " ".join(capsys.readouterr().err.split()).startswith(note)
    assert [path.name for path in tmp_path.iterdir()] == ["found.jsonl"]


def test_segment_writes_a_table_where_the_name_ends_in_csv(
    pristine_run: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = cil.load(pristine_run).segment(cil.Demonstrations.load(symbols))
    for name in ("found.csv", "FOUND2.CSV"):
        arguments = ["segment", str(pristine_run), str(symbols), "--out", str(tmp_path / name)]
        main(arguments)
        text = (tmp_path / name).read_bytes().decode()
        assert text.startswith("demonstration,segment,start,end,skill\n0,0,0,")
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(text))]
        assert rows == segments.rows()
        assert f"{len(rows)} segments in 12 demonstrations" in " ".join(capsys.readouterr().out.split())
    assert "exists" in refuses(arguments, capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["FOUND2.CSV", "found.csv"]


def test_gaussian_codes_have_a_column_for_each_number(symbols: Path, tmp_path: Path) -> None:
    demos, out = cil.Demonstrations.load(symbols), tmp_path / "found.csv"
    model = model_for(demos, dataclasses.replace(RELAXED, codes="gaussian", code_dim=2).resolved())
    main(["segment", str(model.save(tmp_path / "model")), str(symbols), "--out", str(out)])
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    rows = model.segment(demos).rows()
    assert list(lines[0]) == ["demonstration", "segment", "start", "end", "skill_0", "skill_1"]
    assert [int(line["end"]) for line in lines] == [row["end"] for row in rows]
    codes = [[float(line["skill_0"]), float(line["skill_1"])] for line in lines]
    np.testing.assert_allclose(codes, [row["skill"] for row in rows], rtol=1e-6)


def test_evaluate_prints_and_writes_scores(
    pristine_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scores.json"
    settings = ["--world", "symbols", "--num-tasks", "2", "--num-demos", "4"]
    typed = ["evaluate", str(pristine_run), *settings, "--out", str(out)]
    main(typed)
    text = capsys.readouterr().out
    (name,) = figures = json.loads(out.read_text())["figures"]
    assert name == "symbols, 2 tasks"
    assert f"{100 * figures[name]['boundary_accuracy']:.1f}" in text
    assert "online" not in text, "nothing acts in the world of symbols"
    assert "exists" in refuses(typed, capsys)


def test_evaluate_scores_files(
    pristine_run: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "scores.json", tmp_path / "other.npz"
    cil.demonstrate("symbols", num_demos=5, seed=3).save(other)
    typed = ["evaluate", str(pristine_run), "--demos", str(symbols), str(other), "--out", str(out)]
    main(typed)
    text, figures = capsys.readouterr().out, json.loads(out.read_text())["figures"]
    assert list(figures) == [symbols.stem, "other"]
    model = cil.load(pristine_run)
    for path, scores in zip((symbols, other), figures.values(), strict=True):
        assert scores == cil.evaluate(model, cil.Demonstrations.load(path))._asdict()
        assert f"{100 * scores['boundary_accuracy']:.1f}" in text
    assert "one or on the other" in refuses([*typed, "--world", "symbols", "--overwrite"], capsys)
    assert refuses(["evaluate", str(pristine_run)], capsys).endswith("with --world or with --demos.")


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


@pytest.mark.filterwarnings("ignore::compile_il.data.segment_counts.CountWarning")
def test_segment_by_the_other_decoder(
    relaxed: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, model, demos = tmp_path / "found.jsonl", cil.load(relaxed), cil.Demonstrations.load(symbols)
    typed = ["segment", str(relaxed), str(symbols), "--out", str(out), "--num-segments", "unknown"]
    assert refuses(typed, capsys).endswith('needs the number of segments: pass it, or decoder="exact".')
    main([*typed, "--decoder", "exact", "--best", "path", "--max-segments", "3"])
    segments = model.segment(demos, "unknown", decoder="exact", best="path", max_segments=3)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["boundaries"] for row in rows] == boundaries_of(segments)
    np.testing.assert_allclose([row["log_likelihood"] for row in rows], segments.log_likelihood, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::compile_il.data.segment_counts.CountWarning")
def test_labelled_demonstrations_are_scored_without_labels_by_the_same_decoder(
    relaxed: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demos, model = cil.Demonstrations.load(symbols), cil.load(relaxed)
    labelled = demos.reveal(boundaries=True, codes=False).save(tmp_path / "labelled.npz")
    typed = ["segment", str(relaxed), str(labelled), "--out", str(tmp_path / "found.jsonl"), "--overwrite"]

    def printed(*more: str) -> str:
        main([*typed, *more])
        return " ".join(capsys.readouterr().out.split())

    def words(scores: Scores) -> str:
        return f"{100 * scores.boundary_accuracy:.1f} % of true boundaries hit, F1 {100 * scores.f1:.1f} %"

    recognition, exact = words(score_model(model, demos)), words(score_model(model, demos, decoder="exact"))
    assert recognition != exact
    assert recognition in printed()
    assert exact in printed("--decoder", "exact")
    at_most_two = words(score_model(model, demos, "unknown", decoder="exact", max_segments=2))
    assert at_most_two in printed("--decoder", "exact", "--num-segments", "unknown", "--max-segments", "2")


def test_evaluate_by_either_decoder(relaxed: Path, tmp_path: Path) -> None:
    figures, model = {}, cil.load(relaxed)
    for decoder in ("exact", "recognition"):
        out = tmp_path / decoder
        settings = ["--world", "symbols", "--num-tasks", "2", "--num-demos", "16"]
        main(["evaluate", str(relaxed), *settings, "--out", str(out), "--decoder", decoder])
        result = json.loads(out.read_text())
        assert result["config"]["decoder"] == decoder
        (figures[decoder],) = result["figures"].values()
        expected = cil.evaluate(model, "symbols", num_tasks=2, num_demos=16, decoder=decoder)
        assert figures[decoder] == expected._asdict()
    assert figures["exact"] != figures["recognition"]


def test_report_by_the_other_decoder(
    relaxed: Path, symbols: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[page.Shown] = []
    monkeypatch.setattr(page, "write_report", lambda out, model, sets, **more: shown.extend(sets))
    typed = ["report", str(relaxed), str(symbols), "--out", str(tmp_path / "page.html")]
    main([*typed, "--decoder", "exact"])
    main(typed)
    model, demos = cil.load(relaxed), cil.Demonstrations.load(symbols)
    for what, decoder in zip(shown, ("exact", "recognition"), strict=True):
        assert boundaries_of(what.segments) == boundaries_of(model.segment(demos, decoder=decoder))
        assert what.scores == cil.evaluate(model, demos, count=None, decoder=decoder)
    assert boundaries_of(shown[0].segments) != boundaries_of(shown[1].segments)


@pytest.mark.parametrize("command", ["segment", "evaluate", "report"])
def test_decoders_that_a_model_has_not(
    command: str, pristine_run: Path, relaxed: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = [*(["--world", "symbols"] if command == "evaluate" else [str(symbols)]), "--out", str(tmp_path / "out")]
    exact, other = [command, str(pristine_run), *what], [command, str(relaxed), *what]
    assert "This model has no recognition model" in refuses([*exact, "--decoder", "recognition"], capsys)
    assert "best has no meaning for the recognition model" in refuses([*other, "--best", "path"], capsys)
    for wrong in (["--decoder", "greedy"], ["--best", "worst"]):
        assert wrong[1] in fails([*exact, *wrong], capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["segment", "report"])
def test_models_and_demonstrations_that_do_not_fit(
    command: str, run: Path, data: Path, symbols: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    def refused(model: Path, demos: Path) -> str:
        return refuses([command, str(model), str(demos), "--out", str(out)], capsys)

    assert "not as in training (no states, " in refused(run, data)
    assert "cannot be read" in refused(tmp_path / "nothing", symbols)
    weights = run / "model" / "model.safetensors"
    whole = weights.read_bytes()
    for damaged in (whole[:-1], whole[:99] + bytes([whole[99] ^ 1]) + whole[100:], b""):
        weights.write_bytes(damaged)
        assert "config.json or model.safetensors does not hold what was written" in refused(run, symbols)
    shutil.rmtree(run / "model")
    assert "holds an unfinished run: finish it with resume=True" in refused(run, symbols)
    assert not out.exists()


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    pristine_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cil, "evaluate", None)
    out = tmp_path / ("a" * 250)  # with room for its own name, but not for that of a file beside it
    message = refuses(["evaluate", str(pristine_run), "--world", "symbols", "--out", str(out)], capsys)
    assert message == f"{out} cannot be written (File name too long): name a file somewhere else."


def test_evaluate_refuses(pristine_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["evaluate", str(pristine_run)]
    assert "--num-demos is 0" in refuses([*typed, "--num-demos", "0"], capsys)
    assert "grid-pickup" in fails([*typed, "--world", "chess"], capsys)
    assert "such as 3 5" in refuses([*typed, "--num-tasks"], capsys)
    assert "trained on data: say where to score it" in refuses(typed, capsys)


def test_lists_may_be_longer_than_there_are_things() -> None:
    pickup, visit = make_world("grid-pickup"), make_world("grid-visit")
    assert [getattr(with_num_tasks(pickup, tasks), "num_objects", None) for tasks in (10, 3)] == [10, 6]
    assert with_num_tasks(visit, 10) == make_world("grid-visit", num_tasks=10)
    reacher = make_world("reacher")
    assert [with_num_tasks(reacher, tasks).max_targets for tasks in (3, 10)] == [6, 10]


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


def test_the_reader_may_close_the_pipe() -> None:
    """As `compile-il --help | head` has, after a line."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "compile_il", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
