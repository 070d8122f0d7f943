"""Writes `docs/results.md` and its pictures from the result files of studies; no number is typed by hand.

    python -m experiments.paper.page docs/results.md --results results

Pictures go to `images/` beside the page, so that a page can be made of any folder of results, finished or not: studies
without a result file are left out. What the page says besides numbers is in `page.md`, in sections: notes on a study
have its name, and where they are on what one version of the program measured, its commit too.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from compile_il.data.files import write_atomically
from compile_il.evaluation.results import RESULTS, interval, spread
from experiments.paper.figures import pictures_of, save_picture
from experiments.paper.studies import PaperName
from experiments.paper.tables import interval_cells, methods_tables, study_cells
from experiments.tables.markdown import markdown_table

_MARKS_AND_TEXTS = re.split(r"<!-- (.+) -->\n", Path(__file__).with_name("page.md").read_text())[1:]
TEXTS = {mark: text.strip() + "\n" for mark, text in zip(_MARKS_AND_TEXTS[::2], _MARKS_AND_TEXTS[1::2], strict=True)}
"""Texts of the page by section: the introduction, the one to the table of all methods, and notes on studies."""
HEADINGS: dict[PaperName, str] = {
    "table1": "Table 1. Reacher: where one target has been reached",
    "table2": "Table 2. Reacher, Gaussian codes",
    "table3": "Table 3. Reacher: number of segments and temperature",
    "figure4": "Figure 4. Grid worlds",
    "figure5": "Figure 5. Agents that learn with skills",
    "figure7": "Figure 7. Grid worlds, Gaussian codes",
    "qualitative": "Qualitative results. Skills at work",
}


def write_page(page: Annotated[Path, tyro.conf.Positional], results: Path = RESULTS) -> None:
    """Writes a page of the paper's tables and figures, with our results beside the paper's.

    Args:
      page: the Markdown file to write; pictures go to images/ beside it.
      results: folder of the result files.
    """
    studies = read_studies(results)
    if not studies:
        raise FileNotFoundError(f"There are no results in {results}: run python -m experiments.paper first.")
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, result in studies.items():
        for picture in pictures_of(result):
            save_picture(picture, images, results / f"{name}.json")
    with write_atomically(page) as temporary:
        temporary.write_text(results_page(results, page))


def results_page(results: Path, page: Path) -> str:
    """Returns the text of the page, a section for each study that has been run; links are relative to the page."""
    studies, folder = read_studies(results), os.path.relpath(results, page.parent)
    sections = [_section(name, result, folder) for name, result in studies.items()]
    classic = _read(results / "classic.json") if (results / "classic.json").exists() else None
    if classic is not None:
        sections.append(_methods_section(classic, studies, folder))
    if len(studies) > 1:
        sections.append(_times(studies, classic))
    return "\n".join([TEXTS["introduction"], *sections])


def read_studies(results: Path) -> dict[PaperName, dict[str, Any]]:
    """Returns the contents of the result files that there are, by name, in the order of the paper."""
    paths = {name: results / f"{name}.json" for name in get_args(PaperName)}
    return {name: _read(path) for name, path in paths.items() if path.exists()}


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is no whole JSON file ({error}): make it again with experiments.paper.") from error
    return result


def _section(name: PaperName, result: dict[str, Any], results: str) -> str:
    images = "".join(
        f"![{picture.caption}](images/{picture.name}.png)\n\n*{picture.caption}.*\n\n"
        for picture in pictures_of(result)
    )
    cells = interval_cells(result)
    intervals = "" if cells is None else _folded("95 % intervals", markdown_table(*cells))
    note = f"{words}\n\n" if (words := note_on(name, result)) else ""
    made = _folded("How this was made", f"{provenance(result)} [{name}.json]({results}/{name}.json)\n")
    return f"## {HEADINGS[name]}\n\n{images}{markdown_table(*study_cells(result))}\n{intervals}{note}{made}"


def _methods_section(classic: dict[str, Any], studies: dict[PaperName, dict[str, Any]], results: str) -> str:
    means, intervals = (methods_tables(classic, studies, show) for show in (spread, interval))
    tables = [f"{world}:\n\n{means[world]}\n{_folded('95 % intervals', intervals[world])}" for world in means]
    made = (
        f"Of older methods each seed has its own training demonstrations. {_seeds_and_machines(classic)} "
        f"[classic.json]({results}/classic.json) `python -m experiments.paper all` leaves older methods out: "
        "`python -m experiments.paper classic` runs them. Networks: as in the sections above.\n"
    )
    return "\n".join([f"## All methods\n\n{TEXTS['all methods']}", *tables, _folded("How this was made", made)])


def _folded(title: str, text: str) -> str:
    """Returns a text that is hidden until a reader clicks its title."""
    # Without empty lines around it, a table would not be read as one.
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n\n"


def note_on(name: PaperName, result: dict[str, Any]) -> str:
    """Returns the notes on a study and on the versions that made it, as one paragraph; empty if there are none."""
    commits = dict.fromkeys(part["commit"] for part in result["figures"].values())
    return " ".join(" ".join(TEXTS.get(key, "") for key in (name, *(f"{name}, {one}" for one in commits))).split())


def provenance(result: dict[str, Any]) -> str:
    """Returns sentences on how a study was made: scale, seeds, hardware, commit and time."""
    longest: dict[str, dict[str, Any]] = {}  # settings of each engine, without the baseline LSTM surprisal
    for part in result["config"]["parts"].values():
        if not part["surprisal"]:
            config = part["config"]
            last = longest.setdefault(config["inference"], config)
            longest[config["inference"]] = max(last, config, key=lambda one: int(one["num_iterations"]))
    trainings = "; ".join(map(_training, longest.values()))
    left = f"Not run yet: {'; '.join(names)}. " if (names := result["config"].get("not_run")) else ""
    return f"{left}Scale: {result['config']['scale']} ({trainings}). {_seeds_and_machines(result)}"


def _training(config: dict[str, Any]) -> str:
    falls = f" that falls to zero in the last {100 * config['cooldown']:.0f} %" if config["cooldown"] else ""
    digits = ", in bfloat16" if config["half_precision"] else ""
    rate = f"at a rate of {config['learning_rate']:g}{falls}"
    return f"{config['num_iterations']:,} iterations of {config['inference']} training {rate}{digits}"


def _seeds_and_machines(result: dict[str, Any]) -> str:
    """Returns sentences on seeds, hardware, commits and time."""
    first, *others = result["seeds"]
    parts = result["figures"].values()
    return (
        f"{f'Seeds: {first} to {others[-1]}' if others else f'Seed: {first}'}. "
        f"Hardware: {_distinct(machine(part['hardware']) for part in parts)}. "
        f"Commit: {_distinct(part['commit'] for part in parts)}. {time_taken(result)}"
    )


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def machine(hardware: dict[str, Any]) -> str:
    """Returns the hardware in words, such as "one NVIDIA H200" or "2 cores of ..."."""
    if hardware["platform"] == "cpu":
        cores = "one core" if hardware["num_cores"] == 1 else f"{hardware['num_cores']} cores"
        return f"{cores} of {hardware['device']}"
    count = hardware["num_devices"]
    return f"{'one' if count == 1 else count} {hardware['device']}"


def duration(seconds: float) -> str:
    """Returns a time in words, such as "42 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_taken(result: dict[str, Any]) -> str:
    """Returns a sentence on wall time and training time, which is longer where models ran at once."""
    wall, training = result["wall_time"], training_seconds(result)
    if training <= wall:
        return f"Wall time: {duration(wall)}{f', of training {duration(training)}' if training else ''}."
    return (
        f"Wall time: {duration(wall)}, the sum of the shares of models that ran at once on one machine; by the clock "
        f"of each, training took {duration(training)} in sum."
    )


def training_seconds(result: dict[str, Any]) -> float:
    """Returns the training time of all models and agents in seconds; models that parts share count once."""
    figures, models = result["figures"], dict[str, float]()
    for name, done in figures.items():
        part = result["config"]["parts"][name]
        key = json.dumps([part["world"], part.get("config")], sort_keys=True)
        models[key] = max(models.get(key, 0.0), done.get("training_seconds", 0.0))
    return sum(models.values()) + sum(done.get("learning_seconds", 0.0) for done in figures.values())


def _times(studies: dict[PaperName, dict[str, Any]], classic: dict[str, Any] | None) -> str:
    """Returns sentences on the time of all studies together."""
    total = sum(result["wall_time"] for result in studies.values())
    agents = studies["figure5"]["wall_time"] if "figure5" in studies else 0.0
    without = f", {duration(total - agents)} without the agents of figure 5" if agents else ""
    older = f" Older methods, which `all` leaves out, took another {duration(classic['wall_time'])}." if classic else ""
    return f"The paper's tables and figures took {duration(total)} together{without}.{older}\n"


if __name__ == "__main__":
    tyro.cli(write_page)
