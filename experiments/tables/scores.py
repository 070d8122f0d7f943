"""Tables of scores, made from the files under `results/`, beside what the paper prints."""

import itertools
from statistics import mean
from typing import Any

from compile_il.cli.demo import PAPER_UNSUPERVISED
from compile_il.evaluation.metrics import summarise
from compile_il.evaluation.results import read_result, spread
from experiments.paper.names import StudyName
from experiments.paper.published import printed
from experiments.paper.tables import study_cells
from experiments.tables.markdown import markdown_table


def without_labels() -> str:
    """Table of what both engines find without labels, with three tasks and with five, beside the paper."""
    rows, best = [], read_result("visit-oracle")["figures"]["known_number"]
    for world, study, prefix in (
        ("grid-pickup", "figure4", "grid-pickup, "),
        ("grid-visit", "figure4", "grid-visit, "),
        ("reacher", "table1", ""),
    ):
        parts = read_result(study)["figures"]
        for tasks in ("3", "5"):
            relaxed, exact = (parts[f"{prefix}{model}"]["scores"][tasks] for model in ("CompILE", "exact"))
            both = ((found, score) for score in ("boundary_accuracy", "online") for found in (relaxed, exact))
            ours = [spread([seed[score] for seed in found]) for found, score in both]
            possible = f"{100 * best[tasks]['boundary_accuracy']:.1f}" if world == "grid-visit" else "-"
            papers = PAPER_UNSUPERVISED.get((world, int(tasks)), "-")
            rows.append([f"{world}, {tasks} tasks", papers, *ours[:2], possible, *ours[2:]])
    headings = [f"boundaries: {whose}" for whose in ("paper", "relaxed", "exact", "best possible")]
    return markdown_table(["per cent", *headings, "online: relaxed", "online: exact"], rows)


SUMMARY: tuple[tuple[str, StudyName, str], ...] = (
    ("LSTM surprisal", "table1", "LSTM surprisal"),
    ("CompILE", "table1", "CompILE"),
    ("z-CompILE", "table1", "z-CompILE"),
    ("b-CompILE", "table1", "b-CompILE"),
    ("CompILE, Gaussian codes", "table2", "CompILE"),
    ("z-CompILE, Gaussian codes", "table2", "z-CompILE"),
    ("b-CompILE, Gaussian codes", "table2", "b-CompILE"),
    ("CompILE, four segments", "table3", "M=4"),
    ("CompILE, five segments", "table3", "M=5"),
    ("CompILE, temperature 0.1", "table3", "temperature=0.1"),
    ("CompILE, temperature 0.01", "table3", "temperature=0.01"),
    ("exact", "table1", "exact"),
    ("exact, at most five segments", "table3", "exact, at most 5"),
)
"""Rows that sum up tables 1 to 3 of the paper: the name shown, the table and its part."""


def reacher_summary() -> str:
    """Table of boundary accuracy in tables 1 to 3, after training on three tasks, beside the paper's."""
    rows = []
    for name, table, model in SUMMARY:
        scores, row = read_result(table)["figures"][model]["scores"], [name]
        for tasks in (3, 5):
            found = [seed["boundary_accuracy"] for seed in scores.get(str(tasks), [])]
            row += [printed(table, model, tasks, "boundary_accuracy"), spread(found)]
        rows.append(row)
    headings = ["boundaries, per cent", "paper, 3 tasks", "here, 3 tasks", "paper, 5 tasks", "here, 5 tasks"]
    return markdown_table(headings, rows)


def exact_without_labels() -> str:
    """Table of scores of the exact engine on unseen levels, after training on three tasks without labels."""
    rows = []
    for world in ("grid-pickup", "grid-visit", "reacher"):
        for tasks, scores in read_result(f"exact-{world}")["figures"]["scores"].items():
            columns = ("boundary_accuracy", "f1", "exact_match", "online")
            ours = [spread([score[column] for score in scores]) for column in columns]
            rows.append([f"{world}, {tasks} tasks", PAPER_UNSUPERVISED.get((world, int(tasks)), "-"), *ours])
    headings = ["per cent", "paper: boundaries", "boundaries", "F1", "exact match", "online success"]
    return markdown_table(headings, rows)


