"""The page of results: complete, made of what is there, and not stale."""

import re
from pathlib import Path
from typing import get_args

import pytest
from PIL import Image

from compile_il.evaluation.results import RESULTS
from experiments.paper.figures import drawn_from, pictures_of
from experiments.paper.page import (
    HEADINGS,
    TEXTS,
    duration,
    machine,
    note_on,
    provenance,
    read_studies,
    results_page,
    training_seconds,
    write_page,
)
from experiments.paper.studies import PaperName, StudyName
from tests.experiments.paper import made_up

ROOT = Path(__file__).parents[3]


def test_the_committed_page_is_that_of_the_results() -> None:
    page = ROOT / "docs" / "results.md"
    assert page.read_text() == results_page(ROOT / "results", page), "run: make docs"


def test_the_committed_pictures_are_those_of_the_results() -> None:
    for name, result in read_studies(ROOT / "results").items():
        for picture in pictures_of(result):
            with Image.open(ROOT / "docs" / "images" / f"{picture.name}.png") as image:
                assert image.info["Source"] == drawn_from(ROOT / "results" / f"{name}.json"), "run: make docs"


def test_files_that_are_missing_or_cut_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There are no results in"):
        write_page(tmp_path / "page.md", tmp_path / "nowhere")
    (tmp_path / "table1.json").write_text('{"config": ')
    with pytest.raises(ValueError, match=r"table1\.json is no whole JSON file"):
        write_page(tmp_path / "page.md", tmp_path)


