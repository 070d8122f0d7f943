"""A reproduction can be interrupted anywhere, overwrites no other results, and refuses early what cannot work."""

import dataclasses
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from compile_il.data.files import checksum
from compile_il.evaluation.evaluate import Evaluation
from compile_il.model.model import Model
from compile_il.training.trainer import Trainer
from experiments.paper import __main__ as command
from experiments.paper import figures, jobs, page, parts, run
from experiments.paper.__main__ import Reproduce, main
from experiments.paper.jobs import Job
from experiments.paper.parts import Part
from experiments.paper.studies import Study
from tests.experiments.paper import tiny
from tests.experiments.paper.tiny import CONFIG, PART

NETWORKS, CLASSIC = "table1", "classic"


def reproduce(name: Any, folder: Path) -> dict[str, Any]:
    """Runs what is left to run; work and result are in the folder."""
    study = tiny.make_study(name, "smoke")
    return without_times(run.reproduce(study, "smoke", work=folder / "work", out=folder / f"{name}.json", say=print))


def without_times(result: Any) -> Any:
    """A result file less the times in it, at any depth."""
    if not isinstance(result, dict):
        return result
    times = {"wall_time", "finished", "training_seconds"}
    return {key: without_times(value) for key, value in result.items() if key not in times}


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says where it refuses to run, in one line."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("error: ")


