"""Writes the report: one self-contained HTML file of the segments of demonstrations.

shown = Shown("grid-pickup, 5 tasks", demos, model.segment(demos, 5), scores)
write_report("report.html", model, [shown])
"""

import importlib.resources
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compile_il.data import DemonstrationError
from compile_il.data.files import check_target, write_atomically
from compile_il.model.model import Model
from compile_il.report.charts import chip, draw_counts, draw_curves, draw_followers, draw_usage
from compile_il.report.markup import NO_BREAK, color_css, count, per_cent, tag, text
from compile_il.report.runs import Look, certainty, choose, glyph_shapes, look_of, num_misplaced, segment_runs
from compile_il.report.scenes import draw_scene
from compile_il.report.summary import Shown, draw_scores, draw_settings, in_groups, summarise, with_distinct_names
from compile_il.report.timeline import draw_timeline

LONG = 80
"""Steps of the longest demonstration shown above which each card takes the whole width of the page."""


def write_report(
    path: str | os.PathLike[str],
    model: Model,
    sets: Sequence[Shown],
    *,
    title: str = "What the model found",
    history: Sequence[Mapping[str, Any]] = (),
    overwrite: bool = False,
) -> Path:
    """Writes the report on at least one set, whole or not at all, and returns its path.

    Of the rows of a training log, `history`, those columns are drawn that `charts.QUANTITIES` lists.
    """
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
                f"What was found in {shown.name!r} does not belong to its demonstrations: their numbers or lengths "
                "differ; pass what model.segment gave for these demonstrations."
            )
    sets = with_distinct_names(sets)
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
    lead = tag("p", text(summarise(model, sets)), class_="lead")
    header = tag("header", tag("h1", text(title)), lead, draw_settings(model))
    body = [glyph_shapes(), header, draw_scores(sets), draw_curves(history)]
    body += [_draw_set(shown, order, num_skills) for order, shown in enumerate(sets)]
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', *body)), lang='en')}\n"


def _draw_set(shown: Shown, order: int, num_skills: int) -> str:
    """Draws everything about one set of demonstrations; the first one says how to read timelines."""
    segments, demos, look = shown.segments, shown.demos, look_of(shown.demos)
    chosen, num_wrong = choose(segments, demos)
    note = _why_these(chosen, num_wrong, len(demos))
    if order == 0:
        note += (
            " Certainty is that of the least certain step: 100 % where the posterior leaves no doubt about any "
            "boundary. Rest the pointer on a timeline to read it step by step."
        )
        if demos.truth.boundaries is not None:
            note += " Red edges are boundaries on which what was found and the truth disagree."
    cards = [_draw_card(shown, index, why, look) for index, why in chosen.items()]
    long = max(demos.lengths[list(chosen)]) > LONG
    parts = [
        tag("h2", text(shown.name), id=f"set{order}"),
        tag("p", text(demos.storage.describe().replace("..", "–")), class_="facts"),
        tag(
            "p", tag("span", "Skills"), *map(chip, np.unique(np.concatenate(segments.skills)).tolist()), class_="chips"
        ),
        tag("h3", "Demonstrations"),
        tag("p", text(note), class_="note"),
        tag("div", *cards, class_="cards wide" if long else "cards"),
        draw_usage(segments, demos, num_skills, look),
        draw_counts(segments, demos),
        draw_followers(segments, num_skills),
    ]
    return tag("section", *parts, class_="set", aria_labelledby=f"set{order}")


def _why_these(chosen: dict[int, str], num_wrong: int, total: int) -> str:
    """Says which demonstrations are shown, and how they were chosen."""
    if len(chosen) == total:
        return f"All {total} are shown." if total > 1 else "The only one."
    words = {
        "": "spread evenly over those that are right" if num_wrong else "spread evenly over all",
        "least certain": "more about which the model is least certain",
        "wrong": f"of the {num_wrong:,} with a wrong boundary, the worst first",
    }
    parts = [f"{num} {words[why]}" for why, num in Counter(chosen.values()).items()]
    return f"{len(chosen)} of {total:,} are shown: {'; '.join(parts)}. The figures below count all {total:,}."


def _draw_card(shown: Shown, index: int, why: str, look: Look) -> str:
    """Draws one demonstration: the scene, and beside it the timeline."""
    segments, demos = shown.segments, shown.demos
    badge = tag("span", text(why), class_=f"badge {why.replace(' ', '-')}") if why else ""
    title = tag("h4", f"No.{NO_BREAK}{index:,}", badge)
    if demos.truth.boundaries is None:
        verdict = f"{count(len(segments.skills[index]), 'segment')} found"
    elif num_misplaced(segments, demos, index):
        true = demos.truth.boundaries[index]
        num_hits = len(np.intersect1d(segments.boundaries[index], true))
        verdict = f"{num_hits} of {count(len(true), 'boundary', 'boundaries')} hit"
    else:
        num_hits = len(segments.boundaries[index])
        all_right = {0: "rightly no boundary", 1: "the boundary is right", 2: "both boundaries right"}
        verdict = all_right.get(num_hits, f"all {num_hits:,} boundaries right")
    verdict += f" · certainty{NO_BREAK}{per_cent(certainty(segments, index), 0)}"
    words = tag("p", text(verdict), class_="verdict")
    scene = tag("div", draw_scene(demos[index], segment_runs(segments, index), look), class_="scene")
    timeline = draw_timeline(segments, demos, index, look)
    return tag("article", scene, tag("div", title, words, timeline), class_="card")
