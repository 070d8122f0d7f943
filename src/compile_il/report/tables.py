"""Tables of documents, made from the files under `results/`; no number in them is typed by hand.

A document holds a pair of marks, `<!-- table: NAME -->` and `<!-- end of table -->`; what stands between is made here.

    python -m compile_il.report.tables README.md docs/results.md
"""

import functools
import itertools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from compile_il.files import replace_file
from compile_il.report.markdown import markdown_table
from compile_il.report.scores import spread
from compile_il.reproduce.draw import study_cells
from compile_il.reproduce.names import StudyName
from compile_il.reproduce.paper import PAPER
from compile_il.results import RESULTS

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def read_result(name: str) -> dict[str, Any]:
    """One file of results, as `write_result` wrote it."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def speed_of_worlds() -> str:
    """Demonstrations and steps a second, on each machine that was measured."""
    cpu, gpu = read_result("speed-worlds-cpu"), read_result("speed-worlds-h200")
    rows = []
    for world, figures in cpu["figures"].items():
        for what, key in (
            ("demonstrations, in host memory", "demonstrations_to_host"),
            ("demonstrations, on the device", "demonstrations_on_device"),
            ("steps with observations", "steps_with_observations"),
            ("steps", "steps"),
        ):
            twin, ours, on_gpu = figures["twin"][key], figures["ours"][key], gpu["figures"][world]["ours"][key]
            rows.append([f"{world}: {what}", f"{twin:,.0f}", f"{ours:,.0f}", f"{ours / twin:,.0f}x", f"{on_gpu:,.0f}"])
    cores, device = cpu["hardware"]["num_cores"], gpu["hardware"]["device"]
    return markdown_table(["a second", "plain Python", f"{cores} CPU cores", "ratio", f"one {device}"], rows)


def printed(table: StudyName, model: str, tasks: int, score: str) -> str:
    """What a table of the paper, all of them on the reacher, says of a model; of grid worlds it shows drawings only."""
    row = PAPER[table].get(model, {}).get(tasks)
    return "-" if row is None else "{:.1f} ± {:.1f}".format(*getattr(row, score))


PAPER_UNSUPERVISED = {("reacher", tasks): printed("table1", "CompILE", tasks, "boundary_accuracy") for tasks in (3, 5)}
"""Boundary accuracy without labels in the paper, by world and number of tasks."""


def exact_without_labels() -> str:
    """Scores of the exact engine on unseen levels, after training on three tasks without labels."""
    rows = []
    for world in ("grid-pickup", "grid-visit", "reacher"):
        for tasks, scores in read_result(f"exact-{world}")["figures"]["scores"].items():
            columns = ("boundary_accuracy", "f1", "exact_match", "online")
            ours = [spread([score[column] for score in scores]) for column in columns]
            rows.append([f"{world}, {tasks} tasks", PAPER_UNSUPERVISED.get((world, int(tasks)), "-"), *ours])
    headings = ["per cent", "paper: boundaries", "boundaries", "F1", "exact match", "online success"]
    return markdown_table(headings, rows)


def reacher(table: StudyName) -> str:
    """A table of the paper, boundaries only: what is told and what is found, by both engines."""
    rows = []
    for model, part in read_result(table)["figures"].items():
        for tasks, scores in part["scores"].items():
            row = [f"{model}, {tasks} tasks"]
            for column in ("boundary_accuracy", "f1_tolerance_1"):
                row += [printed(table, model, int(tasks), column), spread([score[column] for score in scores])]
            rows.append(row)
    headings = ["per cent", "paper: boundaries", "boundaries", "paper: F1, 1 step off", "F1, 1 step off"]
    return markdown_table(headings, rows)


def exact_unknown_count() -> str:
    """The same where neither training nor scoring was told how many segments there are."""
    rows = []
    for world in ("grid-pickup", "grid-visit", "reacher"):
        told = read_result(f"exact-{world}")["figures"]["scores"]
        for tasks, scores in read_result(f"exact-{world}-unknown")["figures"]["scores"].items():
            with_count = spread([score["f1"] for score in told[tasks]])
            ours = [spread([score[column] for score in scores]) for column in ("f1", "count_accuracy")]
            rows.append([f"{world}, {tasks} tasks", with_count, *ours])
    return markdown_table(["per cent", "F1, number told", "F1, not told", "number right"], rows)


def visit_oracle() -> str:
    """What a Bayes-optimal observer who knows world, expert and number of tasks reaches on grid-visit."""
    figures = read_result("visit-oracle")["figures"]
    rows = []
    for tasks, told in figures["known_number"].items():
        not_told = figures["unknown_number"][tasks]
        values = (told["boundary_accuracy"], told["f1"], not_told["f1"], not_told["count_accuracy"])
        rows.append([f"grid-visit, {tasks} tasks", *(f"{100 * value:.1f}" for value in values)])
    headings = ["per cent", "boundaries", "F1", "F1, number not told", "number right"]
    return markdown_table(headings, rows)


def first_minute() -> str:
    """How fast training without labels gets anywhere on the processor, one row a seed."""
    result = read_result("first-minute-cpu")
    rows = [
        [
            f"seed {seed}",
            f"{run['seconds_to_goal']:.0f}",
            f"{run['iterations']:,}",
            *(f"{100 * run['scores'][name]:.1f}" for name in ("boundary_accuracy", "exact_match", "online")),
        ]
        for seed, run in zip(result["seeds"], result["figures"], strict=True)
    ]
    cores = result["hardware"]["num_cores"]
    headings = [f"grid-pickup, {cores} cores", "seconds to 99 % of boundaries", "iterations in a minute"]
    return markdown_table([*headings, "then: boundaries", "exact match", "online success"], rows)


def durations() -> str:
    """What the factor for lengths costs and is good for, by its weight."""
    rows = []
    for name in ("grid-pickup", "grid-visit", "reacher", "fixed-order", "fixed-order-short"):
        by_weight = read_result(f"durations-{name}")["figures"][name]
        for weight, seeds in by_weight.items():
            about = weight if weight != "learned" else f"learned, {mean(seed['weight'] for seed in seeds):.2f}"
            columns = ("true_boundaries_found", "with_one_step_segment", "with_one_step_segment_in_truth")
            rows.append([name, about, *(spread([seed[column] for seed in seeds]) for column in columns)])
    headings = ["per cent", "weight", "true boundaries found", "with a one-step segment", "in truth"]
    return markdown_table(headings, rows)


def meaning() -> str:
    """How well skills agree with the things that tasks are about, in several ways of training."""
    rows = []
    columns = ("agreement", "nmi", "boundary_accuracy")
    for world in ("grid-pickup", "reacher"):
        for way, found in read_result(f"meaning-{world}")["figures"].items():
            ours = [spread([seed[column] for seed in found["seeds"]]) for column in columns]
            rows.append([f"{world}, {way}", *ours, f"{100 * found['kept']['agreement']:.1f}"])
    headings = ["per cent", "agreement", "mutual information", "boundaries", "agreement of the seed to keep"]
    return markdown_table(headings, rows)


def speed_of_training(inference: str) -> str:
    """Milliseconds of a training step and of its parts, at the paper's sizes."""
    result = read_result(f"speed-{inference}-h200")
    columns = list(result["figures"].values())
    rows = [[part, *(f"{column[part]:.2f}" for column in columns)] for part in columns[0]]
    seeds = [f"{count} seed{'s' if int(count) > 1 else ''}" for count in result["figures"]]
    return markdown_table([f"milliseconds, one {result['hardware']['device']}", *seeds], rows)