def exact_unknown_count() -> str:
    """Table of scores of the exact engine where neither training nor scoring was told how many segments there are."""
    rows = []
    for world in ("grid-pickup", "grid-visit", "reacher"):
        told = read_result(f"exact-{world}")["figures"]["scores"]
        for tasks, scores in read_result(f"exact-{world}-unknown")["figures"]["scores"].items():
            with_count = spread([score["f1"] for score in told[tasks]])
            ours = [spread([score[column] for score in scores]) for column in ("f1", "count_accuracy")]
            rows.append([f"{world}, {tasks} tasks", with_count, *ours])
    return markdown_table(["per cent", "F1, number told", "F1, not told", "number right"], rows)


def learned_lengths() -> str:
    """Table of what the learned mean length of segments changes in the worlds, with their number unknown."""
    rows = []
    for world in ("grid-pickup", "grid-visit", "reacher"):
        ignored, learned = (
            read_result(f"lengths-{kind}-{world}-cpu")["figures"]["scores"] for kind in ("ignored", "learned")
        )
        for tasks in learned:
            columns = [(side[tasks], score) for score in ("f1", "count_accuracy") for side in (ignored, learned)]
            rows.append([f"{world}, {tasks} tasks", *(spread([seed[name] for seed in side]) for side, name in columns)])
    headings = [f"{score}: {how}" for score in ("F1", "number right") for how in ("lengths ignored", "mean learned")]
    return markdown_table(["per cent", *headings], rows)


def visit_oracle() -> str:
    """Table of what a Bayes-optimal observer reaches on grid-visit, told the number of tasks and not told it."""
    figures = read_result("visit-oracle")["figures"]
    rows = []
    for tasks, told in figures["known_number"].items():
        not_told = figures["unknown_number"][tasks]
        values = (told["boundary_accuracy"], told["f1"], not_told["f1"], not_told["count_accuracy"])
        rows.append([f"grid-visit, {tasks} tasks", *(f"{100 * value:.1f}" for value in values)])
    headings = ["per cent", "boundaries", "F1", "F1, number not told", "number right"]
    return markdown_table(headings, rows)


def durations() -> str:
    """Table of what the factor for lengths costs and is good for, by its weight."""
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
    """Table of how well skills agree with the things that tasks are about, in several ways of training."""
    rows = []
    columns = ("agreement", "nmi", "boundary_accuracy")
    for world in ("grid-pickup", "reacher", "grid-visit"):
        # What effects tell before anything is learned was tried later, on grid-visit too.
        tried = {} if world == "grid-visit" else read_result(f"meaning-{world}")["figures"]
        for way, found in (tried | read_result(f"meaning-untrained-{world}")["figures"]).items():
            ours = [spread([seed[column] for seed in found["seeds"]]) for column in columns]
            rows.append([f"{world}, {way}", *ours, f"{100 * found['kept']['agreement']:.1f}"])
    headings = ["per cent", "agreement", "mutual information", "boundaries", "agreement of the seed to keep"]
    return markdown_table(headings, rows)


def stations() -> str:
    """Table of how well skills agree with the places that tasks are at, and of the likelihood of unseen data."""
    rows = []
    for way, found in read_result("stations-cpu")["figures"].items():
        columns = ("agreement", "nmi", "boundary_accuracy")
        ours = [spread([seed[column] for seed in found["seeds"]]) for column in columns]
        likelihoods = summarise([seed["test_log_likelihood"] for seed in found["seeds"]])
        rows.append([way, *ours, f"{likelihoods.mean:.1f} ± {likelihoods.std:.1f}"])
    return markdown_table(["per cent", "agreement", "mutual information", "boundaries", "log-likelihood, unseen"], rows)


def window() -> str:
    """Table of policies with and without a memory, where the world is seen through a window."""
    rows = []
    kinds = (("", "policies that see the present"), ("-recurrent", "policies that remember"))
    both = itertools.product(("exact", "relaxed"), kinds)
    for engine, (kind, policies) in (*both, ("relaxed", ("-forgetful", "policies that forget where a skill begins"))):
        for tasks, scores in read_result(f"window-{engine}{kind}-cpu")["figures"]["scores"].items():
            columns = ("boundary_accuracy", "reconstruction", "exact_match", "online")
            ours = [spread([score[column] for score in scores]) for column in columns]
            rows.append([f"{engine}, {policies}, {tasks} tasks", *ours])
    return markdown_table(["per cent", "boundaries", "reconstruction", "exact match", "online success"], rows)


