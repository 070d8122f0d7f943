"""Writes the report: one self-contained HTML file of the segments of demonstrations.

shown = Shown("grid-pickup, 5 tasks", demos, model.segment(demos, 5), scores)
write_report("report.html", model, [shown])
"""

import dataclasses
import importlib.resources
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans, vq

from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.files import check_target, write_atomically
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.metrics import Scores
from compile_il.model.model import Model
from compile_il.report.charts import chip, draw_counts, draw_curves, draw_followers, draw_usage
from compile_il.report.markup import NO_BREAK, color_css, count, per_cent, section, table, tag, text
from compile_il.report.runs import Look, certainty, choose, glyph_shapes, look_of, segment_runs
from compile_il.report.scenes import draw_scene, draw_timeline

LONG = 80
"""Steps of the longest demonstration shown above which each card takes the whole width of the page."""
NUM_STARTS = 20
"""Number of starts of k-means, of which the best is kept."""
SCORE_NAMES = {
    "boundary_accuracy": ("Boundaries hit exactly", "the n-th boundary is the n-th true one"),
    "f1": ("Boundary F1", "precision and recall of positions"),
    "f1_tolerance_1": ("Boundary F1, one step off allowed", "precision and recall of positions"),
    "count_accuracy": ("Right number of segments", "share of demonstrations"),
    "reconstruction": ("Actions reconstructed", "share of steps whose action the skill predicts"),
    "exact_match": ("Whole demonstrations reconstructed", "all actions predicted, to the last"),
    "online": ("Solved by running the skills", "share of levels, in the world itself"),
    "agreement": ("Skills agree with true tasks", "share of steps, each skill standing for one task"),
    "agreement_by_chance": ("The same, by chance", "with skills assigned to segments at random"),
    "nmi": ("Mutual information", "of skills and true tasks, over the mean of their entropies"),
    "nmi_by_chance": ("The same, by chance", "with skills assigned to segments at random"),
    "mean_iou": ("Mean IoU", "steps in common over steps of either, averaged over true tasks"),
    "segmental_f1_50": ("Segmental F1", "segments that overlap by half with one of their task"),
}


@dataclasses.dataclass(frozen=True)
class Shown:
    """A set of demonstrations to report on, with its segments."""

    name: str
    """Heading of the set, such as "grid-pickup, 5 tasks"."""
    demos: Demonstrations
    segments: Segments
    """Boundaries and skills, as `model.segment(demos)` gave them."""
    scores: Evaluation | Scores | None = None
    paper: str | None = None
    """The paper's boundary accuracy, as text."""


