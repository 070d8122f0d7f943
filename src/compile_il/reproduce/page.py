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
from compile_il.reproduce.draw import interval_cells, study_table
from compile_il.reproduce.methods import METHODS_INTRODUCTION, methods_tables
from compile_il.reproduce.names import TITLES, PaperName
from compile_il.reproduce.pictures import pictures_of, save_picture
from compile_il.results import RESULTS

INTRODUCTION = """# The paper's tables and figures

Made by `make docs` from the files that `compile-il reproduce NAME` writes. Models are trained on demonstrations of
three tasks and scored on unseen levels; numbers are the mean and the sample standard deviation over seeds. Below
tables of scores stand the 95 % intervals of the means, by the bootstrap, which with five seeds are narrow: they cover
the mean about 85 times in 100. The paper's stand before ours where it prints them. Settings
were chosen on other levels, but for two that had been looked at on these: how long short trainings on grids are, and
the floor on the spread of actions of relaxed inference (docs/decisions.md, relaxed engine). Where several models were
trained at once on one accelerator, wall time is each one's share of it, and less than its training took by the clock.

"exact" is this package's own inference, without labels; with "effects" its skills are also told apart by what they
change (docs/exact.md). "Number right" is the share of demonstrations in which as many segments were found as there are.
"""
OLD_REACHER = "The reacher's 32 numbers had a constant 1 beside them when this was made; it is gone since."
NOTES: dict[PaperName, str] = {
    "table1": OLD_REACHER,
    "table2": (
        "The boundaries that z-CompILE misses are a step off, in some seeds more than in others "
        '(docs/decisions.md, "Told Gaussian codes").'
    ),
    "table3": (
        f"{OLD_REACHER} M=3 and temperature 1 are trained as CompILE of table 1 is, with the same seeds, by another "
        "version of the program. Samples at low temperatures are drawn more exactly by now. Where low temperatures "
        "fall short, it is for want of iterations, as far as small networks show: trained for longer, they pass the "
        "paper's figure with 0.1 and come half-way with 0.01 (docs/relaxed.md, training)."
    ),
    "figure4": (
        "Reconstruction is over the steps of all demonstrations together, where the paper, and `compile-il evaluate` "
        "by now, take the mean over demonstrations of each one's share; in trials they differed by 0.15 points "
        "at most. The exact engine's models have larger policies, longer training and, without effects, more skills "
        "than CompILE's, which has the paper's sizes and a seventh of its iterations; with all of them it comes to "
        "more (docs/relaxed.md, training)."
    ),
    "figure5": (
        "Agents draw options with their own probabilities, as while they learned; the file also has their success "
        "with the most probable one. Seeds are those of agents: all three have the skills of one model, and "
        "with the exact engine so have all panels of a world. "
        "Skills of the exact engine were trained longer, with larger policies and, for pick-up, with "
        "effects; there are 10 for pick-up and 32 for visits, of either engine, and they end after 10 steps. "
        "Settings were chosen on other levels, but for one: four agents had been scored on these at a rate of "
        "0.001 before 0.0003 was taken for all (docs/decisions.md, hierarchical reinforcement learning). Minutes "
        "are more than it takes: seven parts were begun at that rate first, and for a while two commands counted "
        "the same seconds."
    ),
    "figure7": (
        "Two seeds of CompILE on pick-up leave out a segment in a fifth of the demonstrations of five tasks, and solve "
        "2 % of those levels online; the others 98 %. "
        "Wall time is more than it takes: another training, which is not counted, ran on the same accelerator."
    ),
    "qualitative": "One model of each kind, after all of its training or after a hundredth of it.",
}
"""What a reader could take otherwise."""
CLASSIC = "classic.json"
"""Of methods that are older than networks."""


def results_page(results: Path, page: Path) -> str:
    """The text of the page: a section for each study that has been run.

    Args:
      results: the folder of the result files.
      page: where the text will stand; links lead from there.
    """
    studies, folder = read_studies(results), os.path.relpath(results, page.parent)
    sections = [_section(name, result, folder) for name, result in studies.items()]
    if (classic := results / CLASSIC).exists():
        sections.append(_methods_section(_read(classic), studies, folder))
    if len(studies) > 1:
        total = sum(result["wall_time"] for result in studies.values())
        agents = studies["figure5"]["wall_time"] if "figure5" in studies else 0.0
        without = f", {duration(total - agents)} without the agents of figure 5" if agents else ""
        sections.append(f"The paper's tables and figures took {duration(total)} together{without}.\n")
    return "\n".join([INTRODUCTION, *sections])