def relaxed_pickup() -> str:
    """Table of scores of the paper's model with the paper's settings on grid-pickup."""
    rows = []
    for tasks, scores in read_result("relaxed-grid-pickup-h200")["figures"]["scores"].items():
        columns = ("boundary_accuracy", "reconstruction", "exact_match", "online")
        rows.append([f"{tasks} tasks", *(spread([score[column] for score in scores]) for column in columns)])
    return markdown_table(
        ["grid-pickup, per cent", "boundaries", "reconstruction", "exact match", "online success"], rows
    )


def way_points() -> str:
    """Table of what settings do for recordings of a point robot, with the number of segments unknown."""
    shown = {"number right": "count_accuracy", "F1": "f1", "skills agree": "agreement"}
    rows, result = [], read_result("way-points-cpu")
    for recording, ways in result["figures"].items():
        for way, seeds in ways.items():
            scores = [spread([seed[score] for seed in seeds]) for score in shown.values()]
            count = result["config"]["ways"][way].get("duration_weight") != 0.0
            lengths = ", ".join(f"{seed['expected_length']:.1f}" for seed in seeds) if count else "-"
            rows.append([recording, way, *scores, lengths, f"{seeds[0]['true_length']:.1f}"])
    return markdown_table(["recording", "settings", *shown, "expected steps", "true"], rows)


def low_temperatures() -> str:
    """Table of how far small networks come with low temperatures, by the number of iterations, beside the paper."""
    return _boundaries_by_iteration("long", ("0.1", "0.01"), since=500)


def low_temperatures_full_width() -> str:
    """Table of how far networks as wide as the paper's come with a temperature of 0.1 and gradients that are cut."""
    return _boundaries_by_iteration("cut-wide", ("0.1",), since=150)


def lowest_temperature_full_width() -> str:
    """Table of how far networks as wide as the paper's come with a temperature of 0.01, by the learning rate."""
    rows = []
    for kind in ("cut-wide", "cut-wide-slow"):
        result = read_result(f"temperature-0.01-{kind}-cpu")
        config, figures = result["config"], result["figures"]
        falls_at = (1 - config["cooldown"]) * figures["iterations"]
        *_, before = (check for check in figures["curve"] if check["iteration"] <= falls_at)
        checks = [check["validation"]["3"]["boundary_accuracy"] for check in (before, figures["curve"][-1])]
        at_end = [[figures[decoder]["3"][0]["boundary_accuracy"]] for decoder in ("scores", "scores, exact decoder")]
        found = [f"{100 * rate:.1f}" for [rate] in (*checks, *at_end)]
        rows.append([f"{config['learning_rate']:g}", f"{figures['iterations']:,}", f"{before['iteration']:,}", *found])
    paper = printed("table3", "temperature=0.01", 3, "boundary_accuracy")
    rows.append(["paper, 0.0001", "500,000", "-", "-", "-", paper, "-"])
    found_at = ["before the rate falls, after", "boundaries", "at the end", "test levels", "test levels, exact decoder"]
    return markdown_table(["learning rate", "iterations", *found_at], rows)


def _boundaries_by_iteration(kind: str, temperatures: tuple[str, ...], since: int) -> str:
    """Table of the boundaries found on validation levels while models train, and on test levels at the end."""
    found = {tau: read_result(f"temperature-{tau}-{kind}-cpu")["figures"] for tau in temperatures}

    def in_words(rates: list[float]) -> str:
        return ", ".join(f"{100 * rate:.1f}" for rate in rates)

    def scored(figures: dict[str, Any], decoder: str) -> str:
        return in_words([seed["boundary_accuracy"] for seed in figures[decoder]["3"]])

    curves = [figures["curve"] for figures in found.values()]
    rows = [
        [f"{checks[0]['iteration']:,}", *(in_words(check["validation"]["3"]["boundary_accuracy"]) for check in checks)]
        for checks in zip(*curves, strict=True)
        if checks[0]["iteration"] > since
    ]
    last = rows[-1][0]
    for words, decoder in (("", "scores"), (", exact decoder", "scores, exact decoder")):
        rows.append([f"{last}, test levels{words}", *(scored(figures, decoder) for figures in found.values())])
    paper = [printed("table3", f"temperature={tau}", 3, "boundary_accuracy") for tau in found]
    rows.append(["paper, 500,000", *paper])
    return markdown_table(["iterations", *(f"temperature {tau}" for tau in found)], rows)


