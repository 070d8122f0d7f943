"""A learner that is killed goes on from its checkpoint; on the device it ends exactly where an undisturbed one does."""

import shlex
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from compile_il.model.files import AGENT_FOLDER, WEIGHTS_FILE
from compile_il.training.runs import read_log
from tests.cli.processes import Process, checkpoint_names

SMALL = shlex.split(
    "--agent low-level --world grid-visit --num-tasks 1 --num-environments 8 --batch-size 4 --num-ticks 4 "
    "--num-levels 4 --hidden-dim 8 --num-maps 2 --embed-dim 2"
)


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "compile_il", "rl", "--out", str(out), *SMALL, *more]


def kill_after_a_checkpoint(words: list[str], run: Path, programs: Path) -> None:
    process = Process([*words, "--checkpoint-seconds", "0"], programs)
    process.wait_for(lambda: sum(map(str.isdigit, checkpoint_names(run))) > 1)
    process.send(signal.SIGKILL)
    process.end(-signal.SIGKILL)
    assert not (run / AGENT_FOLDER).exists()


@pytest.mark.slow
def test_a_killed_learner_ends_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    programs, killed, undisturbed = tmp_path / "programs", tmp_path / "killed", tmp_path / "undisturbed"
    length = ("--num-iterations", "60")
    kill_after_a_checkpoint(command(killed, *length), killed, programs)
    Process(command(killed, *length, "--resume"), programs).end()
    Process(command(undisturbed, *length), programs).end()
    first, second = (safetensors.numpy.load_file(run / AGENT_FOLDER / WEIGHTS_FILE) for run in (killed, undisturbed))
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert [row["iteration"] for row in read_log(killed)] == [row["iteration"] for row in read_log(undisturbed)]


@pytest.mark.slow
def test_a_killed_learner_on_ray_goes_on(tmp_path: Path) -> None:
    """Its actors end with it; others act for the one that goes on."""
    run, programs = tmp_path / "run", tmp_path / "programs"
    words = command(run, "--num-iterations", "30", "--actors", "ray", "--num-actors", "2")
    kill_after_a_checkpoint(words, run, programs)
    done = max(int(name) for name in checkpoint_names(run) if name.isdigit())
    assert done < 30
    Process([*words, "--resume"], programs).end()
    iterations = [row["iteration"] for row in read_log(run)]
    assert iterations == sorted(set(iterations))
    assert iterations[-1] == 30
