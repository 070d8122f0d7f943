"""Studies at the smoke scale: two steps of tiny networks, and all that is measured about them."""

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any, get_args

import pytest

from compile_il.model.model import Model
from compile_il.rl.trainer import AgentTrainer
from compile_il.training.sources import make_source, training_world
from compile_il.training.trainer import Trainer
from experiments.paper import parts
from experiments.paper.agents import AgentPart
from experiments.paper.classic import ClassicPart
from experiments.paper.parts import TRAINING_TASKS, Part, run_part
from experiments.paper.portraits import DrawnPart
from experiments.paper.run import reproduce
from experiments.paper.studies import StudyName, make_study
from experiments.paper.tables import study_cells

ONE_OF_EACH: list[tuple[StudyName, str]] = [
    ("table1", "LSTM surprisal"),
    ("table2", "z-CompILE"),
    ("table3", "M=4"),
    ("table3", "exact, at most 3"),
    ("figure4", "grid-pickup, exact, effects"),
    ("figure5", "grid-pickup, 3 tasks, sparse: hierarchical, exact"),
    ("figure5", "grid-pickup, 3 tasks, sparse: VAE-BC"),
    ("figure5", "grid-pickup, 3 tasks, sparse: low-level"),
    ("figure7", "grid-visit, b-CompILE"),
    ("figure7", "grid-pickup, VAE-BC"),
    ("qualitative", "exact"),
    ("qualitative", "CompILE, early"),
    ("classic", "reacher, equal lengths"),
    ("classic", "reacher, change points"),
    ("classic", "reacher, change points, kernel"),
    ("classic", "reacher, hidden Markov model"),
]
"""Studies and the names of their parts."""
SLOWER = {
    "grid-visit, b-CompILE",
    "grid-pickup, VAE-BC",
    "M=4",
    "grid-pickup, exact, effects",
    "grid-pickup, 3 tasks, sparse: low-level",
    "grid-pickup, 3 tasks, sparse: VAE-BC",
    "exact",
}
"""Those of which every piece is also run by another part or by another test."""


def kinds_of(part: Part) -> set[str]:
    """All that makes a part run otherwise than another one does, but for numbers."""
    if isinstance(part, ClassicPart):
        return {part.method}
    if isinstance(part, AgentPart):
        return {f"{part.agent.agent} agents"}
    if part.surprisal:
        return {"surprisal"}
    config = part.config
    kinds = {
        "exact" if config.inference == "exact" else f"relaxed {config.codes}": True,
        f"labels {config.supervision}": True,
        "effects": config.effects,
        "number of segments unknown": config.num_segments is None,
        "as trained": part.as_trained,
        "unending": part.unending,
        "drawn": isinstance(part, DrawnPart),
        "drawn early": isinstance(part, DrawnPart) and part.early,
        f"world {part.world}": True,
    }
    return {kind for kind, is_one in kinds.items() if is_one}


def find(name: StudyName, part_name: str) -> Part:
    return next(part for part in make_study(name, "smoke").parts if part.name == part_name)


def test_there_is_one_of_each_kind() -> None:
    every = [part for name in get_args(StudyName) for part in make_study(name, "smoke").parts]
    chosen = [find(*names) for names in ONE_OF_EACH]
    assert set.union(*map(kinds_of, chosen)) == set.union(*map(kinds_of, every))


def untrained(part: Part, *_: Any) -> tuple[list[Model], dict[str, Any]]:
    trainer = Trainer(part.config, make_source(training_world(part.world, TRAINING_TASKS), part.config))
    return trainer.models(trainer.start()), {}


@pytest.mark.parametrize(
    ("name", "part_name"),
    [pytest.param(*names, marks=[pytest.mark.slow] if names[1] in SLOWER else []) for names in ONE_OF_EACH],
)
def test_a_part_of_each_kind(name: StudyName, part_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On lists of five tasks everything would be compiled again."""
    part = dataclasses.replace(find(name, part_name), test_tasks=(3,), num_test=4)
    if isinstance(part, AgentPart | DrawnPart):  # models of their kinds are trained for other parts
        monkeypatch.setattr(parts, "train", untrained)
    said: list[str] = []
    if "low-level" in part_name:
        interrupt_once(part, tmp_path, monkeypatch)
    done = run_part(part, tmp_path, said.append)
    assert done["part"] == part.to_json()
    assert said[-1].startswith(part.name)
    if isinstance(part, AgentPart):
        assert len(done["curve"]["success"]) == len(done["played"]) == len(done["best"]) == 2
    elif isinstance(part, DrawnPart):
        assert ("skills" in done["portrait"]) == (not part.early)
    else:
        (seeds,) = done["scores"].values()
        assert len(seeds) == 2
        assert all(0 <= seed["boundary_accuracy"] <= 1 for seed in seeds)
        assert all((seed["online"] is None) == (part.surprisal or not part.needs_models) for seed in seeds)


def interrupt_once(part: Part, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops agents after the first of two iterations; they may only make the second one later."""
    step, steps = AgentTrainer.step, []

    def interrupted(self: AgentTrainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        assert len(steps) <= 2
        return step(self, state, iteration)

    monkeypatch.setattr(AgentTrainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="after iteration 1 of 2"):
        run_part(part, folder, print)


@pytest.mark.slow
@pytest.mark.parametrize("name", get_args(StudyName))
def test_all_of_a_study(name: StudyName, tmp_path: Path) -> None:
    study = make_study(name, "smoke")
    result = reproduce(study, "smoke", work=tmp_path / "work", out=tmp_path / "out.json", say=lambda words: None)
    assert set(result["figures"]) == {part.name for part in study.parts}
    assert study_cells(result).rows
