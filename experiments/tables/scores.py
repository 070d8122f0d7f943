"""Makes tables of scores from the files under `results/`, beside what the paper prints."""

import itertools
from collections.abc import Iterable, Iterator
from statistics import mean
from typing import Any

from compile_il.cli.worlds import PAPER_UNSUPERVISED
from compile_il.evaluation.metrics import summarise
from compile_il.evaluation.results import read_result, spread
from experiments.paper.published import printed
from experiments.paper.tables import study_cells
from experiments.tables.markdown import markdown_table, table

Seeds = list[dict[str, Any]]
"""Scores of several seeds by name."""
WORLDS = ("grid-pickup", "grid-visit", "reacher")
ACTING = {
    "boundaries": "boundary_accuracy",
    "reconstruction": "reconstruction",
    "exact match": "exact_match",
    "online success": "online",
}
AGREEING = {"agreement": "agreement", "mutual information": "nmi", "boundaries": "boundary_accuracy"}
SUMMARY = {
    "LSTM surprisal": ("table1", "LSTM surprisal"),
    "CompILE": ("table1", "CompILE"),
    "z-CompILE": ("table1", "z-CompILE"),
    "b-CompILE": ("table1", "b-CompILE"),
    "CompILE, Gaussian codes": ("table2", "CompILE"),
    "z-CompILE, Gaussian codes": ("table2", "z-CompILE"),
    "b-CompILE, Gaussian codes": ("table2", "b-CompILE"),
    "CompILE, four segments": ("table3", "M=4"),
    "CompILE, five segments": ("table3", "M=5"),
    "CompILE, temperature 0.1": ("table3", "temperature=0.1"),
    "CompILE, temperature 0.01": ("table3", "temperature=0.01"),
    "exact": ("table1", "exact"),
    "exact, at most five segments": ("table3", "exact, at most 5"),
}
"""Rows that sum up tables 1 to 3 of the paper: for each name the table and its part."""


def figures_of(name: str) -> Any:
    """Returns the figures in one file of results."""
    return read_result(name)["figures"]


def spreads(seeds: Seeds, scores: Iterable[str]) -> list[str]:
    """Returns mean and standard deviation over seeds of each score, in per cent."""
    return [spread([seed[score] for seed in seeds]) for score in scores]


def per_cent(rates: Iterable[float]) -> str:
    """Returns the scores of single seeds in per cent, with commas between them."""
    return ", ".join(f"{100 * rate:.1f}" for rate in rates)


def boundaries(seeds: Seeds) -> list[float]:
    """Returns the boundary accuracy of each seed."""
    return [seed["boundary_accuracy"] for seed in seeds]


def as_given(way: str) -> str:
    """Returns the present name of a way of training, where the result file has an older one."""
    return way.replace("told", "given")


def by_tasks(names: Iterable[str], file: str) -> Iterator[tuple[str, str, str, Seeds]]:
    """Yields the scores in several files whose names differ in one place: the row's label, name, tasks, seeds."""
    for name in names:
        for tasks, seeds in figures_of(file.format(name))["scores"].items():
            yield f"{name}, {tasks} tasks", name, tasks, seeds


@table
def without_labels() -> str:
    """Makes a table of what both engines reach without labels, with three tasks and with five, beside the paper."""
    rows, best = [], figures_of("visit-oracle")["known_number"]
    for world, tasks in itertools.product(WORLDS, ("3", "5")):
        parts = figures_of("table1" if world == "reacher" else "figure4")
        prefix = "" if world == "reacher" else f"{world}, "
        both = [parts[f"{prefix}{model}"]["scores"][tasks] for model in ("CompILE", "exact")]
        relaxed, exact = (spreads(seeds, ("boundary_accuracy", "online")) for seeds in both)
        possible = per_cent(boundaries([best[tasks]])) if world == "grid-visit" else "-"
        papers = PAPER_UNSUPERVISED.get((world, int(tasks)), "-")
        rows.append([f"{world}, {tasks} tasks", papers, relaxed[0], exact[0], possible, relaxed[1], exact[1]])
    headings = [f"boundaries: {whose}" for whose in ("paper", "relaxed", "exact", "best possible")]
    return markdown_table(["per cent", *headings, "online: relaxed", "online: exact"], rows)


@table
def reacher_summary() -> str:
    """Makes a table of boundary accuracy in tables 1 to 3, after training on three tasks, beside the paper's."""
    rows = []
    for name, (study, model) in SUMMARY.items():
        scores, row = figures_of(study)[model]["scores"], [name]
        for tasks in (3, 5):
            row += [printed(study, model, tasks, "boundary_accuracy"), spread(boundaries(scores.get(str(tasks), [])))]
        rows.append(row)
    headings = ["boundaries, per cent", "paper, 3 tasks", "here, 3 tasks", "paper, 5 tasks", "here, 5 tasks"]
    return markdown_table(headings, rows)


