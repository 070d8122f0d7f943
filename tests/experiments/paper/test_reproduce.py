"""Studies: what they hold, and that parts are not done twice."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from matplotlib.figure import Figure

from compile_il.baselines.learned import surprisal_settings
from compile_il.rl.config import AgentConfig
from compile_il.rl.trainer import AgentTrainer
from compile_il.training.trainer import Trainer
from compile_il.worlds.grid import GridWorld
from experiments.paper import agents, page, parts, studies
from experiments.paper import figures as pictures
from experiments.paper import jobs as several
from experiments.paper import names as scales
from experiments.paper import run as runner
from experiments.paper.__main__ import main
from experiments.paper.agents import AgentPart
from experiments.paper.figures import AGENT_COLORS
from experiments.paper.names import PaperName, Scale
from tests.cli.typed import refuses
from tests.experiments.paper.tiny import CONFIG as TINY
from tests.experiments.paper.tiny import PART


@pytest.mark.parametrize("scale", get_args(Scale))
@pytest.mark.parametrize("name", get_args(PaperName))
def test_studies_are_complete(name: PaperName, scale: Scale) -> None:
    study = studies.make_study(name, scale)
    names = [part.name for part in study.parts]
    assert len({runner.slug(name) for name in names}) == len(names)
    assert {part.config.inference for part in study.parts} >= {"relaxed"}
    num_seeds = 1 if name in ("qualitative", "figure5") else 2 if scale == "smoke" else 5
    assert all(part.config.num_seeds == num_seeds for part in study.parts)
    if scale == "paper":
        compared = [part for part in study.parts if part.surprisal or part.config.inference == "relaxed"]
        longest = max(part.config.num_iterations for part in compared)
        assert longest == (500_000 if name.startswith("table") else 50_000)
        assert all(part.config.num_iterations == longest for part in compared if not getattr(part, "early", False))


def test_parts_are_what_their_names_say() -> None:
    table3 = {part.name: part for part in studies.make_study("table3", "short").parts}
    assert [table3[f"temperature={tau}"].config.temperature for tau in (1.0, 0.1, 0.01)] == [1.0, 0.1, 0.01]
    assert [table3[f"M={count}"].config.num_segments for count in (3, 4, 5)] == [3, 4, 5]
    assert all(table3[f"M={count}"].as_trained for count in (3, 4, 5))
    assert [table3[f"exact, at most {count}"].config.max_segments for count in (3, 4, 5)] == [3, 4, 5]
    for name in ("table1", "table2", "figure4", "figure7"):
        gaussian = name in ("table2", "figure7")
        for part in studies.make_study(name, "short").parts:
            engine, supervision = part.config.inference, part.config.supervision
            if part.surprisal:
                assert part.name.endswith("LSTM surprisal")
                continue
            assert engine == ("exact" if "exact" in part.name else "relaxed")
            assert supervision == ("z" if "z-Comp" in part.name else "b" if "b-Comp" in part.name else "none")
            assert part.unending == ("VAE-BC" in part.name)
            assert part.config.num_segments == (1 if "VAE-BC" in part.name else 3)
            if engine == "relaxed":
                assert part.config.codes == ("gaussian" if gaussian or "VAE-BC" in part.name else "categorical")
                assert part.config.num_iterations == (5_000 if part.world == "reacher" else 7_000)
    portraits = studies.make_study("qualitative", "short").parts
    assert all(part.num_test == 1000 for part in portraits)


def test_results_say_who_made_the_parts() -> None:
    gpu, cpu = {"platform": "gpu"}, {"platform": "cpu"}
    parts = [{"commit": "a", "hardware": gpu}, {"commit": "b", "hardware": gpu}]
    assert runner.made_by(parts) == {"commit": "a, b", "hardware": gpu}
    assert runner.made_by([*parts, {"commit": "a", "hardware": cpu}]) == {"commit": "a, b", "hardware": [gpu, cpu]}
    others = [{"commit": "c", "trained_by": ["a", "b"], "hardware": gpu}, {"commit": "b", "hardware": gpu}]
    assert runner.made_by(others)["commit"] == "a, b, c"


def test_results_of_another_scale_stay(tmp_path: Path) -> None:
    there = tmp_path / "table1.json"
    runner.check_scale(there, "smoke")
    there.write_text(json.dumps({"config": {"scale": "short"}}))
    runner.check_scale(there, "short")
    with pytest.raises(ValueError, match=r"table1\.json has results of scale short, not smoke"):
        runner.check_scale(there, "smoke")


def test_what_is_done_so_far_can_be_written(tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "table1.json"
    second = dataclasses.replace(PART, name="second", config=dataclasses.replace(TINY, num_seeds=1))
    study = studies.Study("table1", "a title", (PART, second))

    def write(study: studies.Study, *, so_far: bool) -> dict[str, Any]:
        return runner.reproduce(study, "smoke", work=work, out=out, say=print, so_far=so_far)

    with pytest.raises(ValueError, match=r"Nothing of table1 is done in .*work, at scale smoke"):
        write(study, so_far=True)
    assert not out.exists()
    whole = write(studies.Study("table1", "a title", (PART,)), so_far=False)
    before = out.read_bytes()
    write(studies.Study("table1", "a title", (PART,)), so_far=False)
    assert out.read_bytes() == before, "nothing was run"
    partial = write(study, so_far=True)
    assert partial["figures"] == whole["figures"]
    assert partial["config"] == whole["config"] | {"not_run": ["second"]}
    assert page.provenance(partial).startswith("Not run yet: second. Scale: smoke")
    assert "not_run" not in write(study, so_far=False)["config"]
    assert page.provenance(write(study, so_far=True)).startswith("Scale: smoke")
    shutil.rmtree(work / "smoke" / "table1" / "second")
    with pytest.raises(
        ValueError, match=r"table1\.json has parts of table1 that are not done in .*work: second\. Give"
    ):
        write(study, so_far=True)


def test_every_panel_has_every_agent() -> None:
    parts_of = studies.make_study("figure5", "short").parts
    panels = {part.name.split(": ")[0] for part in parts_of}
    assert len(panels) == 2 * 2 * 2
    assert {part.name for part in parts_of} == {f"{panel}: {agent}" for panel in panels for agent in AGENT_COLORS}
    for part in parts_of:
        assert isinstance(part, AgentPart)
        assert part.agent.num_seeds == 3
        assert part.config.hidden_dim == 128
        assert part.needs_models == ("low-level" not in part.name)
        assert part.name.startswith(f"{part.world}, {part.num_tasks} tasks, {part.reward}")
    bc = next(part for part in parts_of if part.name.endswith("VAE-BC"))
    assert (bc.config.num_segments, bc.config.num_skills) == (1, 128)


def test_agents_are_taught_and_go_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = GridWorld(size=6, num_tasks=1, num_objects=2, max_steps=8)
    monkeypatch.setattr(agents, "make_world", lambda name, **options: world)
    sizes = scales.AGENT_SIZES["smoke"]
    part = AgentPart("a: low-level", "grid-pickup", TINY, agent=AgentConfig(agent="low-level", **sizes), num_test=4)
    step, steps = AgentTrainer.step, []

    def interrupted(self: AgentTrainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    monkeypatch.setattr(AgentTrainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="after iteration 1 of 2"):
        parts.run_part(part, tmp_path, print)
    found = parts.run_part(part, tmp_path, print)
    assert steps == [0, 1]
    assert found["curve"]["steps"] == [8 * 4, 2 * 8 * 4]
    assert len(found["curve"]["success"]) == len(found["played"]) == 2
    assert parts.run_part(part, tmp_path, print) == found
    assert studies.Study("figure5", "a title", (part,)).num_seeds == 2
    assert (tmp_path / f"agents-{part.learning_hash}").is_dir()


def test_agents_begin_anew_once_settings_have_changed() -> None:
    part = AgentPart("a: hierarchical", "grid-visit", TINY, agent=AgentConfig(agent="hierarchical"))
    others = [
        dataclasses.replace(part, reward="sparse"),
        dataclasses.replace(part, num_tasks=5),
        dataclasses.replace(part, world="grid-pickup"),
        dataclasses.replace(part, agent=dataclasses.replace(part.agent, learning_rate=1e-3)),
        dataclasses.replace(part, config=dataclasses.replace(TINY, num_skills=4)),
    ]
    assert len({other.learning_hash for other in [part, *others]}) == 6
    assert dataclasses.replace(part, num_test=part.num_test + 1).learning_hash == part.learning_hash
    alone = [dataclasses.replace(one, agent=AgentConfig(agent="low-level")) for one in (part, others[-1])]
    assert alone[0].learning_hash == alone[1].learning_hash


def figures(found: dict[str, Any]) -> Any:
    return found["scores"]


def test_a_part_that_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    first = parts.run_part(PART, tmp_path, said.append)
    assert set(figures(first)) == {"3"}
    assert len(figures(first)["3"]) == 2
    monkeypatch.setattr(parts, "Trainer", None)
    assert parts.run_part(PART, tmp_path, said.append) == first
    assert said[-1] == "tiny: done before"
    with pytest.raises(TypeError):  # another part in the same folder is another matter
        parts.run_part(dataclasses.replace(PART, num_test=9), tmp_path, said.append)


@pytest.mark.parametrize("damage", ["", '{"part": ', "[]", "null", "part alone"])
def test_a_part_whose_file_is_damaged_is_not_done(damage: str, tmp_path: Path) -> None:
    (tmp_path / parts.DONE).write_text(json.dumps({"part": PART.to_json()}) if "alone" in damage else damage)
    assert not parts.is_done(tmp_path, PART)


def test_damaged_seconds_are_told_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = several.Job("table1", "exact", "smoke", tmp_path)
    job.folder.mkdir(parents=True)
    (job.folder / "seconds.json").write_text("[")
    monkeypatch.setattr(parts, "Trainer", None)
    monkeypatch.setattr(several.Job, "start", None)
    command = ["table1", "--scale", "smoke", "--results", str(tmp_path), "--work", str(tmp_path)]
    for more in ([], ["--jobs", "2"]):
        part = dataclasses.replace(PART, name="exact")
        monkeypatch.setattr(studies, "make_study", lambda name, scale, part=part: studies.Study(name, "", (part,)))
        with pytest.raises(SystemExit):
            main([*command, *more])
        said = capsys.readouterr().err
        assert f"{job.folder}/seconds.json does not hold the time that the part took" in said
        assert "Delete it to go on" in said


@pytest.mark.parametrize("more", [["--jobs", "1"], ["--jobs", "2"], ["--so-far"]])
def test_results_that_cannot_be_written_are_told_before_anything_is_run(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "Trainer", None)
    monkeypatch.setattr(several.Job, "start", None)
    file, work = tmp_path / "table1.json", tmp_path / "work"
    file.write_text(json.dumps({"config": {"scale": "smoke"}, "figures": {"exact": {}, "b-old": {}, "a-old": {}}}))

    def told(results: Path) -> str:
        command = ["table1", "--scale", "smoke", "--results", str(results), "--work", str(work)]
        return refuses([*command, *more], capsys)

    assert told(tmp_path).startswith(f"{file} has parts that are unknown to table1: a-old; b-old. Give another folder")
    for results, why in ((file, "File exists"), (file / "below", "Not a directory")):
        assert told(results) == f"There can be no folder {results} ({why}): name another one (--results)."
    (tmp_path / "results" / "table1.json").mkdir(parents=True)
    assert "is a folder" in told(tmp_path / "results")
    assert not work.exists()


HOLDS = """
import pathlib, sys, time
from experiments.paper.run import alone_at_work
with alone_at_work(pathlib.Path(sys.argv[1]), "smoke"):
    print("holds", flush=True)
    time.sleep(600)
