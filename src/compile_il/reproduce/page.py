"""`docs/results.md` and its pictures, from the result files of studies; no number in them is typed by hand.

    python -m compile_il.reproduce.page docs/results.md --results results

Pictures go to `images/` beside the page, so that a page can be made of any folder of results, finished or not: studies
without a result file are left out.
"""

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from compile_il.files import replace_file
from compile_il.report.markdown import markdown_table
from compile_il.report.scores import interval, spread
from compile_il.reproduce.draw import interval_cells, study_table
from compile_il.reproduce.methods import METHODS_INTRODUCTION, methods_tables
from compile_il.reproduce.names import TITLES, PaperName
from compile_il.reproduce.notes import longest_training, note_on
from compile_il.reproduce.pictures import pictures_of, save_picture
from compile_il.reproduce.times import duration, repeated_seconds, time_taken
from compile_il.results import RESULTS

INTRODUCTION = """# The paper's tables and figures

Made by `make docs` from the files that `compile-il reproduce NAME` writes, and so are all of our numbers. Models are
trained on demonstrations of three tasks and scored on unseen levels.

- **Numbers** are means and sample standard deviations over seeds; the paper's stand before ours where it prints them.
  Below each table of scores, on demand, are the 95 % bootstrap intervals of the means. With five seeds these are
  narrow: they cover the mean about 85 times in 100.
- **"exact"** is this package's own inference, without labels. With **"effects"** its skills are also told apart by what
  they change, which gives them most of their agreement before any training ([exact.md](exact.md)).
- **"number right"** is the share of demonstrations in which as many segments were found as there are.
- **Settings** were chosen on other levels, but for two that had been looked at on these: the length of short trainings
  on grids, and the floor on the spread of actions of relaxed inference ([decisions.md](decisions.md#relaxed-engine)).
- **Wall time** of models that shared an accelerator is each one's share of it, and so less than its training took by
  the clock.
"""
ONCE = "`compile-il reproduce all` now trains such models once, and only scores them in each study."
INTERVALS = "95 % intervals"
CLASSIC = "classic.json"
"""Name of the result file of methods that are older than networks."""


def results_page(results: Path, page: Path) -> str:
    """Returns the text of the page: a section for each study that has been run.

    Args:
      results: the folder of the result files.
      page: the file that the text is meant for; links are relative to its folder.
    """
    studies, folder = read_studies(results), os.path.relpath(results, page.parent)
    sections = [_section(name, result, folder) for name, result in studies.items()]
    classic = _read(results / CLASSIC) if (results / CLASSIC).exists() else None
    if classic is not None:
        sections.append(_methods_section(classic, studies, folder))
    if len(studies) > 1:
        sections.append(_times(studies, classic))
    return "\n".join([INTRODUCTION, *sections])


def _times(studies: dict[PaperName, dict[str, Any]], classic: dict[str, Any] | None) -> str:
    """Returns sentences on the time of all studies together, and on the part of it that would not be spent again."""
    total = sum(result["wall_time"] for result in studies.values())
    agents = studies["figure5"]["wall_time"] if "figure5" in studies else 0.0
    without = f", {duration(total - agents)} without the agents of figure 5" if agents else ""
    sentences = [f"The paper's tables and figures took {duration(total)} together{without}."]
    if again := repeated_seconds(studies):
        of_what, left = " for all but agents" if agents else "", duration(total - agents - again)
        sentences.append(
            f"{duration(again)} of it went to parts whose models an earlier study had trained: {ONCE} "
            f"The aim was an hour{of_what}; at least {left} are left, and what that scoring takes."
        )
    if classic is not None:
        sentences.append(f"Older methods, which `all` leaves out, took another {duration(classic['wall_time'])}.")
    return " ".join(sentences) + "\n"


def read_studies(results: Path) -> dict[PaperName, dict[str, Any]]:
    """Returns the contents of the result files that there are, by name, in the order of the paper."""
    paths = {name: results / f"{name}.json" for name in get_args(PaperName)}
    return {name: _read(path) for name, path in paths.items() if path.exists()}


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is no whole JSON file ({error}): make it again with compile-il reproduce.") from error
    return result


def _section(name: PaperName, result: dict[str, Any], results: str) -> str:
    images = "".join(
        f"![{picture.caption}](images/{picture.name}.png)\n\n*{picture.caption}.*\n\n"
        for picture in pictures_of(result)
    )
    link = f"[{name}.json]({results}/{name}.json)"
    note = f"{words}\n\n" if (words := note_on(name, result)) else ""
    made = _on_demand("How this was made", f"{provenance(result)} {link}\n")
    return f"## {heading(name)}\n\n{images}{study_table(result)}\n{_intervals(result)}{note}{made}"


