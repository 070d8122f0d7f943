"""`compile-il generate`, and what all commands share."""

import dataclasses
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import compile_il as cil
from compile_il.cli import main
from compile_il.cli.console import WorldName
from compile_il.cli.learn import Rl
from compile_il.cli.worlds import WorldOptions
from compile_il.worlds.grid import NUM_RL_STEPS
from tests.cli.typed import fails


def test_generate_writes_what_demonstrate_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pickup.npz"
    main(["generate", "grid-pickup", "--num-demos", "20", "--num-tasks", "2", "--out", str(out)])
    assert cil.Demonstrations.load(out) == cil.demonstrate("grid-pickup", num_demos=20, num_tasks=2)
    text = capsys.readouterr().out
    assert "20 episodes" in text
    assert f"{out.stat().st_size / 1e3:.1f} kB" in text
    assert [path.name for path in tmp_path.iterdir()] == ["pickup.npz"]


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
        (["grid-pickup", "--num-tasks", "9", "--num-objects", "8"], "9 pick-ups need as many objects"),
        (["grid-pickup", "--num-demos", "0"], "--num-demos is 0"),
        (["grid-pickup", "--seed", "-1"], "--seed is -1: use a number from 0 to 4294967295"),
        (["reacher", "--num-objects", "3"], "no option 'num_objects'"),
        (["grid-pickup", "--num-objects", "0"], "num_objects is 0"),
        (["symbols", "--distinct-types"], "no option 'distinct_types'"),
        (["chess"], "grid-pickup"),
        (["grid-pickup", "--num-demos", "many"], "many"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = fails(["generate", *arguments, "--out", str(tmp_path / "x.npz")], capsys)
    assert message in text
    assert "0:00:00" not in text, "a progress bar was drawn"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("world", "options"),
    [
        ("grid-pickup", {"size": 7, "wall_rate": 0.5, "num_objects": 4, "num_types": 4, "distinct_types": True}),
        ("reacher", {"max_targets": 4, "max_steps": 20}),
        ("symbols", {"num_symbols": 7, "max_repeats": 2}),
    ],
)
def test_options_reach_the_world(world: str, options: dict[str, Any], tmp_path: Path) -> None:
    typed = [
        word
        for name, value in options.items()
        for word in ([f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}", str(value)])
    ]
    main(["generate", world, "--num-demos", "4", "--out", str(tmp_path / "x.npz"), *typed])
    assert cil.Demonstrations.load(tmp_path / "x.npz") == cil.demonstrate(world, num_demos=4, **options)


def test_the_command_offers_every_world_and_every_option_that_errors_may_name() -> None:
    assert list(get_args(WorldName)) == list(cil.WORLDS)
    of_worlds = {field.name for world in cil.WORLDS.values() for field in dataclasses.fields(world)}
    # `kind` is part of a world's name; `reward` is for those who act, and changes no demonstration.
    assert {field.name for field in dataclasses.fields(WorldOptions)} == of_worlds - {"kind", "reward", "num_tasks"}


def test_help_names_each_default_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["generate", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--max-steps INT" in text
    assert "(default: 200; reacher: 100)" in text
    assert "None" not in text
    for name, world, option in (
        ("num-objects", "grid-pickup", "num_objects"),
        ("size", "grid-pickup", "size"),
        ("wall-rate", "grid-pickup", "wall_rate"),
        ("max-targets", "reacher", "max_targets"),
        ("expert-gain", "reacher", "expert_gain"),
        ("num-types", "reacher", "num_types"),
        ("num-symbols", "symbols", "num_symbols"),
        ("max-repeats", "symbols", "max_repeats"),
    ):
        default = text.split(f"--{name} ")[1].split("(default: ")[1].split(")")[0]
        assert default == str(getattr(cil.WORLDS[world], option)), name


@pytest.mark.parametrize("name", ["a[b].npz", "a[/b].npz", "[bold]x.npz", "x" * 150 + ".npz"])
def test_paths_are_printed_as_they_are(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "symbols", "--num-demos", "2", "--out"]
    folder = tmp_path / "in[1]"
    folder.mkdir()
    out = str(folder / name.replace("/", ""))
    main([*arguments, out])
    assert out in capsys.readouterr().out
    assert out in fails([*arguments, out], capsys)
    missing = str(tmp_path / name / "q")
    assert missing in fails([*arguments, f"{missing}/q.npz"], capsys)


def test_an_interruption_and_a_lack_of_memory_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, message in ((MemoryError(), "lower --num-demos"), (KeyboardInterrupt(), "stopped")):

        def fail(*_: Any, error: BaseException = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(cil, "demonstrate", fail)
        assert message in fails(["generate", "symbols", "--out", str(tmp_path / "x.npz")], capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = fails(["generate", "symbols", "--out", str(tmp_path / "no" / "x.npz"), "--num-demos", "1000000"], capsys)
    assert "no folder" in text


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ("demo", "generate", "train", "segment", "evaluate", "report", "Demonstrations in, skills out"):
        assert word in text


@pytest.mark.parametrize("command", ["demo", "generate", "train", "segment", "evaluate", "report"])
def test_help_fits_into_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    usage, *lines = capsys.readouterr().out.splitlines()
    assert usage.startswith(f"usage: compile-il {command} ")
    assert len(usage) <= 100
    assert max(map(len, lines)) <= 80
    assert f"compile-il {command} " in "\n".join(lines), "there is no example"


def test_help_does_not_wait_for_jax() -> None:
    code = "import sys; sys.modules['jax'] = None; from compile_il.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Demonstrations in, skills out" in done.stdout, done.stderr


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "compile_il", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"compile-il {importlib.metadata.version('compile-il')}\n"


def test_episodes_of_agents_are_cut_where_their_world_cuts_them() -> None:
    assert Rl(world="grid-visit", out=Path()).max_steps == NUM_RL_STEPS