"""


def test_a_second_command_at_the_same_work_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whatever came after the refusal would fail on these.
    monkeypatch.setattr(runner, "run_part", None)
    monkeypatch.setattr(several, "run_several", None)
    command = ["table1", "--scale", "smoke", "--results", str(tmp_path / "results"), "--work"]
    busy = f"Another command works in {tmp_path}/smoke: wait until it ends, or name another folder (--work)."
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        try:
            for more in ([], ["--jobs", "2"]):
                assert refuses([*command, str(tmp_path), *more], capsys) == busy
            assert refuses([*command, str(tmp_path), "--so-far"], capsys).startswith("Nothing of table1 is done in")
        finally:
            process.kill()
    with runner.alone_at_work(tmp_path, "smoke"), runner.alone_at_work(tmp_path, "short"):
        assert refuses([*command, str(tmp_path)], capsys) == busy
    (tmp_path / "file").touch()
    told = refuses([*command, str(tmp_path / "file")], capsys)
    assert told == f"There can be no folder {tmp_path}/file/smoke (Not a directory): name another one (--work)."


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("missing", ["ruptures", "hmmlearn.hmm"])
def test_a_missing_library_is_told_before_anything_is_run(
    missing: str, jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # importing it now fails
    work = tmp_path / "work"
    command = ["classic", "--scale", "smoke", "--results", str(tmp_path), "--work", str(work)]
    told = refuses([*command, "--jobs", jobs], capsys)
    assert told == f"This baseline needs {missing}, an extra: pip install 'compile-il[baselines]'"
    assert not work.exists()


def test_surprisal_has_boundaries_only(tmp_path: Path) -> None:
    part = dataclasses.replace(PART, config=surprisal_settings(TINY), surprisal=True)
    for row in figures(parts.run_part(part, tmp_path, print))["3"]:
        assert row["count_accuracy"] == 1.0
        assert 0 <= row["boundary_accuracy"] <= row["f1"] <= 1
        assert row["online"] is None


def test_there_are_three_tasks_whatever_the_number_of_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Trainer] = []

    def untrained(trainer: Trainer, *_: Any) -> parts.TrainedPart:
        trained.append(trainer)
        return parts.TrainedPart(trainer.models(trainer.start()), 0.0, [])

    monkeypatch.setattr(parts, "train", untrained)
    fewer = dataclasses.replace(PART, config=dataclasses.replace(TINY, num_segments=2), as_trained=True)
    found = parts.run_part(fewer, tmp_path, print)
    assert {len(inner) for inner in trained[0].source.demos.truth.boundaries or []} == {2}
    assert {row["count_accuracy"] for row in figures(found)["3"]} == {0.0}


@pytest.mark.parametrize("option", ["--results", "--out"])
def test_from_the_command_line(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(studies, "make_study", lambda name, scale: studies.Study(name, "a title", (PART,)))
    drawing = pictures.Picture("drawing", "a caption", lambda: Figure((1, 1)))
    monkeypatch.setattr(pictures, "pictures_of", lambda result: [drawing] if "tiny" in result["figures"] else [])
    main(["table1", "--scale", "smoke", option, str(tmp_path), "--work", str(tmp_path / "work")])
    result = json.loads((tmp_path / "table1.json").read_text())
    assert result["config"]["scale"] == "smoke"
    assert result["seeds"] == [0, 1]
    assert result["wall_time"] == pytest.approx(result["figures"]["tiny"]["wall_time"], abs=0.01)
    said = "".join(capsys.readouterr().out.split())
    assert "table1,smoke" in said
    drawn = tmp_path / "work" / "smoke" / "images" / "drawing.png"
    assert str(drawn) in said
    assert pictures.drawn_from(tmp_path / "table1.json").encode() in drawn.read_bytes()


def test_parts_that_differ_in_scoring_alone_are_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    step = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, state, n: steps.append(n) or step(self, state, n))
    other = dataclasses.replace(PART, name="other", num_test=4)
    study = studies.Study("table1", "a title", (PART, other))
    runner.reproduce(study, "smoke", work=tmp_path, out=tmp_path / "one.json", say=print)
    assert steps == [0, 1, 2, 3]