def _intervals(result: dict[str, Any]) -> str:
    """Returns the table of 95 % intervals, folded away; empty where a study has none."""
    cells = interval_cells(result)
    return "" if cells is None else _on_demand(INTERVALS, markdown_table(*cells))


def _on_demand(title: str, text: str) -> str:
    """Returns a text folded away under a title that a reader can click."""
    # Without empty lines around it, a table would not be read as one.
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n\n"


def _methods_section(classic: dict[str, Any], studies: dict[PaperName, dict[str, Any]], results: str) -> str:
    means, intervals = (methods_tables(classic, studies, show) for show in (spread, interval))
    tables = "\n".join(f"{world}:\n\n{means[world]}\n{_on_demand(INTERVALS, intervals[world])}" for world in means)
    made = (
        f"Of older methods each seed has its own training demonstrations. {seeds_of(classic)} Hardware: "
        f"{_distinct(machine(part['hardware']) for part in classic['figures'].values())}. Commit: "
        f"{_commits(classic)}. "
        f"{time_taken(classic)} [{CLASSIC}]({results}/{CLASSIC}) `compile-il reproduce all` leaves older methods out: "
        "`compile-il reproduce classic` runs them."
    )
    made = _on_demand("How this was made", f"{made} Networks: as in the sections above.\n")
    return f"## All methods\n\n{METHODS_INTRODUCTION}\n{tables}\n{made}"


def heading(name: PaperName) -> str:
    """Returns the heading of a section, such as "Table 1. Reacher ..."."""
    number = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    kind = name.removesuffix(number).capitalize()
    return f"{kind} {number}. {TITLES[name]}" if number else f"{kind} results. {TITLES[name]}"


def provenance(result: dict[str, Any]) -> str:
    """Returns sentences on how a study was made: scale, seeds, hardware, commit and time."""
    parts = result["figures"].values()
    left = result["config"].get("not_run")
    return " ".join(
        [
            *([f"Not run yet: {'; '.join(left)}."] if left else []),
            f"Scale: {result['config']['scale']} ({'; '.join(map(_training, longest_training(result).values()))}).",
            seeds_of(result),
            f"Hardware: {_distinct(machine(part['hardware']) for part in parts)}.",
            f"Commit: {_commits(result)}.",
            time_taken(result),
        ]
    )


def seeds_of(result: dict[str, Any]) -> str:
    """Returns the first and the last seed of a study, such as "Seeds: 0 to 4."."""
    first, *others = result["seeds"]
    return f"Seeds: {first} to {others[-1]}." if others else f"Seed: {first}."


def _commits(result: dict[str, Any]) -> str:
    """Returns the commits of the versions that scored a study, and of those that trained it where these are others."""
    parts = result["figures"].values()
    trained = _distinct(commit for part in parts for commit in part.get("trained_by", []))
    return _distinct(part["commit"] for part in parts) + (f", of training {trained}" if trained else "")


def _training(config: dict[str, Any]) -> str:
    falls = f" that falls to zero in the last {100 * config['cooldown']:.0f} %" if config["cooldown"] else ""
    digits = ", in bfloat16" if config["half_precision"] else ""
    rate = f"at a rate of {config['learning_rate']:g}{falls}"
    return f"{config['num_iterations']:,} iterations of {config['inference']} training {rate}{digits}"


def machine(hardware: dict[str, Any]) -> str:
    """Returns the hardware in words, such as "one NVIDIA H200" or "2 cores of ..."."""
    if hardware["platform"] == "cpu":
        cores = "one core" if hardware["num_cores"] == 1 else f"{hardware['num_cores']} cores"
        return f"{cores} of {hardware['device']}"
    count = hardware["num_devices"]
    return f"{'one' if count == 1 else count} {hardware['device']}"


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


@dataclasses.dataclass(frozen=True)
class Page:
    """Write a page of the paper's tables and figures, with our results beside the paper's."""

    page: Annotated[Path, tyro.conf.arg(metavar="PAGE"), tyro.conf.Positional]
    """The Markdown file to write; pictures go to images/ beside it."""
    results: Path = RESULTS
    """Folder of the result files."""

    def write(self) -> None:
        """Draws the pictures, then writes the text."""
        if not read_studies(self.results):
            raise FileNotFoundError(f"There are no results in {self.results}: run compile-il reproduce first.")
        images = self.page.parent / "images"
        images.mkdir(parents=True, exist_ok=True)
        for name, result in read_studies(self.results).items():
            for picture in pictures_of(result):
                save_picture(picture, images, self.results / f"{name}.json")
        with replace_file(self.page) as temporary:
            temporary.write_text(results_page(self.results, self.page))


if __name__ == "__main__":
    tyro.cli(Page).write()