def cut_gradients() -> str:
    """Table of what short trainings of small networks reach, by temperature and by whether long gradients are cut."""
    rows = []
    for temperature, length in (("1", ""), ("0.1", ""), ("0.01", ""), ("0.01", "-long")):
        sides = [read_result(f"temperature-{temperature}-{side}{length}-cpu")["figures"] for side in ("free", "cut")]
        late = [
            [seed["boundary_accuracy"] for seed in figures[decoder]["3"]]
            for decoder in ("scores", "scores, exact decoder")
            for figures in sides
        ]
        seeds = f"{len(late[0])} seeds"
        rows.append(
            [temperature, f"{sides[0]['iterations']:,}", seeds, *map(spread, [*map(at_a_quarter, sides), *late])]
        )
    whens = ("a quarter", "the end", "exact decoder")
    sides_of = [f"{when}: {how}" for when in whens for how in ("free", "cut")]
    return markdown_table(["temperature", "iterations", "", *sides_of], rows)


def at_a_quarter(figures: dict[str, Any]) -> list[float]:
    """Returns each seed's boundary accuracy on validation levels at the first check after a quarter of a training."""
    check = next(check for check in figures["curve"] if check["iteration"] >= figures["iterations"] / 4)
    found: list[float] = check["validation"]["3"]["boundary_accuracy"]
    return found


def told_gaussian() -> str:
    """Table of where boundaries lie while Gaussian codes are told, seed by seed, by the weight of their prior."""
    weights = ("0.1", "0.01")
    return _where_boundaries_lie(
        {f"weight {weight}": read_result(f"told-gaussian-{weight}-cpu")["figures"][weight] for weight in weights}
    )


def told_gaussian_experts() -> str:
    """Table of where boundaries lie while Gaussian codes are told, with all ten types of targets.

    By whether the expert slows down before a touch; every other check.
    """
    files = {"slows down": "ten-types", "does not slow down": "hard-expert"}
    curves = {name: read_result(f"told-gaussian-{file}-cpu")["figures"]["0.1"] for name, file in files.items()}
    return _where_boundaries_lie({name: curve[1::2] for name, curve in curves.items()})


def _where_boundaries_lie(curves: dict[str, list[dict[str, Any]]]) -> str:
    """Table of where boundaries lie, with a row for each check and columns for each curve."""
    rows = []
    for checks in zip(*curves.values(), strict=True):
        shares = [check[where] for check in checks for where in ("hit", "early")]
        rows.append(
            [f"{checks[0]['iteration']:,}", *(", ".join(f"{100 * seed:.0f}" for seed in share) for share in shares)]
        )
    headings = [f"{name}: {what}" for name in curves for what in ("in place", "a step early")]
    return markdown_table(["iterations", *headings], rows)


def variants() -> str:
    """Table of variants of the paper's model on the toy, by both decoders."""
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
    """Table of figure 5 in numbers, without the time that each panel took."""
    cells = study_cells(read_result("figure5"))
    return markdown_table(cells.headings[:-1], [row[:-1] for row in cells.rows])


def agent_rates() -> str:
    """Table of parts of figure 5 that were also run with a learning rate that falls from 0.001, not from 0.0003."""
    slow, fast = (read_result(name)["figures"] for name in ("figure5", "figure5-rate-0.001"))
    rows = [
        [
            name.replace(": ", ", "),
            *(", ".join(f"{100 * seed['success']:.1f}" for seed in found[name]["played"]) for found in (fast, slow)),
        ]
        for name in fast
    ]
    return markdown_table(["per cent of levels solved, by seed", "from 0.001", "from 0.0003"], rows)
