"""Tables of studies, from made-up results."""

from typing import Any

from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.results import LABEL_HEADINGS, SCORE_HEADINGS, interval, spread
from experiments.paper.published import PAPER, Row
from experiments.paper.studies import make_study
from experiments.paper.tables import PAPERS, interval_cells, study_cells, study_table
from tests.experiments.paper import made_up


def result(study: str, name: str, unending: bool = False, **scores: Any) -> dict[str, Any]:
    seeds = [Evaluation(**(dict.fromkeys(Evaluation._fields) | scores))._asdict()] * 2  # type: ignore[arg-type]
    config = {"study": study, "parts": {name: {"unending": unending}}}
    return {"config": config, "figures": {name: {"scores": {"3": seeds}}}}


def test_the_papers_figures_stand_before_ours() -> None:
    table = study_table(result("table1", "CompILE", boundary_accuracy=0.5, f1=0.75, f1_tolerance_1=1.0))
    assert table.splitlines()[0] == (
        "| per cent | paper: boundaries | boundaries | paper: F1 | F1 | paper: F1, 1 step off | F1, 1 step off |"
    )
    assert table.splitlines()[2] == (
        "| CompILE, 3 tasks | 62.0 ± 4.5 | 50.0 ± 0.0 | 74.3 ± 3.3 | 75.0 ± 0.0 | 78.9 ± 2.5 | 100.0 ± 0.0 |"
    )


def test_where_the_paper_has_none_there_is_no_column() -> None:
    table = study_table(result("figure4", "grid-pickup, exact", boundary_accuracy=1.0, f1=1.0, online=0.25))
    assert table.splitlines()[0] == "| per cent | boundaries | F1 | online |"
    assert table.splitlines()[2] == "| grid-pickup, exact, 3 tasks | 100.0 ± 0.0 | 100.0 ± 0.0 | 25.0 ± 0.0 |"


def test_what_makes_no_cuts_has_no_scores_of_cuts() -> None:
    table = study_table(result("figure4", "VAE-BC", unending=True, boundary_accuracy=0.0, f1=0.0, online=0.25))
    assert table.splitlines()[2] == "| VAE-BC, 3 tasks | - | - | 25.0 ± 0.0 |"


def test_every_score_has_an_interval() -> None:
    table1 = made_up.result("table1")
    shown, intervals = study_cells(table1), interval_cells(table1)
    assert intervals is not None
    assert intervals.headings[1:] == [heading for heading in shown.headings[1:] if not heading.startswith(PAPERS)]
    assert [row[0] for row in intervals.rows] == [row[0] for row in shown.rows]
    compile_3 = next(row for row in intervals.rows if row[0] == "CompILE, 3 tasks")
    assert set(compile_3[1:]) == {"40.0 to 60.0"}  # all there is to be drawn from two seeds
    assert interval_cells(made_up.result("figure5")) is None


def test_the_number_of_segments_is_a_column_where_it_was_not_told() -> None:
    some = {"boundary_accuracy": 1.0, "f1": 1.0}
    told, found = (study_table(result("table3", "M=5", count_accuracy=share, **some)) for share in (1.0, 0.5))
    assert "number right" not in told
    assert "number right" in found


def test_deviations_are_those_of_samples() -> None:
    assert spread([0.9, 0.7, None, 0.8]) == "80.0 ± 10.0 (3 of 4 seeds)"
    assert spread([0.5]) == "50.0"
    assert spread([None]) == "-"


def test_intervals_lie_within_what_the_seeds_have() -> None:
    low, high = (float(end) for end in interval([0.9, 0.7, None, 0.8]).split(" to "))
    assert 70 <= low < 80 < high <= 90
    assert interval([0.5]) == interval([None]) == "-"


def test_headings_are_those_of_all_scores() -> None:
    assert {*SCORE_HEADINGS.values(), *LABEL_HEADINGS.values()} == set(Evaluation._fields)


def test_rows_of_the_paper_have_models() -> None:
    missing = {
        (study, name)
        for study, rows in PAPER.items()
        for name in rows
        if name not in {part.name for part in make_study(study, "short").parts}
    }
    assert not missing


def test_rows_are_complete() -> None:
    for rows in PAPER.values():
        for row in (row for by_tasks in rows.values() for row in by_tasks.values()):
            assert isinstance(row, Row)
            assert row.boundary_accuracy[0] <= row.f1[0] <= row.f1_tolerance_1[0]
