"""Tables of studies in terminals of any width."""

import re

from rich.console import Console

from experiments.paper.__main__ import cell_tables
from experiments.paper.tables import Cells

CELLS = Cells(
    ["per cent", "paper: boundaries", "boundaries", "paper: F1", "F1", "online"],
    [["CompILE, 3 tasks", "62.0 ± 4.5", "81.3 ± 2.6", "74.3 ± 3.3", "88.5 ± 1.9", "-"]],
)


def printed(width: int) -> list[list[str]]:
    """The lines of each table."""
    console = Console(width=width)
    texts = []
    for table in cell_tables("table1", CELLS, width):
        with console.capture() as capture:
            console.print(table)
        texts.append(capture.get().splitlines())
    return texts


def test_one_table_where_there_is_room() -> None:
    (lines,) = printed(100)
    assert re.split(" {2,}", lines[-1].strip()) == CELLS.rows[0]


def test_narrow_terminals_get_more_tables_and_every_number_whole() -> None:
    tables = printed(44)
    assert len(tables) == 3
    assert all(len(line) <= 44 for lines in tables for line in lines)
    for lines in tables:
        assert lines[-1].startswith("CompILE, 3 tasks  ")
    last = " ".join(lines[-1] for lines in tables)
    assert all(cell in last for cell in CELLS.rows[0])


def test_the_papers_column_stays_beside_ours() -> None:
    for width in (44, 56, 70):
        for lines in printed(width):
            said = " ".join(lines[:-2])
            assert ("paper:" in said) == ("boundaries" in said or "F1" in said)
            assert said.count("F1") in (0, 2)
