"""`docs/results.md` and its pictures, from the result files of studies; no number in them is typed by hand.

    python -m experiments.paper.page docs/results.md --results results

Pictures go to `images/` beside the page, so that a page can be made of any folder of results, finished or not: studies
without a result file are left out.

Notes for `docs/results.md` on what its readers could misunderstand; they take their numbers from result files.

How long a study took, in words, from its result file.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from compile_il.config import Config
from compile_il.data.files import write_atomically
from compile_il.evaluation.results import RESULTS, interval, spread
from experiments.paper.figures import pictures_of, save_picture
from experiments.paper.names import TITLES, TRAINING, PaperName
from experiments.paper.tables import METHODS_INTRODUCTION, interval_cells, methods_tables, study_table
from experiments.tables.markdown import markdown_table

OLD_REACHER = (
    "When this was made, the reacher's observation had a constant 1 besides its 32 numbers; it has since been removed."
)


GOOD_BASELINE = (
    "LSTM surprisal does far better here than in the paper, and better than CompILE without labels: "
    "[experiments.md](experiments.md#the-reacher-next-to-the-paper) has what is known about it."
)


OLD_SCORES = (
    "Reconstruction is over the steps of all demonstrations together, where the paper, and now `compile-il evaluate`, "
    "take the mean over demonstrations of each one's share."
)


HISTORY: dict[str, dict[PaperName, str]] = {
    "a92cec8e9879": {"table1": f"{GOOD_BASELINE} {OLD_REACHER}"},
    "cf83baf397b1": {
        "table3": "Networks of the paper's width reach its figures for both low temperatures if gradients are clipped, "
        "and for 0.01 the learning rate is lower: one seed each, with batches of 32 "
        "([experiments.md](experiments.md#low-temperatures)). With the paper's batches of 256 this was not run. "
        f"{OLD_REACHER} Samples at low temperatures are drawn more exactly now.",
        "figure4": OLD_SCORES,
    },
    "53908908c2e5": {
        "figure5": "The time is more than it takes: some parts were begun at that rate first, and for a while two "
        "commands counted the same seconds."
    },
    "da60d07333c6": {
        "table2": "The boundaries that z-CompILE misses are a step off, in some seeds more than in others: a small "
        "copy has them a step early where the expert slows down before a touch, and not where it does not; at the "
        "paper's width this has not been shown ([experiments.md](experiments.md#labels-of-gaussian-codes)).",
        "figure7": "Wall time is more than it takes: another training, which is not counted, ran on the same "
        "accelerator.",
    },
}
"""Notes on results that one version of the program made, by its commit and the name of the study."""


FEW_RIGHT = 0.95
"""Share of demonstrations; a seed that finds the right number of segments in fewer is one that leaves some out."""


def note_on(name: PaperName, result: dict[str, Any]) -> str:
    """Returns the note on one study; empty where there is nothing to be said."""
    made_by = dict.fromkeys(part["commit"] for part in result["figures"].values())
    history = [HISTORY.get(commit, {}).get(name, "") for commit in made_by]
    return " ".join(words for words in (NOTES[name](result) if name in NOTES else "", *history) if words)


def _table3(result: dict[str, Any]) -> str:
    return (
        "M=3 and temperature 1 are trained as CompILE of table 1 is, with the same seeds; where numbers differ, it was "
        "by another version of the program. The exact engine's rows are without a factor for lengths, which was the "
        "default then (`duration_weight=0`)."
    )


def _figure4(result: dict[str, Any]) -> str:
    exact, relaxed = (longest_training(result).get(engine) for engine in ("exact", "relaxed"))
    if exact is None or relaxed is None:
        return ""
    ours, papers = relaxed["num_iterations"], TRAINING["paper"]["relaxed grid"]["num_iterations"]
    fewer = f", where the paper has {papers:,}; with all of them it comes to more ([relaxed.md](relaxed.md#training))"
    return (
        "The exact engine's models have larger policies and, without effects, more skills than CompILE's, which has "
        f"the paper's sizes; they were trained for {exact['num_iterations']:,} iterations and CompILE for {ours:,}"
        f"{fewer if ours < papers else ''}."
    )


def _figure5(result: dict[str, Any]) -> str:
    agents = [part for part in result["config"]["parts"].values() if part["agent"]["agent"] == "hierarchical"]
    skills = sorted({(part["config"]["num_skills"], part["world"]) for part in agents})
    numbers = " and ".join(f"{count} for {world}" for count, world in skills)
    steps = " or ".join(str(most) for most in sorted({part["agent"]["max_skill_steps"] for part in agents}))
    rates = " or ".join(f"{rate:g}" for rate in sorted({part["agent"]["learning_rate"] for part in agents}))
    of_skills = f"; there are {numbers}, of either engine, and they end after {steps} steps" if agents else ""
    of_rates = f" before {rates} was taken for all" if agents else ""
    return (
        "Agents draw options with their own probabilities, as while they learned; the file also has their success "
        "with the most probable one. Seeds are those of agents: all have the skills of one model, and "
        "with the exact engine so have all panels of a world. "
        "Skills of the exact engine were trained longer, with larger policies and, for pick-up, with "
        f"effects{of_skills}. "
        "Settings were chosen on other levels, but for one: some agents had been scored on these at a higher rate"
        f"{of_rates} ([decisions.md](decisions.md#hierarchical-reinforcement-learning))."
    )


def _figure7(result: dict[str, Any]) -> str:
    """Returns a note on the seeds of CompILE that leave out segments of five tasks on pick-up; empty without any."""
    seeds = result["figures"].get("grid-pickup, CompILE", {"scores": {}})["scores"].get("5", [])
    seeds = [seed for seed in seeds if seed["count_accuracy"] is not None]  # of those that diverged it is
    fewer = [seed for seed in seeds if seed["count_accuracy"] < FEW_RIGHT]
    others = [seed for seed in seeds if seed not in fewer]
    if not fewer:
        return ""
    wrong = _range([1 - seed["count_accuracy"] for seed in fewer])
    rest = f"; of the others, {_range([seed['online'] for seed in others])}" if others else ""
    return (
        f"{len(fewer)} of {len(seeds)} seeds of CompILE on pick-up leave out a segment in {wrong} of the "
        f"demonstrations of five tasks, and solve {_range([seed['online'] for seed in fewer])} of such levels "
        f"online{rest}."
    )


def _qualitative(result: dict[str, Any]) -> str:
    parts = result["config"]["parts"].values()
    early = " or ".join(
        f"{part['config']['num_iterations']:,} iterations of {part['config']['inference']} training"
        for part in parts
        if part["early"]
    )
    return f"One model of each kind, after all of its training{f', or after {early}' if early else ''}."


def longest_training(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the settings of the longest training of each engine; the baseline LSTM surprisal is left out."""
    longest: dict[str, dict[str, Any]] = {}
    for part in result["config"]["parts"].values():
        if not part["surprisal"]:
            config = part["config"]
            last = longest.setdefault(config["inference"], config)
            longest[config["inference"]] = max(last, config, key=lambda one: int(one["num_iterations"]))
    return longest


