"""Writes `docs/results.md` and its pictures from the result files of studies; no number is typed by hand.

    python -m experiments.paper.page docs/results.md --results results

Pictures go to `images/` beside the page, so that a page can be made of any folder of results, finished or not: studies
without a result file are left out. What the page says besides numbers is in `page.md`, in sections: notes on a study
have its name, and where they are on what one version of the program measured, its commit too.
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from compile_il.config import Config
from compile_il.data.files import write_atomically
from compile_il.evaluation.results import RESULTS, interval, spread
from experiments.paper.figures import pictures_of, save_picture
from experiments.paper.studies import TITLES, PaperName
from experiments.paper.tables import interval_cells, methods_tables, study_cells
from experiments.tables.markdown import markdown_table

_MARKS_AND_TEXTS = re.split(r"<!-- (.+) -->\n", Path(__file__).with_name("page.md").read_text())[1:]
TEXTS = {mark: text.strip() + "\n" for mark, text in zip(_MARKS_AND_TEXTS[::2], _MARKS_AND_TEXTS[1::2], strict=True)}
"""Texts of the page by section: the introduction, the one to the table of all methods, and notes on studies."""
CLASSIC = "classic.json"
"""Name of the result file of classic methods."""
AT_ONCE = 1.05
"""Average number of parts that ran at the same time from which on it is worth saying."""


@dataclasses.dataclass(frozen=True)
class Page:
    """Write a page of the paper's tables and figures, with our results beside the paper's."""

    page: Annotated[Path, tyro.conf.arg(metavar="PAGE"), tyro.conf.Positional]
    """The Markdown file to write; pictures go to images/ beside it."""
    results: Path = RESULTS
    """Folder of the result files."""

    def write(self) -> None:
        """Draws the pictures, then writes the text."""
        studies = read_studies(self.results)
        if not studies:
            raise FileNotFoundError(f"There are no results in {self.results}: run python -m experiments.paper first.")
        images = self.page.parent / "images"
        images.mkdir(parents=True, exist_ok=True)
        for name, result in studies.items():
            for picture in pictures_of(result):
                save_picture(picture, images, self.results / f"{name}.json")
        with write_atomically(self.page) as temporary:
            temporary.write_text(results_page(self.results, self.page))


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
    intervals = "" if cells is None else _on_demand("95 % intervals", markdown_table(*cells))
    note = f"{words}\n\n" if (words := note_on(name, result)) else ""
    made = _on_demand("How this was made", f"{provenance(result)} [{name}.json]({results}/{name}.json)\n")
    return f"## {heading(name)}\n\n{images}{markdown_table(*study_cells(result))}\n{intervals}{note}{made}"


def _methods_section(classic: dict[str, Any], studies: dict[PaperName, dict[str, Any]], results: str) -> str:
    means, intervals = (methods_tables(classic, studies, show) for show in (spread, interval))
    tables = [f"{world}:\n\n{means[world]}\n{_on_demand('95 % intervals', intervals[world])}" for world in means]
    made = (
        f"Of older methods each seed has its own training demonstrations. {_seeds_and_machines(classic)} "
        f"[{CLASSIC}]({results}/{CLASSIC}) `python -m experiments.paper all` leaves older methods out: "
        "`python -m experiments.paper classic` runs them. Networks: as in the sections above.\n"
    )
    return "\n".join([f"## All methods\n\n{TEXTS['all methods']}", *tables, _on_demand("How this was made", made)])


def _on_demand(title: str, text: str) -> str:
    """Returns a text folded away under a title that a reader can click."""
    # Without empty lines around it, a table would not be read as one.
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n\n"


def heading(name: PaperName) -> str:
    """Returns the heading of a section, such as "Table 1. Reacher ..."."""
    number = name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return f"{name.removesuffix(number).capitalize()} {number or 'results'}. {TITLES[name]}"


def note_on(name: PaperName, result: dict[str, Any]) -> str:
    """Returns the notes on a study and on the versions that made it, as one paragraph; empty if there are none."""
    commits = dict.fromkeys(part["commit"] for part in result["figures"].values())
    return " ".join(" ".join(TEXTS.get(key, "") for key in (name, *(f"{name}, {one}" for one in commits))).split())


def provenance(result: dict[str, Any]) -> str:
    """Returns sentences on how a study was made: scale, seeds, hardware, commit and time."""
    left = result["config"].get("not_run")
    trainings = "; ".join(map(_training, longest_training(result).values()))
    scale = f"Scale: {result['config']['scale']} ({trainings}). {_seeds_and_machines(result)}"
    return f"Not run yet: {'; '.join(left)}. {scale}" if left else scale


def _seeds_and_machines(result: dict[str, Any]) -> str:
    """Returns sentences on seeds, hardware, the commits that scored and, where these are others, trained, and time."""
    first, *others = result["seeds"]
    parts = result["figures"].values()
    trained = _distinct(commit for part in parts for commit in part.get("trained_by", []))
    return (
        f"{f'Seeds: {first} to {others[-1]}' if others else f'Seed: {first}'}. "
        f"Hardware: {_distinct(machine(part['hardware']) for part in parts)}. "
        f"Commit: {_distinct(part['commit'] for part in parts)}{f', of training {trained}' if trained else ''}. "
        f"{time_taken(result)}"
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


def longest_training(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the settings of the longest training of each engine; the baseline LSTM surprisal is left out."""
    longest: dict[str, dict[str, Any]] = {}
    for part in result["config"]["parts"].values():
        if not part["surprisal"]:
            config = part["config"]
            last = longest.setdefault(config["inference"], config)
            longest[config["inference"]] = max(last, config, key=lambda one: int(one["num_iterations"]))
    return longest