def window() -> str:
    """Policies with and without a memory, where the world is seen through a window."""
    rows = []
    kinds = (("", "policies that see the present"), ("-recurrent", "policies that remember"))
    for engine, (kind, policies) in itertools.product(("exact", "relaxed"), kinds):
        for tasks, scores in read_result(f"window-{engine}{kind}-cpu")["figures"]["scores"].items():
            columns = ("boundary_accuracy", "reconstruction", "exact_match", "online")
            ours = [spread([score[column] for score in scores]) for column in columns]
            rows.append([f"{engine}, {policies}, {tasks} tasks", *ours])
    return markdown_table(["per cent", "boundaries", "reconstruction", "exact match", "online success"], rows)


def relaxed_pickup() -> str:
    """The paper's model with the paper's settings."""
    rows = []
    for tasks, scores in read_result("relaxed-grid-pickup-h200")["figures"]["scores"].items():
        columns = ("boundary_accuracy", "reconstruction", "exact_match", "online")
        rows.append([f"{tasks} tasks", *(spread([score[column] for score in scores]) for column in columns)])
    return markdown_table(
        ["grid-pickup, per cent", "boundaries", "reconstruction", "exact match", "online success"], rows
    )


def low_temperatures() -> str:
    """How far small networks come with low temperatures, by the number of iterations, beside the paper."""
    found = {tau: read_result(f"temperature-{tau}-long-cpu")["figures"] for tau in ("0.1", "0.01")}

    def in_words(rates: list[float]) -> str:
        return ", ".join(f"{100 * rate:.1f}" for rate in rates)

    def scored(figures: dict[str, Any], decoder: str) -> str:
        return in_words([seed["boundary_accuracy"] for seed in figures[decoder]["3"]])

    curves = [figures["curve"] for figures in found.values()]
    rows = [
        [f"{checks[0]['iteration']:,}", *(in_words(check["validation"]["3"]["boundary_accuracy"]) for check in checks)]
        for checks in zip(*curves, strict=True)
        if checks[0]["iteration"] > 500
    ]
    last = rows[-1][0]
    for words, decoder in (("", "scores"), (", exact decoder", "scores, exact decoder")):
        rows.append([f"{last}, test levels{words}", *(scored(figures, decoder) for figures in found.values())])
    paper = [printed("table3", f"temperature={tau}", 3, "boundary_accuracy") for tau in found]
    rows.append(["paper, 500,000", *paper])
    return markdown_table(["iterations", *(f"temperature {tau}" for tau in found)], rows)