def _range(shares: list[float]) -> str:
    """Returns the range of some shares in per cent, such as "98 %" or "17 to 19 %"."""
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


NOTES: dict[PaperName, Callable[[dict[str, Any]], str]] = {
    "table3": _table3,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure7": _figure7,
    "qualitative": _qualitative,
}


def duration(seconds: float) -> str:
    """Returns a time in words, such as "42 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_taken(result: dict[str, Any]) -> str:
    """Returns sentences on wall time and training time, and where models ran at once, on why these differ."""
    wall, training = result["wall_time"], training_seconds(result)
    if _is_shared(result):
        at_once = f" with {_at_once(result):.1f} models at once" if _at_once(result) > 1.05 else ""
        took = f"; by the clock of each, training took {duration(training)} in sum" if training else ""
        shared = f"Models shared {_machine(result)}, and this is the sum of their shares of its time{took}."
        return f"Wall time: {duration(wall)}{at_once}. {shared}"
    return f"Wall time: {duration(wall)}{f', of training {duration(training)}' if training else ''}."


def training_seconds(result: dict[str, Any]) -> float:
    """Returns the training time of all models and agents in seconds; models that parts have in common count once."""
    figures, models = result["figures"], dict[str, float]()
    for name, trained in _trainings(result).items():
        models[trained] = max(models.get(trained, 0.0), figures[name].get("training_seconds", 0.0))
    return sum(models.values()) + sum(found.get("learning_seconds", 0.0) for found in figures.values())


def repeated_seconds(studies: Mapping[Any, dict[str, Any]]) -> float:
    """Returns wall time in seconds, scoring included, of parts that train what a part of an earlier study trains."""
    trained_before, seconds = set[str](), 0.0
    for result in studies.values():
        trainings = _trainings(result)
        again = [name for name, trained in trainings.items() if trained in trained_before]
        seconds += sum(result["figures"][name]["wall_time"] for name in again)
        trained_before |= set(trainings.values())
    return seconds


def _trainings(result: dict[str, Any]) -> dict[str, str]:
    """Returns world and settings of each part that has models as one text; what older files lack is as by default."""
    by_default = Config().to_json()
    done = {name: result["config"]["parts"][name] for name in result["figures"]}
    return {
        name: json.dumps([part["world"], {**by_default, **part["config"]}], sort_keys=True)
        for name, part in done.items()
        if "config" in part and part.get("agent", {}).get("agent") != "low-level"
    }


def _is_shared(result: dict[str, Any]) -> bool:
    """Whether several parts ran at once; in older files, which do not say, whether training exceeds the wall time."""
    if all("clock_time" in part for part in result["figures"].values()):
        return _at_once(result) > 1.05
    return training_seconds(result) > result["wall_time"]


def _at_once(result: dict[str, Any]) -> float:
    """Returns how many parts shared the machine, on average over the time of each; 1 where the file does not say it."""
    clock = sum(part.get("clock_time", part["wall_time"]) for part in result["figures"].values())
    return float(clock / max(result["wall_time"], 1e-9))


def _machine(result: dict[str, Any]) -> str:
    platforms = {part["hardware"]["platform"] for part in result["figures"].values()}
    return "one machine" if "cpu" in platforms else "one accelerator"


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
        with write_atomically(self.page) as temporary:
            temporary.write_text(results_page(self.results, self.page))


if __name__ == "__main__":
    tyro.cli(Page).write()