def write_report(
    path: str | os.PathLike[str],
    model: Model,
    sets: Sequence[Shown],
    *,
    title: str = "Skills of the model",
    history: Sequence[Mapping[str, Any]] = (),
    overwrite: bool = False,
) -> Path:
    """Writes the report on at least one set, with curves from the rows of a training log, and returns its path."""
    target = check_target(path, overwrite=overwrite)
    page = render_page(model, sets, title=title, history=history)
    with write_atomically(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def render_page(model: Model, sets: Sequence[Shown], *, title: str, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns the page as HTML, from what `write_report` takes."""
    if not sets:
        raise DemonstrationError("There is nothing to report on: give at least one set of demonstrations.")
    for shown in sets:
        if [len(probs) for probs in shown.segments.boundary_probs] != shown.demos.lengths.tolist():
            raise DemonstrationError(
                f"The segments of {shown.name!r} do not belong to its demonstrations: their numbers or lengths differ; "
                "pass what model.segment returned for these demonstrations."
            )
    if model.config.codes == "gaussian":
        sets = in_groups(sets, model.config.num_skills)
    num_skills = max(model.config.num_skills, *(int(k.max()) + 1 for shown in sets for k in shown.segments.skills))
    css = importlib.resources.files("compile_il.report").joinpath("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", text(title)),
        tag("style", css, color_css(num_skills)),
    )
    lead = tag("p", text(_summarise(model, sets)), class_="lead")
    header = tag("header", tag("h1", text(title)), lead, _draw_settings(model))
    body = [glyph_shapes(), header, _draw_scores(sets), draw_curves(history)]
    body += [_draw_set(shown, order, num_skills) for order, shown in enumerate(sets)]
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', *body)), lang='en')}\n"


def in_groups(sets: Sequence[Shown], most: int) -> list[Shown]:
    """Returns the sets with each code, a vector, replaced by the number of its k-means group, largest group first."""
    codes = np.concatenate([row for shown in sets for row in shown.segments.skills]).astype(np.float64)
    means, _ = kmeans(codes, min(most, len(np.unique(codes, axis=0))), iter=NUM_STARTS, seed=0)
    means = means[np.argsort(-np.bincount(vq(codes, means)[0], minlength=len(means)), kind="stable")]

    def grouped(segments: Segments) -> Segments:
        groups = [vq(row.astype(np.float64), means)[0].astype(np.int32) for row in segments.skills]
        return dataclasses.replace(segments, skills=groups)

    return [dataclasses.replace(shown, segments=grouped(shown.segments)) for shown in sets]


def _summarise(model: Model, sets: Sequence[Shown]) -> str:
    """Says in one or two sentences, not escaped, what was segmented and how well."""
    num_demos = sum(len(shown.demos) for shown in sets)
    used = len(np.unique(np.concatenate([skills for shown in sets for skills in shown.segments.skills])))
    skills = f"{used} of {count(model.config.num_skills, 'skill')}"
    if model.config.codes == "gaussian":
        skills = f"codes of {model.config.code_dim} numbers, drawn here in {count(used, 'group')} (k-means)"
    words = f"Segmenting {count(num_demos, 'demonstration')}, the model used {skills}."
    scored = [(shown.name, per_cent(shown.scores.boundary_accuracy)) for shown in sets if shown.scores is not None]
    accuracies = "; ".join(f"{accuracy} in {name}" for name, accuracy in scored)
    return f"{words} True boundaries hit exactly: {accuracies}." if scored else words


def _draw_scores(sets: Sequence[Shown]) -> str:
    """Draws a row per score and a column per set, the paper's boundary accuracy below ours; empty without scores."""
    columns, rows = [shown for shown in sets if shown.scores is not None], []
    for name, (title, meaning) in SCORE_NAMES.items():
        cells = []
        for shown in columns:
            ours = tag("span", text(per_cent(getattr(shown.scores, name, None))), class_="ours")
            has_paper = name == "boundary_accuracy" and shown.paper is not None
            cells.append(tag("td", ours, tag("small", f"paper {text(shown.paper)}") if has_paper else "", class_="num"))
        if any(getattr(shown.scores, name, None) is not None for shown in columns):
            rows.append((title + tag("small", meaning), cells))
    heads = ["", *(text(shown.name) for shown in columns)]
    return section("Scores", "", table("Scores", "scores", heads, rows), level="h2") if rows else ""


def _draw_settings(model: Model) -> str:
    """Draws all settings of the model, which a click unfolds."""
    settings = {**model.resolved.to_json(), "expected segment length": round(model.expected_length, 2)}
    items = [
        tag("div", tag("dt", text(name.replace("_", " "))), tag("dd", "–" if value is None else text(value)))
        for name, value in settings.items()
    ]
    return tag("details", tag("summary", "Settings of the model"), tag("dl", *items, class_="settings"))


def _draw_set(shown: Shown, order: int, num_skills: int) -> str:
    """Draws everything about one set of demonstrations; the first one explains timelines."""
    segments, demos, look = shown.segments, shown.demos, look_of(shown.demos)
    chosen = choose(segments, demos)
    note = f"Shown: {len(chosen)} of {len(demos):,}."
    if len(chosen) < len(demos):
        note += " Some with wrong boundaries, if there are any, some that are least certain, others spread evenly."
        note += f" The figures below count all {len(demos):,}."
    if order == 0:
        note += (
            " Certainty is that of the least certain step: 100 % where the posterior leaves no doubt about any "
            "boundary. Rest the pointer on a timeline to read it step by step. Red edges are boundaries that are "
            "wrong or missing."
        )
    cards = [_draw_card(shown, index, why, look) for index, why in chosen.items()]
    long = max(demos.lengths[list(chosen)]) > LONG
    used = np.unique(np.concatenate(segments.skills)).tolist()
    parts = [
        tag("h2", text(shown.name), id=f"set{order}"),
        tag("p", text(demos.storage.describe().replace("..", "–")), class_="facts"),
        tag("p", tag("span", "Skills"), *map(chip, used), class_="chips"),
        tag("h3", "Demonstrations"),
        tag("p", text(note), class_="note"),
        tag("div", *cards, class_="cards wide" if long else "cards"),
        draw_usage(segments, demos, num_skills, look),
        draw_counts(segments, demos),
        draw_followers(segments, num_skills),
    ]
    return tag("section", *parts, class_="set", aria_labelledby=f"set{order}")


def _draw_card(shown: Shown, index: int, why: str, look: Look) -> str:
    """Draws one demonstration: the scene, and beside it the timeline."""
    segments, demos = shown.segments, shown.demos
    badge = tag("span", text(why), class_=f"badge {why.replace(' ', '-')}") if why else ""
    title = tag("h4", f"No.{NO_BREAK}{index:,}", badge)
    verdict = count(len(segments.skills[index]), "segment")
    if demos.truth.boundaries is not None:
        true = demos.truth.boundaries[index]
        num_hits = len(np.intersect1d(segments.boundaries[index], true))
        verdict = f"{num_hits} of {count(len(true), 'boundary', 'boundaries')} hit"
    verdict += f" · certainty{NO_BREAK}{per_cent(certainty(segments, index), 0)}"
    words = tag("p", text(verdict), class_="verdict")
    scene = tag("div", draw_scene(demos[index], segment_runs(segments, index), look), class_="scene")
    timeline = draw_timeline(segments, demos, index, look)
    return tag("article", scene, tag("div", title, words, timeline), class_="card")
