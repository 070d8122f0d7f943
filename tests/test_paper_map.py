"""The map from the paper to the code names only what exists, and leaves out no equation."""

import ast
import functools
import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
COLUMNS = ["paper", "code", "tests", "choice or departure"]
NUM_EQUATIONS = 17
NOTHING = "-"


class Row(NamedTuple):
    """A line of a table."""

    paper: str
    code: str
    tests: str
    choice: str


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_rows(text: str) -> list[Row]:
    """All lines of all tables, but for their heads."""
    rows = []
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|---") or cells_of(line) == COLUMNS:
            continue
        cells = cells_of(line)
        assert len(cells) == len(COLUMNS), f"{len(cells)} cells instead of {len(COLUMNS)}: {line}"
        rows.append(Row(*cells))
    return rows


def names_in(cell: str) -> list[str]:
    """What is quoted; a cell has names or a dash, and nothing else."""
    if cell == NOTHING:
        return []
    names = re.findall(r"`([^`]+)`", cell)
    assert cell == ", ".join(f"`{name}`" for name in names), f"names in quotes, with commas between, and not: {cell}"
    return names


def look_up(name: str) -> Any:
    """The module, function, class or attribute of a dotted name."""
    parts = name.split(".")
    for num_parts in range(len(parts), 0, -1):
        module = ".".join(parts[:num_parts])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there, and something that it imports is not
            continue
        return functools.reduce(getattr, parts[num_parts:], found)
    raise ModuleNotFoundError(f"no module {parts[0]}")


@functools.cache
def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


ROWS = read_rows((ROOT / "docs" / "paper_map.md").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.paper)
def test_names_of_the_code_exist(row: Row) -> None:
    for name in names_in(row.code):
        assert name.startswith(("compile_il.", "experiments.")), (
            f"docs/paper_map.md, {row.paper!r}: write all of {name}"
        )
        try:
            look_up(name)
        except (ModuleNotFoundError, AttributeError) as error:
            pytest.fail(f"docs/paper_map.md, {row.paper!r}: there is no {name} ({error})")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.paper)
def test_tests_exist(row: Row) -> None:
    for name in names_in(row.tests):
        path, _, function = name.partition("::")
        assert (ROOT / path).is_file(), f"docs/paper_map.md, {row.paper!r}: there is no file {path}"
        assert function.startswith("test_"), f"docs/paper_map.md, {row.paper!r}: {name} names no test"
        assert function in functions_of(ROOT / path), f"docs/paper_map.md, {row.paper!r}: {path} has no {function}"


def test_every_equation_is_there() -> None:
    named = {int(number) for row in ROWS for number in re.findall(r"\((\d+)\)", row.paper)}
    assert named == set(range(1, NUM_EQUATIONS + 1))


def test_every_row_says_what_was_chosen() -> None:
    for row in ROWS:
        assert row.choice, f"docs/paper_map.md, {row.paper!r}: say what was chosen, or that it is as in the paper"


@pytest.mark.parametrize(
    "name", ["compile_il.inference.relaxed.hard_segments", "compile_il.soft.masks", "compile_ill.fit"]
)
def test_names_that_do_not_exist_are_noticed(name: str) -> None:
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        look_up(name)


@pytest.mark.parametrize("name", ["tests/relaxed/test_nothing.py::test_masks", "tests/test_config.py::test_nothing"])
def test_tests_that_do_not_exist_are_noticed(name: str) -> None:
    with pytest.raises(AssertionError, match=r"docs/paper_map.md, 'Eq': (there is no file|.* has no)"):
        test_tests_exist(Row("Eq", "-", f"`{name}`", ""))