@pytest.fixture(autouse=True)
def scores_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models have equal scores where they are the same to the bit, and nothing is compiled to score them."""

    def score(part: Part, model: Model, tasks: int) -> dict[str, Any]:
        weights = jax.tree.leaves(eqx.filter(model.skills, eqx.is_array))
        return dict.fromkeys(Evaluation._fields, 0.5) | {"weights": checksum(*map(np.asarray, weights))}

    monkeypatch.setattr(Part, "score", score)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The result of a study without interruptions."""
    return functools.cache(lambda name: reproduce(name, tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize("name", [NETWORKS, CLASSIC])
def test_interruptions_before_every_renaming_change_nothing(
    name: str, undisturbed: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is written beside its place; the first time that one is to take it, an interruption comes."""
    whole, replace, met = undisturbed(name), Path.replace, list[Path]()

    def interrupted(self: Path, target: Path) -> Path:
        if target not in met:
            met.append(target)
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    result = None
    while result is None:
        try:
            result = reproduce(name, tmp_path)
        except KeyboardInterrupt:
            assert not (tmp_path / f"{name}.json").exists()
    assert result == whole
    names = [path.name for path in met]
    assert names.count(parts.RESULT_FILE) == 2
    assert names.count(f"{name}.json") == 1
    # What a classic method has been fitted to is kept; of networks checkpoints are, which have decimal names.
    expected = {parts.COMMITS_FILE} if name == NETWORKS else {"choice-0.json", "seed-0.json", "seed-1.json"}
    assert expected <= set(names)
    assert name == CLASSIC or any(map(str.isdecimal, names))
    assert not list(tmp_path.rglob("*.part"))


def test_ctrl_c_in_training_changes_nothing(
    undisturbed: Callable[[str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models of four iterations: while the first is trained, in its last iteration, while the second is."""
    whole = undisturbed(NETWORKS)
    step, steps = Trainer.step, []

    def interrupted(self: Trainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) in (2, 4, 7):
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    monkeypatch.setattr(Trainer, "step", interrupted)
    for after in (2, 4, 3):
        with pytest.raises(KeyboardInterrupt, match=f"table1, (tiny|other) after iteration {after} of 4"):
            reproduce(NETWORKS, tmp_path)
    assert reproduce(NETWORKS, tmp_path) == whole
    assert steps == [0, 1, 2, 3, 0, 1, 2, 3]


def test_what_is_done_so_far_can_be_written(tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "table1.json"
    second = dataclasses.replace(PART, name="second", config=dataclasses.replace(CONFIG, num_seeds=1))
    first, both = Study("table1", (PART,)), Study("table1", (PART, second))

    def write(study: Study, *, so_far: bool) -> dict[str, Any]:
        return run.reproduce(study, "smoke", work=work, out=out, say=print, so_far=so_far)

    with pytest.raises(ValueError, match=r"Nothing of table1 is done in .*work, at scale smoke"):
        write(both, so_far=True)
    assert not out.exists()
    whole = write(first, so_far=False)
    before = out.read_bytes()
    write(first, so_far=False)
    assert out.read_bytes() == before, "nothing was run"
    partial = write(both, so_far=True)
    assert partial["figures"] == whole["figures"]
    assert partial["config"] == whole["config"] | {"not_run": ["second"]}
    assert page.provenance(partial).startswith("Not run yet: second. Scale: smoke")
    assert "not_run" not in write(both, so_far=False)["config"]
    shutil.rmtree(work / "smoke" / "table1" / "second")
    lost = r"table1\.json has parts of table1 that are not done in .*work: second\. Give"
    with pytest.raises(ValueError, match=lost):
        write(both, so_far=True)


def test_results_say_who_made_the_parts() -> None:
    gpu, cpu = {"platform": "gpu"}, {"platform": "cpu"}
    two = [{"commit": "a", "hardware": gpu}, {"commit": "a, b", "hardware": gpu}]
    assert run.made_by(two) == {"commit": "a, b", "hardware": gpu}
    assert run.made_by([*two, {"commit": "c", "hardware": cpu}]) == {"commit": "a, b, c", "hardware": [gpu, cpu]}


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_time_adds_up_and_damage_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("table1", PART, "smoke", tmp_path)
    job.set_seconds(1.5)
    monkeypatch.setattr(jobs, "run_part", interrupt)
    with pytest.raises(KeyboardInterrupt, match="in table1, tiny; what was done is saved"):
        job.run_counted(print)
    assert 1.5 < job.seconds == pytest.approx(1.5, abs=0.5)
    (job.folder / jobs.SECONDS_FILE).write_text("")
    monkeypatch.setattr(jobs, "run_part", None)
    with pytest.raises(ValueError, match=r"it does not hold the seconds that the part took. Delete it"):
        job.run_counted(print)


@pytest.mark.parametrize("more", [["--jobs", "1"], ["--jobs", "2"], ["--so-far"]])
def test_results_that_cannot_be_written_are_refused_before_anything_is_run(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "reproduce", None)
    monkeypatch.setattr(command, "run_several", None)
    file, work = tmp_path / "table1.json", tmp_path / "work"

    def refused(results: Path) -> str:
        arguments = ["table1", "--scale", "smoke", "--results", str(results), "--work", str(work)]
        return refusal([*arguments, *more], capsys)

    file.write_text(json.dumps({"config": {"scale": "short"}, "figures": {}}))
    assert refused(tmp_path).startswith(f"{file} has results of scale short, not smoke. Give another folder")
    file.write_text(json.dumps({"config": {"scale": "smoke"}, "figures": {"exact": {}, "b-old": {}, "a-old": {}}}))
    assert refused(tmp_path).startswith(
        f"{file} has parts that are unknown to table1: a-old; b-old. Give another folder"
    )
    assert refused(file) == f"There can be no folder {file} (File exists): name another one (--results)."
    (tmp_path / "results" / "table1.json").mkdir(parents=True)
    assert "is a folder" in refused(tmp_path / "results")
    assert not work.exists()


HOLDS = """
import pathlib, sys, time
from experiments.paper.run import lock_work
with lock_work(pathlib.Path(sys.argv[1]), "smoke"):
    print("holds", flush=True)
    time.sleep(600)
"""


def test_a_second_command_at_the_same_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "run_part", None)
    arguments = ["table1", "--scale", "smoke", "--results", str(tmp_path / "results"), "--work", str(tmp_path)]
    busy = f"Another command works in {tmp_path}/smoke: wait until it ends, or name another folder (--work)."
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        try:
            for more in ([], ["--jobs", "2"]):
                assert refusal([*arguments, *more], capsys) == busy
            assert refusal([*arguments, "--so-far"], capsys).startswith("Nothing of table1 is done in")
        finally:
            process.kill()
    with run.lock_work(tmp_path, "smoke"), run.lock_work(tmp_path, "short"):
        pass


def test_a_missing_library_is_named_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)  # importing it now fails
    arguments = ["classic", "--scale", "smoke", "--results", str(tmp_path), "--work", str(tmp_path / "work")]
    assert refusal(arguments, capsys) == "This baseline needs ruptures, an extra: pip install 'compile-il[baselines]'"
    assert not (tmp_path / "work").exists()


def test_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "make_study", lambda name, scale: Study(name, (PART,)))
    drawing = figures.Picture("drawing", "a caption", lambda: Figure((1, 1)))
    monkeypatch.setattr(command, "pictures_of", lambda result: [drawing] if "tiny" in result["figures"] else [])
    main(["table1", "--scale", "smoke", "--out", str(tmp_path), "--work", str(tmp_path / "work")])
    result = json.loads((tmp_path / "table1.json").read_text())
    assert result["config"]["scale"] == "smoke"
    assert result["seeds"] == [0, 1]
    assert result["wall_time"] == pytest.approx(result["figures"]["tiny"]["wall_time"], abs=0.01)
    said = "".join(capsys.readouterr().out.split())
    assert "table1,smoke" in said
    drawn = tmp_path / "work" / "smoke" / "images" / "drawing.png"
    assert str(drawn) in said
    assert figures.drawn_from(tmp_path / "table1.json").encode() in drawn.read_bytes()


@pytest.mark.parametrize(
    ("settings", "warned"),
    [({}, True), ({"scale": "smoke"}, False), ({"name": "classic"}, False), ({"jobs": 2}, False)],
)
def test_a_machine_without_an_accelerator_is_warned_about(
    settings: dict[str, Any], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Reproduce(**({"name": "table1"} | settings))._warn_without_accelerator(Console(width=200))
    assert ("needs an accelerator, and there is none here" in capsys.readouterr().out) == warned
