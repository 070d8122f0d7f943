"""Which parts of the package, its folders and the modules beside them, import which: one way only."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import compile_il

PACKAGE = Path(compile_il.__file__).parent
FACE = "compile_il"
"""`compile_il/__init__.py`, which is for those who use the package."""
PARTS = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
BOTH_WAYS = ("model", "model_files")
"""`Model.save` asks for the module that writes and reads models when it is called; they are one idea in two files."""


def part_of(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return FACE if name == "__init__" else name


def imported(tree: ast.Module) -> Iterator[str]:
    """Parts that a file imports anywhere, in its functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say the whole name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, *rest in (name.split(".") for name in names):
            if package == "compile_il":
                yield rest[0] if rest and rest[0] in PARTS else FACE


def imports_of_parts() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        part = part_of(path)
        graph.setdefault(part, set()).update(set(imported(ast.parse(path.read_text()))) - {part})
    return graph


def known_to(part: str, graph: dict[str, set[str]]) -> set[str]:
    """All that it imports, and what that imports."""
    known, new = set(), {part}
    while new:
        known |= new
        new = set().union(*(graph[one] for one in new)) - known
    return known - {part}


def test_no_parts_import_each_other() -> None:
    graph = imports_of_parts()
    one, other = BOTH_WAYS
    assert other in graph[one], "no longer an exception"
    graph[one].remove(other)
    graphlib.TopologicalSorter(graph).prepare()  # raises an error that names the parts of a cycle


@pytest.mark.parametrize(
    ("part", "never"),
    [
        ("worlds", {"demos", "model", "train"}),
        ("demos", {"worlds", "model", "train"}),
        ("exact", {"model", "new_skills", "objectives", "priors", "train", "relaxed"}),
        ("relaxed", {"model", "new_skills", "objectives", "priors", "train"}),
        ("model", {"objectives", "train"}),
        ("report", {"train", "reproduce", "experiments", "documents"}),
        ("hierarchy", {"reproduce", "experiments"}),
    ],
)
def test_layers_do_not_know_those_above(part: str, never: set[str]) -> None:
    graph = imports_of_parts()
    assert never <= set(graph), "they are parts"
    assert not known_to(part, graph) & never


def test_the_package_needs_nothing_else_of_the_repository() -> None:
    """What is beside it here is not there where it is installed."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & {"benchmarks", "tests"}, path