def variants() -> str:
    """Variants of the paper's model on the toy, by both decoders."""
    rows = []
    for name, seeds in read_result("variants-cpu")["figures"].items():
        columns = [
            ("recognition", "boundary_accuracy"),
            ("recognition", "reconstruction"),
            ("exact", "boundary_accuracy"),
        ]
        known = [[seed[decoder][score] for seed in seeds if decoder in seed] for decoder, score in columns]
        rows.append([name, *(spread(values) if values else "-" for values in known)])
    return markdown_table(["symbols, per cent", "boundaries", "reconstruction", "boundaries, exact decoder"], rows)


def agents() -> str:
    """Figure 5 in numbers, without the time that each panel took."""
    cells = study_cells(read_result("figure5"))
    return markdown_table(cells.headings[:-1], [row[:-1] for row in cells.rows])


def agent_rates() -> str:
    """Parts of figure 5 that were run with the paper's learning rate too."""
    slow, fast = (read_result(name)["figures"] for name in ("figure5", "figure5-rate-0.001"))
    rows = [
        [
            name.replace(": ", ", "),
            *(", ".join(f"{100 * seed['success']:.1f}" for seed in found[name]["played"]) for found in (fast, slow)),
        ]
        for name in fast
    ]
    return markdown_table(["per cent of levels solved, by seed", "from 0.001", "from 0.0003"], rows)


def speed_of_agents() -> str:
    """Environment steps a second of reinforcement learning, those inside of skills counted."""
    result = read_result("speed-hierarchy-h200")
    rows = [
        [name, *(f"{found[rate]:,.0f}" for rate in ("with learning", "acting alone", "updates"))]
        for name, found in result["figures"]["agents"].items()
    ]
    rows.append(["the world alone", "-", f"{result['figures']['world alone']:,.0f}", "-"])
    headings = [f"a second, one {result['hardware']['device']}", "steps, with learning", "steps, acting alone"]
    return markdown_table([*headings, "updates"], rows)


def symbols() -> str:
    """Iterations and time to the official toy's criterion, beside a plain loop over time steps in three forms."""
    figures = read_result("symbols")["figures"]
    rows = []
    for compared in figures["comparisons"]:
        ours, plain = compared["ours"], compared["plain"]
        for name, side, timed in (
            ("this engine", ours, ours),
            ("plain loop, its LSTM's step compiled", plain, figures["plain_forms"]["cell"]),
            ("plain loop, single operations", plain, figures["plain_forms"]["eager"]),
            ("plain loop, unrolled and compiled as a whole", plain, plain),
        ):
            seeds = side["seeds"]
            typical = timed.get("typical_seconds") or mean(seed["typical_seconds"] for seed in seeds)
            counts = [seed["iterations"] for seed in seeds]
            reached = sum(seed["reached"] for seed in seeds)
            error = stdev(counts) / len(counts) ** 0.5
            enough = f"{mean(counts):.1f} ± {error:.1f} ({min(counts)} to {max(counts)})"
            iterations = enough if reached == len(seeds) else f"{reached} of {len(seeds)} seeds within {max(counts)}"
            seconds = f"{'' if reached == len(seeds) else 'over '}{mean(counts) * typical:.1f}"
            weights = "{codes:g}, {boundaries:g}".format(**side["betas"])
            rows.append([name, weights, iterations, f"{1e3 * typical:.0f}", seconds, f"{timed['compile_seconds']:.0f}"])
    return markdown_table(
        ["symbols", "β_z, β_b", "iterations", "milliseconds each", "seconds", "seconds to compile"], rows
    )


TABLES: dict[str, Callable[[], str]] = {
    "symbols": symbols,
    "speed-worlds": speed_of_worlds,
    "exact-without-labels": exact_without_labels,
    "exact-unknown-count": exact_unknown_count,
    "visit-oracle": visit_oracle,
    "first-minute": first_minute,
    "durations": durations,
    "meaning": meaning,
    "reacher": functools.partial(reacher, "table1"),
    "reacher-gaussian": functools.partial(reacher, "table2"),
    "reacher-sweeps": functools.partial(reacher, "table3"),
    "agents": agents,
    "agent-rates": agent_rates,
    "variants": variants,
    "low-temperatures": low_temperatures,
    "relaxed-pickup": relaxed_pickup,
    "window": window,
    "speed-exact": functools.partial(speed_of_training, "exact"),
    "speed-relaxed": functools.partial(speed_of_training, "relaxed"),
    "speed-hierarchy": speed_of_agents,
}


def refresh(text: str) -> str:
    """The text with every table made anew."""

    def make(match: re.Match[str]) -> str:
        return match.group(1) + TABLES[match.group(2)]() + match.group(3)

    return _BLOCK.sub(make, text)


def main(paths: list[str]) -> None:
    """Makes the tables of some documents anew, in place."""
    for path in map(Path, paths):
        fresh = refresh(path.read_text())
        with replace_file(path) as temporary:
            temporary.write_text(fresh)


if __name__ == "__main__":
    main(sys.argv[1:])
