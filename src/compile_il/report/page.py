"""Writes the report: one self-contained HTML file of the segments that a model finds in demonstrations.

shown = Shown("grid-pickup, 5 tasks", demos, model.segment(demos, 5), scores)
write_report("report.html", model, [shown])
"""

import importlib.resources
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compile_il.data import DemonstrationError
from compile_il.data.files import check_target, write_atomically
from compile_il.model.model import Model
from compile_il.report.charts import (
    chip,
    draw_counts,
    draw_curves,
    draw_followers,
    draw_tasks_served,
    draw_usage,
    followers,
    tasks_served,
)
from compile_il.report.markup import NO_BREAK, color_css, count, per_cent, tag, text
from compile_il.report.runs import (
    ChosenDemos,
    Look,
    Pick,
    certainty,
    choose,
    found_runs,
    glyph_shapes,
    look_of,
    num_misplaced,
    true_runs,
)
from compile_il.report.scenes import draw_scene
from compile_il.report.summary import Shown, draw_scores, draw_settings, in_groups, summarise, with_distinct_names
from compile_il.report.timeline import Track, draw_timeline

_LONG = 80
"""Steps of the longest demonstration shown above which each card takes the whole width of the page."""


_HOW_TO_READ = (
    " Certainty is that of the least certain step: 100 % where the posterior leaves no doubt about any boundary. "
    "Rest the pointer on a timeline to read it step by step."
)


_WITH_TRUTH = " Red edges are boundaries on which what was found and the truth disagree."


def write_report(
    path: str | os.PathLike[str],
    model: Model,
    sets: Sequence[Shown],
    *,
    title: str = "What the model found",
    history: Sequence[Mapping[str, Any]] = (),
    overwrite: bool = False,
) -> Path:
    """Writes the report, whole or not at all, and returns its path.

    Args:
      path: the file to write, such as `report.html`.
      model: what found the skills.
      sets: demonstrations with what was found in them, at least one set.
      title: heading of the page.
      history: rows of a training log, in order; of each, `iteration`, `seconds` and what
        `compile_il.report.charts.QUANTITIES` lists are drawn where they are there.
      overwrite: whether an existing file may be replaced.
    """
    target = check_target(path, overwrite=overwrite)
    page = render_page(model, sets, title=title, history=history)
    with write_atomically(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def render_page(model: Model, sets: Sequence[Shown], *, title: str, history: Sequence[Mapping[str, Any]] = ()) -> str:
    """Returns the page as HTML, from what `write_report` takes."""
    _check(sets)
    sets = with_distinct_names(sets)
    if model.config.codes == "gaussian":
        sets = in_groups(sets, model.config.num_skills)
    num_skills = 1 + max(model.config.num_skills - 1, *(int(s.max()) for shown in sets for s in shown.found.skills))
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


def _check(sets: Sequence[Shown]) -> None:
    if not sets:
        raise DemonstrationError("There is nothing to report on: give at least one set of demonstrations.")
    for shown in sets:
        lengths = [len(probs) for probs in shown.found.boundary_probs]
        if lengths != shown.demos.lengths.tolist():
            raise DemonstrationError(
                f"What was found in {shown.name!r} does not belong to its demonstrations: their numbers or lengths "
                "differ; pass what model.segment gave for these demonstrations."
            )


def _draw_set(shown: Shown, order: int, num_skills: int) -> str:
    """Draws everything about one set of demonstrations."""
    look = look_of(shown.demos)
    choice = choose(shown.found, shown.demos)
    served = tasks_served(shown.found, shown.demos, num_skills)
    cards = [_draw_card(shown, pick, look) for pick in choice.picks]
    longest = max(int(shown.demos.lengths[pick.number]) for pick in choice.picks)
    parts = [
        tag("h2", text(shown.name), id=f"set{order}"),
        tag("p", text(shown.demos.storage.describe().replace("..", "–")), class_="facts"),
        _legend(shown),
        tag("h3", "Demonstrations"),
        tag("p", text(_why_these(choice, shown) + _how_to_read(shown, order)), class_="note"),
        tag("div", *cards, class_="cards wide" if longest > _LONG else "cards"),
        draw_usage(shown.found, shown.demos, served, num_skills, look),
        draw_tasks_served(served, look) if served is not None else "",
        draw_counts(shown.found, shown.demos),
        draw_followers(followers(shown.found, num_skills)),
    ]
    return tag("section", *parts, class_="set", aria_labelledby=f"set{order}")


def _legend(shown: Shown) -> str:
    used = np.unique(np.concatenate(shown.found.skills)).tolist()
    return tag("p", tag("span", "Skills"), *map(chip, used), class_="chips")


def _why_these(choice: ChosenDemos, shown: Shown) -> str:
    """Says which demonstrations are shown, and how they were chosen."""
    total, picks = len(shown.demos), choice.picks
    if len(picks) == total:
        return f"All {total} are shown." if total > 1 else "The only one."
    sorts = [(why, sum(pick.why == why for pick in picks)) for why in dict.fromkeys(pick.why for pick in picks)]
    words = {
        "": "spread evenly over those that are right" if choice.num_wrong else "spread evenly over all",
        "least certain": "more about which the model is least certain",
        "wrong": f"of the {choice.num_wrong:,} with a wrong boundary, the worst first",
    }
    parts = [f"{num} {words[why]}" for why, num in sorts]
    return f"{len(picks)} of {total:,} are shown: {'; '.join(parts)}. The figures below count all {total:,}."


def _how_to_read(shown: Shown, order: int) -> str:
    """Says how to read timelines, once, with the first set."""
    if order > 0:
        return ""
    return _HOW_TO_READ + ("" if shown.demos.truth.boundaries is None else _WITH_TRUTH)


def _draw_card(shown: Shown, pick: Pick, look: Look) -> str:
    """Draws one demonstration: the scene, and beside it the timeline."""
    demo, runs = shown.demos[pick.number], found_runs(shown.found, pick.number)
    track = Track(demo, runs, shown.found.boundary_probs[pick.number], true_runs(demo))
    badge = tag("span", text(pick.why), class_=f"badge {pick.why.replace(' ', '-')}") if pick.why else ""
    title = tag("h4", f"No.{NO_BREAK}{pick.number:,}", badge)
    verdict = tag("p", text(_verdict(shown, pick.number)), class_="verdict")
    scene = tag("div", draw_scene(demo, runs, look), class_="scene")
    return tag("article", scene, tag("div", title, verdict, draw_timeline(track, shown.demos, look)), class_="card")


def _verdict(shown: Shown, index: int) -> str:
    found = shown.found
    sure = f"certainty{NO_BREAK}{per_cent(certainty(found, index), 0)}"
    if shown.demos.truth.boundaries is None:
        return f"{count(len(found.skills[index]), 'segment')} found · {sure}"
    true = shown.demos.truth.boundaries[index]
    hits = len(np.intersect1d(found.boundaries[index], true))
    if not num_misplaced(found, shown.demos, index):
        right = {0: "rightly no boundary", 1: "the boundary is right", 2: "both boundaries right"}.get(
            hits, f"all {hits:,} boundaries right"
        )
    else:
        right = f"{hits} of {count(len(true), 'boundary', 'boundaries')} hit"
    return f"{right} · {sure}"
