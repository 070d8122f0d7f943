"""Documents stay true: their snippets run, their tables come from the results, their links lead somewhere."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
import tyro

from compile_il.cli import Command
from compile_il.data.segment_counts import CountWarning
from experiments.ablations import imitation
from experiments.tables.__main__ import refresh

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{path.name}-{number}", marks=[pytest.mark.slow] if "experiments." in code else [])
    for path in DOCUMENTS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippets_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short trainings: whether long ones learn is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    short = re.sub(r"\bnum_iterations=\d+", "num_iterations=3", code)
    with warnings.catch_warnings(action="ignore", category=CountWarning):  # after so few iterations
        exec(compile(short, "snippet", "exec"), {})


PROGRAMS = {"compile-il": Command, "python -m experiments.ablations.imitation": imitation.Run}


def commands_of(path: Path) -> list[str]:
    blocks = re.findall(r"```(?:ba)?sh\n(.*?)```", path.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("line", [line for path in DOCUMENTS for line in commands_of(path)])
def test_commands_are_understood(line: str) -> None:
    """Whether they do what they should is tested with the commands; `make` targets are those of the Makefile."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
        return
    program = next(program for program in PROGRAMS if words[: len(program.split())] == program.split())
    arguments = words[len(program.split()) :]
    config = (tyro.conf.FlagCreatePairsOff,) if program == "compile-il" else ()
    tyro.cli(PROGRAMS[program], args=arguments, config=config)  # type: ignore[call-overload]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tables_are_those_of_the_results(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert refresh(path.read_text()) == path.read_text(), f"run: python -m experiments.tables {path.name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link, _, heading in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", path.read_text())):
        target = path.parent / link if link else path
        assert link.startswith("https://") or target.exists(), link
        assert not heading or heading in headings_of(target), f"{link}#{heading}"


def headings_of(path: Path) -> set[str]:
    """As they stand in links: in lower case, without marks, with dashes for spaces."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
