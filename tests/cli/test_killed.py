"""A training run that is stopped, terminated or killed, and resumed, ends exactly where an undisturbed one does."""

import random
import shlex
import signal
import time
from pathlib import Path

import pytest

from compile_il.model.files import load
from compile_il.training.runs import read_log
from tests.cli.processes import (
    Process,
    assert_clean,
    assert_same_parameters,
    checkpoint_names,
    command,
)

NUM_ITERATIONS = 60
LENGTH = ("--num-iterations", str(NUM_ITERATIONS))
LENGTH_ON_WORLD = ("--num-iterations", "300")
OFTEN = ("--checkpoint-seconds", "0.1")
ALWAYS = ("--checkpoint-seconds", "0")  # so much slower that a few iterations leave time enough to be disturbed in


def assert_same_log(one: Path, other: Path, total: int = NUM_ITERATIONS) -> None:
    """All rows, in order and once."""
    first, second = read_log(one), read_log(other)
    every = total // 20
    assert [row["iteration"] for row in first] == list(range(every, total + 1, every))
    for row in (*first, *second):
        assert row.pop("seconds") > 0
    assert first == second


@pytest.mark.slow
def test_killed_at_a_random_moment(programs: Path, tmp_path: Path) -> None:
    runs = tmp_path / "undisturbed", tmp_path / "killed"
    plain, killed = (command("symbols", run, *LENGTH_ON_WORLD) for run in runs)
    process = Process([*killed, *OFTEN], programs)
    process.wait_for(lambda: any(map(str.isdigit, checkpoint_names(runs[1]))))
    time.sleep(random.Random(0).uniform(0, 0.3))  # some moment; how far training is by then differs anyway
    process.send(signal.SIGKILL)
    process.end(-signal.SIGKILL)
    Process([*killed, "--resume"], programs).end()
    Process(plain, programs).end()
    assert_clean(runs[1])
    assert_same_parameters(*runs)
    assert_same_log(*runs, total=300)


def kill_while_it_saves(words: list[str], run: Path, programs: Path) -> None:
    """Kills a process that does little else than saving at a moment when something is half-written."""
    process = Process([*words, *ALWAYS], programs)

    def is_half_written() -> bool:
        return not all(map(str.isdigit, checkpoint_names(run)))

    def is_held_in_writing() -> bool:
        process.send(signal.SIGSTOP)
        if is_half_written():
            return True
        process.send(signal.SIGCONT)
        return False

    # The second time, so that there is one to resume from.
    process.wait_for(lambda: any(map(str.isdigit, checkpoint_names(run))))
    process.wait_for(is_held_in_writing)
    process.send(signal.SIGKILL)
    process.end(-signal.SIGKILL)
    assert is_half_written()


def stop(words: list[str] | str, run: Path, signals: list[signal.Signals], programs: Path) -> str:
    """Stops a process after it has saved once more, and returns what it printed."""
    done = max((int(name) for name in checkpoint_names(run) if name.isdigit()), default=0)
    process = Process(words, programs)
    process.wait_for(lambda: any(name.isdigit() and int(name) > done for name in checkpoint_names(run)))
    for number in signals:
        process.send(number)
    return process.end(130)


def advice(printed: str, run: Path) -> str:
    """The command that a stopped run names."""
    again = printed.partition(" To go on: ")[2].strip()
    assert shlex.split(again)[:4] == command("", run)[:4]
    assert shlex.split(again).count("--resume") == 1
    return again


def test_a_hard_life(data: Path, programs: Path, tmp_path: Path) -> None:
    """Killed while it saved, interrupted by somebody impatient, terminated, and in the end as if nothing had been."""
    run, undisturbed = tmp_path / "a run; it's mine", tmp_path / "undisturbed"
    words = command(str(data), run, *LENGTH)
    kill_while_it_saves(words, run, programs)

    printed = stop([*words, *ALWAYS, "--resume"], run, [signal.SIGINT, signal.SIGINT], programs)
    assert_clean(run)
    # The second signal may come before or after the first one has been obeyed.
    assert "stopped at once; what was saved before is kept. To go" in printed or "; all is saved" in printed

    printed = stop(advice(printed, run), run, [signal.SIGTERM], programs)
    assert_clean(run)
    latest = max(map(int, checkpoint_names(run)))
    message = f"stopped after iteration {latest} of {NUM_ITERATIONS}; all is saved, and can be used as it is."
    assert f"{message} To go on: " in printed
    assert load(run).config.num_iterations == latest

    Process(advice(printed, run), programs).end()
    Process(command(str(data), undisturbed, *LENGTH), programs).end()
    assert_clean(run)
    assert_same_parameters(run, undisturbed)
    assert_same_log(run, undisturbed)
