"""The table of all methods takes each from where it was measured, and older methods are not fitted twice."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from compile_il.baselines.hmm import HiddenMarkov
from experiments.paper import classic as older
from experiments.paper.classic import OlderPart, compare
from experiments.paper.page import results_page
from experiments.paper.parts import run_part
from experiments.paper.studies import make_study
from experiments.paper.tables import methods_tables
from tests.experiments.paper import made_up

TINY = next(part for part in make_study("classic", "smoke").parts if part.name == "reacher, hidden Markov model")


def rows_of(table: str) -> dict[str, dict[str, str]]:
    heading, _, *lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    return {name: dict(zip(heading[1:], cells, strict=True)) for name, *cells in lines}


def test_older_methods_stand_beside_networks() -> None:
    classic, table1, figure4 = (made_up.result(name) for name in ("classic", "table1", "figure4"))
    tables = methods_tables(classic, {"table1": table1, "figure4": figure4})
    assert list(tables) == ["grid-pickup", "grid-visit", "reacher"]
    reacher, pickup = rows_of(tables["reacher"]), rows_of(tables["grid-pickup"])
    assert [name for name in reacher if name.endswith("3 tasks")][:5] == [
        "equal lengths, 3 tasks",
        "change points, 3 tasks",
        "change points, kernel, 3 tasks",
        "hidden Markov model, 3 tasks",
        "LSTM surprisal, 3 tasks",
    ]
    assert reacher["exact, effects, 5 tasks"]["boundaries"] == "30.0 ± 14.1"
    assert reacher["change points, 3 tasks"]["online"] == "-"
    assert reacher["CompILE, 3 tasks"]["online"] == "50.0 ± 14.1"
    whole = pickup["VAE-BC, 3 tasks"]
    assert (whole["boundaries"], whole["F1"], whole["reconstruction"]) == ("-", "-", "50.0 ± 14.1")
    alone = rows_of(methods_tables(classic, {})["reacher"])
    assert "online" not in alone["equal lengths, 3 tasks"], "nothing there can be run"


def test_the_page_has_it(tmp_path: Path) -> None:
    made_up.write(tmp_path, "table1")
    made_up.write(tmp_path, "classic")
    page = results_page(tmp_path, tmp_path / "page.md")
    assert "## All methods" in page
    assert "[classic.json](./classic.json)" in page


def test_every_older_method_is_in_every_world() -> None:
    study = make_study("classic", "short")
    assert len(study.parts) == 3 * 4
    assert study.num_seeds == 5
    assert all(isinstance(part, OlderPart) and not part.needs_models for part in study.parts)
    assert "config" not in study.parts[0].to_json()


def test_what_was_fitted_is_not_fitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while the second seed is fitted; five views are to be chosen from."""
    fits: list[Any] = []
    fit = HiddenMarkov.fit

    def interrupted(self: HiddenMarkov, demos: Any) -> Any:
        fits.append(self.view)
        if len(fits) == 7:
            raise KeyboardInterrupt
        return fit(self, demos)

    whole = run_part(TINY, tmp_path / "whole", print)
    monkeypatch.setattr(HiddenMarkov, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_part(TINY, tmp_path / "broken", print)
    assert run_part(TINY, tmp_path / "broken", print) == whole
    assert len(fits) == 8
    assert len(set(fits[:5])) == 5


def test_other_settings_are_fitted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(older, "keep", lambda path, make, number: made.append(path.parent.name) or _nothing(path))
    for part in (TINY, dataclasses.replace(TINY, num_states=(3,)), dataclasses.replace(TINY, num_test=8)):  # type: ignore[call-arg]
        compare(part, tmp_path, print)
    assert len(set(made)) == 3


def _nothing(path: Path) -> Any:
    return 0.5 if path.name.startswith("choice") else {"3": {}, "5": {}}


@pytest.mark.parametrize("kept", [b"", b"{", b"\xff"])
def test_a_fit_that_cannot_be_read_is_made_again(kept: bytes, tmp_path: Path) -> None:
    path = tmp_path / "seed-1.json"
    path.write_bytes(kept)
    for made in (0.5, 0.7):
        assert older.keep(path, lambda number, made=made: made * number, 1) == 0.5  # type: ignore[misc]