@table
def exact_without_labels() -> str:
    """Makes a table of scores of the exact engine on unseen levels, after training on three tasks without labels."""
    shown = {"boundaries": "boundary_accuracy", "F1": "f1", "exact match": "exact_match", "online success": "online"}
    rows = [
        [label, PAPER_UNSUPERVISED.get((world, int(tasks)), "-"), *spreads(seeds, shown.values())]
        for label, world, tasks, seeds in by_tasks(WORLDS, "exact-{}")
    ]
    return markdown_table(["per cent", "paper: boundaries", *shown], rows)


@table
def exact_unknown_count() -> str:
    """Makes a table of the exact engine where neither training nor scoring was given the number of segments."""
    rows = [
        [label, *spreads(given, ["f1"]), *spreads(seeds, ["f1", "count_accuracy"])]
        for label, world, tasks, seeds in by_tasks(WORLDS, "exact-{}-unknown")
        for given in [figures_of(f"exact-{world}")["scores"][tasks]]
    ]
    return markdown_table(["per cent", "F1, number given", "F1, not given", "number right"], rows)


@table
def learned_lengths() -> str:
    """Makes a table of what the learned mean length of segments changes in the worlds, with their number unknown."""
    rows = []
    for label, world, tasks, learned in by_tasks(WORLDS, "lengths-learned-{}-cpu"):
        ignored = figures_of(f"lengths-ignored-{world}-cpu")["scores"][tasks]
        both = [spreads(seeds, ("f1", "count_accuracy")) for seeds in (ignored, learned)]
        rows.append([label, *itertools.chain(*zip(*both, strict=True))])
    headings = [f"{score}: {how}" for score in ("F1", "number right") for how in ("lengths ignored", "mean learned")]
    return markdown_table(["per cent", *headings], rows)


@table
def visit_oracle() -> str:
    """Makes a table of what a Bayes-optimal observer reaches on grid-visit, with and without the number of tasks."""
    figures = figures_of("visit-oracle")
    rows = []
    for tasks, known in figures["known_number"].items():
        unknown = figures["unknown_number"][tasks]
        values = (known["boundary_accuracy"], known["f1"], unknown["f1"], unknown["count_accuracy"])
        rows.append([f"grid-visit, {tasks} tasks", *(per_cent([value]) for value in values)])
    return markdown_table(["per cent", "boundaries", "F1", "F1, number not given", "number right"], rows)


@table
def durations() -> str:
    """Makes a table of what the factor for lengths costs and is good for, by its weight."""
    rows = []
    shown = {
        "true boundaries found": "true_boundaries_found",
        "with a one-step segment": "with_one_step_segment",
        "in truth": "with_one_step_segment_in_truth",
    }
    for name in (*WORLDS, "fixed-order", "fixed-order-short"):
        for weight, seeds in figures_of(f"durations-{name}")[name].items():
            about = weight if weight != "learned" else f"learned, {mean(seed['weight'] for seed in seeds):.2f}"
            rows.append([name, about, *spreads(seeds, shown.values())])
    return markdown_table(["per cent", "weight", *shown], rows)


@table
def meaning() -> str:
    """Makes a table of how well skills agree with the things that tasks are about, in several ways of training."""
    rows = []
    for world in ("grid-pickup", "reacher", "grid-visit"):
        # What effects say before anything is learned was tried later, on grid-visit too.
        tried = {} if world == "grid-visit" else figures_of(f"meaning-{world}")
        for way, models in (tried | figures_of(f"meaning-untrained-{world}")).items():
            kept = per_cent([models["kept"]["agreement"]])
            rows.append([f"{world}, {way}", *spreads(models["seeds"], AGREEING.values()), kept])
    return markdown_table(["per cent", *AGREEING, "agreement of the seed to keep"], rows)


@table
def stations() -> str:
    """Makes a table of how well skills agree with the places of tasks, and of the likelihood of unseen data."""
    rows = []
    for way, models in figures_of("stations-cpu").items():
        likelihood = summarise([seed["test_log_likelihood"] for seed in models["seeds"]])
        scores = spreads(models["seeds"], AGREEING.values())
        rows.append([as_given(way), *scores, f"{likelihood.mean:.1f} ± {likelihood.std:.1f}"])
    return markdown_table(["per cent", *AGREEING, "log-likelihood, unseen"], rows)


@table
def window() -> str:
    """Makes a table of policies with and without a memory, where the world is seen through a window."""
    kinds = {"": "policies that see the present", "-recurrent": "policies that remember"}
    both = [(engine, *kind) for engine in ("exact", "relaxed") for kind in kinds.items()]
    rows = [
        [f"{engine}, {policies}, {tasks} tasks", *spreads(seeds, ACTING.values())]
        for engine, kind, policies in (*both, ("relaxed", "-forgetful", "policies that forget where a skill begins"))
        for tasks, seeds in figures_of(f"window-{engine}{kind}-cpu")["scores"].items()
    ]
    return markdown_table(["per cent", *ACTING], rows)