def read_studies(results: Path) -> dict[PaperName, dict[str, Any]]:
    """Studies that have been run, in the order of the paper."""
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
    note = f"{NOTES[name]} " if name in NOTES else ""
    return (
        f"## {heading(name)}\n\n{images}{study_table(result)}\n{_intervals(result)}{note}{provenance(result)} {link}\n"
    )


def _intervals(result: dict[str, Any]) -> str:
    """A table that is shown to those who ask for it."""
    cells = interval_cells(result)
    if cells is None:
        return ""
    # Without empty lines around it, the table would not be read as one.
    return f"<details><summary>95 % intervals</summary>\n\n{markdown_table(*cells)}\n</details>\n\n"


def _methods_section(classic: dict[str, Any], studies: dict[PaperName, dict[str, Any]], results: str) -> str:
    tables = "\n".join(f"{world}:\n\n{table}" for world, table in methods_tables(classic, studies).items())
    made = (
        f"Of older methods each seed has its own training demonstrations. {seeds_of(classic)} Hardware: "
        f"{_distinct(machine(part['hardware']) for part in classic['figures'].values())}. Commit: "
        f"{_commits(classic)}. "
        f"Wall time: {duration(classic['wall_time'])}. [{CLASSIC}]({results}/{CLASSIC})"
    )
    return f"## All methods\n\n{METHODS_INTRODUCTION}\n{tables}\n{made} Networks: as in the sections above.\n"


def heading(name: PaperName) -> str:
    """Such as "Table 1. Reacher ..."."""
    number = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    kind = name.removesuffix(number).capitalize()
    return f"{kind} {number}. {TITLES[name]}" if number else f"{kind} results. {TITLES[name]}"


def provenance(result: dict[str, Any]) -> str:
    """What it takes to make a study again, and how long that took."""
    parts = result["figures"].values()
    left = result["config"].get("not_run")
    return " ".join(
        [
            *([f"Not run yet: {'; '.join(left)}."] if left else []),
            f"Scale: {result['config']['scale']} ({_iterations(result)}).",
            seeds_of(result),
            f"Hardware: {_distinct(machine(part['hardware']) for part in parts)}.",
            f"Commit: {_commits(result)}.",
            f"Wall time: {duration(result['wall_time'])}{_at_once(result)}.",
        ]
    )


def seeds_of(result: dict[str, Any]) -> str:
    """The first and the last."""
    first, *others = result["seeds"]
    return f"Seeds: {first} to {others[-1]}." if others else f"Seed: {first}."


def _commits(result: dict[str, Any]) -> str:
    """Of the versions that scored, and where others trained, of those too."""
    parts = result["figures"].values()
    trained = _distinct(commit for part in parts for commit in part.get("trained_by", []))
    return _distinct(part["commit"] for part in parts) + (f", of training {trained}" if trained else "")


def _at_once(result: dict[str, Any]) -> str:
    """How many parts shared the machine, on average over the time of each; older files do not say."""
    clock = sum(part.get("clock_time", part["wall_time"]) for part in result["figures"].values())
    at_once = clock / max(result["wall_time"], 1e-9)
    return f" with {at_once:.1f} models at once" if at_once > 1.05 else ""


def _iterations(result: dict[str, Any]) -> str:
    """The longest training of each engine."""
    longest: dict[str, dict[str, Any]] = {}
    for part in result["config"]["parts"].values():
        config = part["config"]
        if part["surprisal"]:  # of neither engine
            continue
        last = longest.setdefault(config["inference"], config)
        longest[config["inference"]] = max(last, config, key=lambda one: int(one["num_iterations"]))
    return "; ".join(_training(config) for config in longest.values())


def _training(config: dict[str, Any]) -> str:
    falls = f" that falls to zero in the last {100 * config['cooldown']:.0f} %" if config["cooldown"] else ""
    digits = ", in bfloat16" if config["half_precision"] else ""
    rate = f"at a rate of {config['learning_rate']:g}{falls}"
    return f"{config['num_iterations']:,} iterations of {config['inference']} training {rate}{digits}"


def machine(hardware: dict[str, Any]) -> str:
    """Such as "one NVIDIA H200" or "2 cores of ..."."""
    if hardware["platform"] == "cpu":
        cores = "one core" if hardware["num_cores"] == 1 else f"{hardware['num_cores']} cores"
        return f"{cores} of {hardware['device']}"
    count = hardware["num_devices"]
    return f"{'one' if count == 1 else count} {hardware['device']}"


def duration(seconds: float) -> str:
    """Such as "42 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


@dataclasses.dataclass(frozen=True)
class Page:
    """Write a page of the paper's tables and figures, beside the results of ours."""

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
