"""Tables of studies show the numbers of their result files beside the paper's."""

from typing import Any

from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS
from experiments.paper.tables import interval_cells, methods_tables, study_cells
from experiments.tables.markdown import markdown_table
from tests.experiments.paper import made_up


def table(study: str, name: str, unending: bool = False, **scores: Any) -> list[str]:
    seeds = [Evaluation(**(dict.fromkeys(Evaluation._fields) | scores))._asdict()] * 2  # type: ignore[arg-type]
    config = {"study": study, "parts": {name: {"unending": unending}}}
    return markdown_table(*study_cells({"config": config, "figures": {name: {"scores": {"3": seeds}}}})).splitlines()


def test_the_papers_figures_stand_before_ours() -> None:
    heading, _, row = table("table1", "CompILE", boundary_accuracy=0.5, f1=0.75, f1_tolerance_1=1.0)
    assert heading == (
        "| per cent | paper: boundaries | boundaries | paper: F1 | F1 | paper: F1, 1 step off | F1, 1 step off |"
    )
    assert row == "| CompILE, 3 tasks | 62.0 ± 4.5 | 50.0 ± 0.0 | 74.3 ± 3.3 | 75.0 ± 0.0 | 78.9 ± 2.5 | 100.0 ± 0.0 |"


def test_columns_that_say_nothing_are_left_out() -> None:
    heading, _, row = table("figure4", "grid-pickup, exact", boundary_accuracy=1.0, f1=1.0, online=0.25)
    assert heading == "| per cent | boundaries | F1 | online |"
    assert row == "| grid-pickup, exact, 3 tasks | 100.0 ± 0.0 | 100.0 ± 0.0 | 25.0 ± 0.0 |"
    row = table("figure4", "VAE-BC", unending=True, boundary_accuracy=0.0, f1=0.0, online=0.25)[2]
    assert row == "| VAE-BC, 3 tasks | - | - | 25.0 ± 0.0 |", "what makes no cuts has no scores of cuts"
    right, wrong = (table("table3", "M=5", f1=1.0, count_accuracy=share)[0] for share in (1.0, 0.5))
    assert "number right" not in right
    assert "number right" in wrong


def test_every_score_has_an_interval() -> None:
    table1 = made_up.result("table1")
    shown, intervals = study_cells(table1), interval_cells(table1)
    assert intervals is not None
    assert intervals.headings[1:] == [heading for heading in shown.headings[1:] if not heading.startswith("paper: ")]
    assert [row[0] for row in intervals.rows] == [row[0] for row in shown.rows]
    compile_3 = next(row for row in intervals.rows if row[0] == "CompILE, 3 tasks")
    assert set(compile_3[1:]) == {"40.0 to 60.0"}  # all there is to be drawn from two seeds
    assert interval_cells(made_up.result("figure5")) is None


def test_headings_are_those_of_all_scores() -> None:
    assert {*SCORE_HEADINGS.values(), *LABEL_HEADINGS.values()} == set(Evaluation._fields)


def rows_of(text: str) -> dict[str, dict[str, str]]:
    heading, _, *lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()]
    return {name: dict(zip(heading[1:], cells, strict=True)) for name, *cells in lines}


def test_classic_methods_stand_beside_networks() -> None:
    classic, table1, figure4 = (made_up.result(name) for name in ("classic", "table1", "figure4"))
    tables = methods_tables(classic, {"table1": table1, "figure4": figure4})
    assert list(tables) == ["grid-pickup", "grid-visit", "reacher"]
    reacher, pickup = rows_of(tables["reacher"]), rows_of(tables["grid-pickup"])
    names = ["equal lengths", "change points", "change points, kernel", "hidden Markov model", "LSTM surprisal"]
    assert [name for name in reacher if name.endswith("3 tasks")][:5] == [f"{name}, 3 tasks" for name in names]
    assert reacher["exact, effects, 5 tasks"]["boundaries"] == "30.0 ± 14.1"
    assert reacher["change points, 3 tasks"]["online"] == "-"
    assert reacher["CompILE, 3 tasks"]["online"] == "50.0 ± 14.1"
    whole = pickup["VAE-BC, 3 tasks"]
    assert (whole["boundaries"], whole["F1"], whole["reconstruction"]) == ("-", "-", "50.0 ± 14.1")
    alone = rows_of(methods_tables(classic, {})["reacher"])
    assert "online" not in alone["equal lengths, 3 tasks"], "nothing there can be run"