@table
def relaxed_pickup() -> str:
    """Makes a table of scores of the paper's model with the paper's settings on grid-pickup."""
    scores = figures_of("relaxed-grid-pickup-h200")["scores"]
    rows = [[f"{tasks} tasks", *spreads(seeds, ACTING.values())] for tasks, seeds in scores.items()]
    return markdown_table(["grid-pickup, per cent", *ACTING], rows)


@table
def way_points() -> str:
    """Makes a table of what settings do for recordings of a point robot, with the number of segments unknown."""
    shown = {"number right": "count_accuracy", "F1": "f1", "skills agree": "agreement"}
    rows, result = [], read_result("way-points-cpu")
    for recording, ways in result["figures"].items():
        for way, seeds in ways.items():
            count = result["config"]["ways"][way].get("duration_weight") != 0.0
            lengths = ", ".join(f"{seed['expected_length']:.1f}" for seed in seeds) if count else "-"
            rows.append(
                [recording, as_given(way), *spreads(seeds, shown.values()), lengths, f"{seeds[0]['true_length']:.1f}"]
            )
    return markdown_table(["recording", "settings", *shown, "expected steps", "true"], rows)


@table
def low_temperatures() -> str:
    """Makes a table of how far small networks come with low temperatures, by iterations, beside the paper."""
    temperatures = ("0.1", "0.01")
    figures = [figures_of(f"temperature-{tau}-long-cpu") for tau in temperatures]
    rows = [
        [f"{checks[0]['iteration']:,}", *(per_cent(_checked(check)) for check in checks)]
        for checks in zip(*(one["curve"] for one in figures), strict=True)
        if checks[0]["iteration"] > 500
    ]
    last = rows[-1][0]
    for words, decoder in (("", "scores"), (", exact decoder", "scores, exact decoder")):
        rows.append([f"{last}, test levels{words}", *(per_cent(boundaries(one[decoder]["3"])) for one in figures)])
    papers = [printed("table3", f"temperature={tau}", 3, "boundary_accuracy") for tau in temperatures]
    rows.append(["paper, 500,000", *papers])
    return markdown_table(["iterations", *(f"temperature {tau}" for tau in temperatures)], rows)


def _checked(check: dict[str, Any]) -> list[float]:
    """Returns each seed's boundary accuracy on validation levels at one check of a training."""
    rates: list[float] = check["validation"]["3"]["boundary_accuracy"]
    return rates


@table
def cut_gradients() -> str:
    """Makes a table of what short trainings of small networks reach, by temperature, with and without clipping."""
    rows = []
    for temperature, length in (("1", ""), ("0.1", ""), ("0.01", ""), ("0.01", "-long")):
        sides = [figures_of(f"temperature-{temperature}-{side}{length}-cpu") for side in ("free", "cut")]
        late = [boundaries(side[decoder]["3"]) for decoder in ("scores", "scores, exact decoder") for side in sides]
        about = [temperature, f"{sides[0]['iterations']:,}", f"{len(late[0])} seeds"]
        rows.append([*about, *map(spread, [*map(at_a_quarter, sides), *late])])
    whens = ("a quarter", "the end", "exact decoder")
    sides_of = [f"{when}: {how}" for when in whens for how in ("free", "cut")]
    return markdown_table(["temperature", "iterations", "", *sides_of], rows)


def at_a_quarter(figures: dict[str, Any]) -> list[float]:
    """Returns each seed's boundary accuracy on validation levels at the first check after a quarter of a training."""
    return _checked(next(check for check in figures["curve"] if check["iteration"] >= figures["iterations"] / 4))


@table
def variants() -> str:
    """Makes a table of variants of the paper's model on the toy, by both decoders."""
    rows = []
    for name, seeds in figures_of("variants-cpu").items():
        by_decoder = {decoder: [seed[decoder] for seed in seeds if decoder in seed] for decoder in seeds[0]}
        recognition = spreads(by_decoder["recognition"], ("boundary_accuracy", "reconstruction"))
        rows.append([name, *recognition, spread(boundaries(by_decoder.get("exact", [])))])
    return markdown_table(["symbols, per cent", "boundaries", "reconstruction", "boundaries, exact decoder"], rows)


@table
def agents() -> str:
    """Makes a table of figure 5 in numbers, without the time that each panel took."""
    cells = study_cells(read_result("figure5"))
    return markdown_table(cells.headings[:-1], [row[:-1] for row in cells.rows])


@table
def agent_rates() -> str:
    """Makes a table of parts of figure 5 that were also run with a rate that falls from 0.001, not from 0.0003."""
    slow, fast = figures_of("figure5"), figures_of("figure5-rate-0.001")
    rows = [
        [name.replace(": ", ", "), *(per_cent(seed["success"] for seed in one[name]["played"]) for one in (fast, slow))]
        for name in fast
    ]
    return markdown_table(["per cent of levels solved, by seed", "from 0.001", "from 0.0003"], rows)
