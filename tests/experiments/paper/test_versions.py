"""Results say which versions of the program trained what another one scored."""

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from compile_il.config import Config
from compile_il.training.trainer import Trainer
from experiments.paper import parts
from experiments.paper import parts as versions
from experiments.paper.page import provenance
from experiments.paper.parts import UNKNOWN_VERSION, commits_of
from experiments.paper.parts import VERSIONS_FILE as FILE
from tests.experiments.paper import made_up

TINY = Config(num_iterations=4, batch_size=8, hidden_dim=16, num_skills=3, num_seeds=1)
PART = parts.Part("tiny", "symbols", TINY, test_tasks=(3,), num_test=8)


def test_those_that_trained_are_told_beside_the_one_that_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, steps = Trainer.step, []

    def interrupted(self: Trainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    def run(version: str, num_test: int = PART.num_test) -> dict[str, Any]:
        for module in (parts, versions):
            monkeypatch.setattr(module, "commit", lambda: version)
        part = dataclasses.replace(PART, num_test=num_test)
        return parts.run_part(part, tmp_path / str(num_test), print, trained=tmp_path)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="after iteration 2 of 4"):
        run("a")
    by_two = run("b")
    assert (by_two["commit"], by_two["trained_by"]) == ("b", ["a", "b"])
    by_another = run("c", num_test=4)
    assert (by_another["commit"], by_another["trained_by"]) == ("c", ["a", "b"])
    assert by_another["training_seconds"] == by_two["training_seconds"], "another look at the models is no training"
    assert run("c") == by_two, "done before"
    assert steps == [0, 1, 2, 3]
    # Trainings of versions that did not write their names down.
    (tmp_path / PART.training_hash / FILE).unlink()
    assert run("c", num_test=5)["trained_by"] == [UNKNOWN_VERSION]


def test_one_version_alone_is_told_once(tmp_path: Path) -> None:
    assert "trained_by" not in parts.run_part(PART, tmp_path, print)


@pytest.mark.parametrize("damage", ["", "[", "{}", "[]", "[1]"])
def test_a_list_that_is_damaged_names_nobody(damage: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(damage)
    assert commits_of(tmp_path) == [UNKNOWN_VERSION]
    assert versions.sign(tmp_path, [UNKNOWN_VERSION]) == commits_of(tmp_path) == [UNKNOWN_VERSION, versions.commit()]


def test_the_page_tells_them(tmp_path: Path) -> None:
    result = made_up.result("table1")
    assert "Commit: 0123abc. " in provenance(result)
    result["figures"]["exact"]["trained_by"] = ["a", "b"]
    assert "Commit: 0123abc, of training a, b. " in provenance(result)
