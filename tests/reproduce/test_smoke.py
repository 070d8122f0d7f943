"""Studies at the smoke scale, for real: two steps of tiny networks, and all that is measured about them."""

from pathlib import Path
from typing import get_args

import pytest

from compile_il.reproduce.draw import study_cells
from compile_il.reproduce.names import StudyName
from compile_il.reproduce.parts import run_part
from compile_il.reproduce.runner import measure_of, reproduce
from compile_il.reproduce.studies import make_study

ONE_OF_EACH = {
    "table1": "exact, effects",
    "table2": "z-CompILE",
    "table3": "M=4",
    "figure4": "grid-visit, exact",
    "figure7": "grid-pickup, b-CompILE",
    "classic": "reacher, hidden Markov model",
    "figure5": "grid-pickup, 3 tasks, sparse: low-level",
}


@pytest.mark.parametrize(("name", "part_name"), ONE_OF_EACH.items())
def test_a_part_of_each_study(name: StudyName, part_name: str, tmp_path: Path) -> None:
    part = next(part for part in make_study(name, "smoke").parts if part.name == part_name)
    said: list[str] = []
    found = run_part(part, tmp_path, said.append, measure_of(part))
    assert found["part"] == part.to_json()
    if name == "figure5":
        assert len(found["played"]) == len(found["best"]) == 2
        return
    assert set(found["scores"]) == {str(tasks) for tasks in part.test_tasks}
    for seeds in found["scores"].values():
        assert len(seeds) == 2
        assert all(0 <= seed["boundary_accuracy"] <= 1 for seed in seeds)


@pytest.mark.slow
@pytest.mark.parametrize("name", get_args(StudyName))
def test_all_of_a_study(name: StudyName, tmp_path: Path) -> None:
    study = make_study(name, "smoke")
    result = reproduce(study, "smoke", work=tmp_path / "work", out=tmp_path / "out.json", say=lambda words: None)
    assert set(result["figures"]) == {part.name for part in study.parts}
    assert study_cells(result).rows
