"""The parts of the package stand in one order, and import only from earlier ones."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import compile_il

PACKAGE = Path(compile_il.__file__).parent
PARTS = (
    "config",
    "data",
    "worlds",
    "networks",
    "inference",
    "model",
    "evaluation",
    "training",
    "baselines",
    "rl",
    "report",
    "cli",
)
FACE = ("__init__", "__main__")
"""Files at the root beside the parts: the names for users, and `python -m compile_il`."""


def imported(path: Path) -> Iterator[str]:
    """Yields the whole names of all modules that a file imports anywhere, in its functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write the whole name in imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_are_no_other_parts() -> None:
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert found == {*PARTS, *FACE}


@pytest.mark.parametrize("part", PARTS)
def test_parts_import_only_from_earlier_ones(part: str) -> None:
    files = sorted((PACKAGE / part).rglob("*.py")) or [PACKAGE / f"{part}.py"]
    # The command may also use the names for users.
    allowed = (*PARTS[: PARTS.index(part) + 1], *([""] if part == "cli" else []))
    for path in files:
        for name in imported(path):
            package, _, rest = name.partition(".")
            assert package != "compile_il" or rest.split(".")[0] in allowed, f"{path} imports {name}"


@pytest.mark.parametrize(("engine", "other"), [("exact", "relaxed"), ("relaxed", "exact")])
def test_engines_do_not_import_each_other(engine: str, other: str) -> None:
    for path in (PACKAGE / "inference" / engine).rglob("*.py"):
        assert not [name for name in imported(path) if name.startswith(f"compile_il.inference.{other}")], path


def test_the_package_needs_nothing_else_of_the_repository() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path)} & {"benchmarks", "experiments", "tests"}, path


def test_the_public_names() -> None:
    assert set(compile_il.__all__) == {
        *("fit", "load", "demonstrate", "evaluate", "score", "make_world"),
        *("Model", "Segments", "Demonstrations", "Evaluation", "Config", "CompileError", "WORLDS", "UNKNOWN"),
    }
    assert set(compile_il.__all__) <= set(dir(compile_il))
    for name in compile_il.__all__:
        assert getattr(compile_il, name) is not None


def test_the_tour_of_the_readme_lists_the_parts_in_order() -> None:
    tour = (Path(__file__).parents[1] / "README.md").read_text().split("## Tour")[1]
    assert tuple(re.findall(r"^\| `(\w+)` \|", tour, re.MULTILINE)) == PARTS