def _training(config: dict[str, Any]) -> str:
    falls = f" that falls to zero in the last {100 * config['cooldown']:.0f} %" if config["cooldown"] else ""
    digits = ", in bfloat16" if config["half_precision"] else ""
    rate = f"at a rate of {config['learning_rate']:g}{falls}"
    return f"{config['num_iterations']:,} iterations of {config['inference']} training {rate}{digits}"


def duration(seconds: float) -> str:
    """Returns a time in words, such as "42 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_taken(result: dict[str, Any]) -> str:
    """Returns sentences on wall time and training time, and where models ran at once, on why these differ."""
    parts, wall, training = result["figures"].values(), result["wall_time"], training_seconds(result)
    at_once = sum(part.get("clock_time", part["wall_time"]) for part in parts) / max(wall, 1e-9)
    # Older files do not say it; that training exceeds the wall time does.
    shared = at_once > AT_ONCE if all("clock_time" in part for part in parts) else training > wall
    if not shared:
        return f"Wall time: {duration(wall)}{f', of training {duration(training)}' if training else ''}."
    together = f" with {at_once:.1f} models at once" if at_once > AT_ONCE else ""
    place = "machine" if any(part["hardware"]["platform"] == "cpu" for part in parts) else "accelerator"
    took = f"; by the clock of each, training took {duration(training)} in sum" if training else ""
    shares = f"Models shared one {place}, and this is the sum of their shares of its time{took}."
    return f"Wall time: {duration(wall)}{together}. {shares}"


def training_seconds(result: dict[str, Any]) -> float:
    """Returns the training time of all models and agents in seconds; models that parts have in common count once."""
    figures, models = result["figures"], dict[str, float]()
    for name, trained in _trainings(result).items():
        models[trained] = max(models.get(trained, 0.0), figures[name].get("training_seconds", 0.0))
    return sum(models.values()) + sum(part.get("learning_seconds", 0.0) for part in figures.values())


def _trainings(result: dict[str, Any]) -> dict[str, str]:
    """Returns world and settings of each part that has models as one text; what older files lack is as by default."""
    by_default = Config().to_json()
    parts = {name: result["config"]["parts"][name] for name in result["figures"]}
    return {
        name: json.dumps([part["world"], by_default | part["config"]], sort_keys=True)
        for name, part in parts.items()
        if "config" in part and part.get("agent", {}).get("agent") != "low-level"
    }


def _times(studies: dict[PaperName, dict[str, Any]], classic: dict[str, Any] | None) -> str:
    """Returns sentences on the time of all studies together, and on the part of it that would not be spent again."""
    total = sum(result["wall_time"] for result in studies.values())
    agents = studies["figure5"]["wall_time"] if "figure5" in studies else 0.0
    without = f", {duration(total - agents)} without the agents of figure 5" if agents else ""
    sentences = [f"The paper's tables and figures took {duration(total)} together{without}."]
    again, trained = 0.0, set[str]()
    for result in studies.values():
        trainings = _trainings(result)
        again += sum(result["figures"][name]["wall_time"] for name, what in trainings.items() if what in trained)
        trained |= set(trainings.values())
    if again:
        of_what, left = " for all but agents" if agents else "", duration(total - agents - again)
        sentences.append(
            f"{duration(again)} of it went to parts whose models an earlier study had trained: "
            "`python -m experiments.paper all` now trains such models once, and only scores them in each study. "
            f"The aim was an hour{of_what}; at least {left} are left, and what that scoring takes."
        )
    if classic is not None:
        sentences.append(f"Older methods, which `all` leaves out, took another {duration(classic['wall_time'])}.")
    return " ".join(sentences) + "\n"


if __name__ == "__main__":
    tyro.cli(Page).write()
