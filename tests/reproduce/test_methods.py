"""The table of all methods takes each from where it was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from compile_il.experiments import classic
from compile_il.reproduce.methods import methods_tables
from compile_il.reproduce.page import results_page
from tests.reproduce import made_up


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of the older methods."""
    out = tmp_path_factory.mktemp("results") / "classic.json"
    tiny = {"num_train": 20, "num_test": 4, "num_seeds": 2, "num_restarts": 1, "test_tasks": (3,)}
    classic.main(classic.Run(out, worlds=("reacher",), **tiny))  # type: ignore[arg-type]
    return out


def rows_of(table: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return {name: cells for name, *cells in lines[2:]}


def test_older_methods_stand_beside_networks(written: Path) -> None:
    older: dict[str, Any] = json.loads(written.read_text())
    table = rows_of(methods_tables(older, {"table1": made_up.result("table1")})["reacher"])
    assert list(table)[:4] == [
        "equal lengths, 3 tasks",
        "change points, 3 tasks",
        "change points, kernel, 3 tasks",
        "hidden Markov model, 3 tasks",
    ]
    assert table["CompILE, 3 tasks"][0] == "50.0 ± 14.1"
    assert "exact, effects, 5 tasks" in table
    # Only methods that name what they find can agree with anything.
    assert table["equal lengths, 3 tasks"][3:] == ["-"] * 4
    assert "-" not in table["hidden Markov model, 3 tasks"]
    seeds = older["figures"]["reacher"]["change points"]["scores"]["3"]
    mean = 50 * sum(seed["boundary_accuracy"] for seed in seeds)
    assert float(table["change points, 3 tasks"][0].split()[0]) == pytest.approx(mean, abs=0.06)


def test_the_page_has_it(written: Path) -> None:
    made_up.write(written.parent, "table1")
    page = results_page(written.parent, written.parent / "page.md")
    assert "## All methods" in page
    assert "[classic.json](./classic.json)" in page