def test_what_has_not_been_run_is_left_out(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "results.md"
    (tmp_path / "results").mkdir()
    assert results_page(tmp_path / "results", page) == TEXTS["introduction"]
    made_up.write(tmp_path / "results", "table3")
    text = results_page(tmp_path / "results", page)
    assert re.findall("^## (.*)", text, re.MULTILINE) == ["Table 3. Reacher: number of segments and temperature"]
    assert "| M=3, 3 tasks | 62.0 ± 4.5 | 50.0 ± 14.1 |" in text
    assert "together" not in text


def test_sections_say_where_they_come_from(tmp_path: Path) -> None:
    for name in get_args(StudyName):
        made_up.write(tmp_path, name)
    text = results_page(tmp_path, tmp_path / "results.md")
    *sections, methods = re.split("^## ", text, flags=re.MULTILINE)[1:]
    assert methods.splitlines()[0] == "All methods"
    assert "demonstrations. Seeds: 0 to 4. Hardware: one Some GPU. Commit: 0" in methods
    assert [section.splitlines()[0] for section in sections] == list(HEADINGS.values())
    for name, section in zip(get_args(PaperName), sections, strict=True):
        assert "Scale: short (" in section
        seeds = {"qualitative": "Seed: 0.", "figure5": "Seeds: 0 to 2."}.get(name, "Seeds: 0 to 4.")
        assert seeds in section
        assert "Hardware: one Some GPU. Commit: 0123abc. Wall time: " in section
        assert f"[{name}.json](./{name}.json)" in section
        assert note_on(name, made_up.result(name)) in section
        assert section.count("![") == {"figure4": 1, "figure5": 1, "figure7": 1, "qualitative": 5}.get(name, 0)
    num_parts = {name: len(result["figures"]) for name, result in read_studies(tmp_path).items()}
    whole = duration(sum(num_parts.values()) * made_up.WALL_TIME)
    assert f"took {whole} together, " in text
    others = duration((sum(num_parts.values()) - num_parts["figure5"]) * made_up.WALL_TIME)
    assert f"together, {others} without the agents of figure 5. " in text
    assert f"Older methods, which `all` leaves out, took another {duration(12 * made_up.WALL_TIME)}." in text
    assert "`python -m experiments.paper classic` runs them." in methods
    assert "segmental F1, overlap 50 % |" in methods
    assert "| CompILE | 2 | 40.0 % | 30.0 % | 1.5 |" in sections[-1]


def test_a_shared_machine_is_named() -> None:
    result = made_up.result("table1")
    assert provenance(result).endswith("Commit: 0123abc. Wall time: 6 min.")
    for part in result["figures"].values():
        part["training_seconds"] = part["wall_time"] / 2
    assert provenance(result).endswith("Wall time: 6 min, of training 3 min.")
    for part in result["figures"].values():
        part["training_seconds"] *= 4
    shared = "Wall time: 6 min, the sum of the shares of models that ran at once on one machine"
    assert provenance(result).endswith(f"{shared}; by the clock of each, training took 12 min in sum.")


def test_what_is_trained_once_is_counted_once() -> None:
    result = made_up.result("table3")
    for part in result["figures"].values():
        part["training_seconds"] = 1.0
    same = {"M=3", "temperature=1.0"}
    assert training_seconds(result) == len(result["figures"]) - len(same) + 1
    result["figures"]["M=3"]["training_seconds"] = 5.0
    assert training_seconds(result) == len(result["figures"]) - len(same) + 5
    agents = made_up.result("figure5")
    assert training_seconds(agents) == len(agents["figures"]), "a second of learning each"


def test_notes_on_one_version_are_said_of_no_other() -> None:
    """Of files that one version of the program has made, in part or in whole."""
    for name, _, made_by in (mark.partition(", ") for mark in TEXTS):
        if name not in get_args(PaperName):
            continue
        words = " ".join(TEXTS[f"{name}, {made_by}" if made_by else name].split())
        result = made_up.result(name)
        assert (words in note_on(name, result)) == (not made_by)
        next(iter(result["figures"].values()))["commit"] = made_by
        assert words in note_on(name, result)
        assert words in note_on(name, read_studies(RESULTS)[name])


def test_numbers_in_notes_are_those_of_the_files() -> None:
    results = read_studies(RESULTS)
    note = note_on("figure4", results["figure4"])
    configs = [part["config"] for part in results["figure4"]["config"]["parts"].values() if not part["surprisal"]]
    exact, relaxed = ({c["num_iterations"] for c in configs if c["inference"] == one} for one in ("exact", "relaxed"))
    assert f"for {min(exact):,} iterations and CompILE for {min(relaxed):,}, where the paper has 50,000" in note
    agents = results["figure5"]["config"]["parts"].values()
    skilled = {(one["world"], one["config"]["num_skills"]) for one in agents if one["agent"]["agent"] == "hierarchical"}
    assert skilled == {("grid-pickup", 10), ("grid-visit", 32)}
    assert "10 for grid-pickup and 32 for grid-visit" in note_on("figure5", results["figure5"])
    seeds = results["figure7"]["figures"]["grid-pickup, CompILE"]["scores"]["5"]
    fewer = [seed for seed in seeds if seed["count_accuracy"] < 0.95]
    low, high = (f"{100 * (1 - right(seed['count_accuracy'] for seed in fewer)):.0f}" for right in (max, min))
    assert note_on("figure7", results["figure7"]).startswith(
        f"{len(fewer)} of {len(seeds)} seeds of CompILE on pick-up leave out a segment in {low} to {high} % of the"
    )
    early = [part["config"]["num_iterations"] for part in results["qualitative"]["config"]["parts"].values()][2:]
    words = "after {} iterations of relaxed training or {} iterations of exact training.".format(*early)
    assert note_on("qualitative", results["qualitative"]).endswith(words)


def test_writing_makes_every_picture(tmp_path: Path) -> None:
    made_up.write(tmp_path, "qualitative")
    page = tmp_path / "docs" / "page.md"
    write_page(page, tmp_path)
    linked = re.findall(r"\]\((images/[^)]*)\)", page.read_text())
    assert len(linked) == 5
    assert {path.relative_to(page.parent) for path in page.parent.glob("images/*")} == set(map(Path, linked))


def test_durations() -> None:
    seconds = {1.2: "1 s", 89: "89 s", 90: "2 min", 3599: "1 h 0 min", 11_100: "3 h 5 min"}
    assert {time: duration(time) for time in seconds} == seconds


def test_machines() -> None:
    assert machine(made_up.HARDWARE | {"num_devices": 4}) == "4 Some GPU"
    assert machine(made_up.HARDWARE | {"platform": "cpu", "device": "Some CPU"}) == "8 cores of Some CPU"
