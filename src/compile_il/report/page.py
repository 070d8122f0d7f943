"""Writes the report: one self-contained HTML file of the segments that a model finds in demonstrations.

shown = Shown("grid-pickup, 5 tasks", demos, model.segment(demos, 5), scores)
write_report("report.html", model, [shown])
"""

import dataclasses
import importlib.resources
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans, vq

from compile_il.data import UNKNOWN, DemonstrationError, Demonstrations
from compile_il.data.demonstrations import describe
from compile_il.data.files import check_target, write_atomically
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.metrics import Scores
from compile_il.model.model import Model
from compile_il.report.charts import (
    chip,
    count_was_given,
    draw_counts,
    draw_curves,
    draw_followers,
    draw_tasks_served,
    draw_usage,
    followers,
    tasks_served,
)
from compile_il.report.markup import NO_BREAK, color_css, count, per_cent, scrolling, tag, text
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
from compile_il.report.timeline import Track, draw_timeline

SCORE_NAMES = {
    "boundary_accuracy": ("Boundaries hit exactly", "the n-th found boundary is the n-th true one"),
    "f1": ("Boundary F1", "precision and recall of positions"),
    "f1_tolerance_1": ("Boundary F1, one step off allowed", "precision and recall of positions"),
    "count_accuracy": ("Right number of segments", "share of demonstrations"),
    "reconstruction": ("Actions reconstructed", "share of steps whose action the found skill predicts"),
    "exact_match": ("Whole demonstrations reconstructed", "all actions predicted, to the last"),
    "online": ("Solved by running the skills", "share of levels, in the world itself"),
    "agreement": ("Skills agree with true tasks", "share of steps, each skill standing for one task"),
    "agreement_by_chance": ("The same, by chance", "with skills dealt out to the segments at random"),
    "nmi": ("Mutual information", "of skills and true tasks, over the mean of their entropies"),
    "nmi_by_chance": ("The same, by chance", "with skills dealt out to the segments at random"),
    "mean_iou": ("Mean IoU", "steps in common over steps of either, averaged over true tasks"),
    "segmental_f1_50": ("Segmental F1", "segments that overlap by half with one of their task"),
}


@dataclasses.dataclass(frozen=True)
class Shown:
    """A set of demonstrations to report on, and what was found in it."""

    name: str
    """Heading of the set, such as "grid-pickup, 5 tasks"."""
    demos: Demonstrations
    found: Segments
    """Boundaries and skills, as `model.segment(demos)` gave them."""
    scores: Evaluation | Scores | None = None
    paper: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Numbers of the paper to stand beside ours, as text, by the name of a score or any other name."""


def summarise(model: Model, sets: Sequence[Shown]) -> str:
    """Says in one or two sentences of plain words, not escaped, what was segmented and how well."""
    num_demos = sum(len(shown.demos) for shown in sets)
    used = len(np.unique(np.concatenate([skills for shown in sets for skills in shown.found.skills])))
    num_skills = model.config.num_skills
    how_many = f"all {num_skills} skills" if used == num_skills > 1 else f"{used} of {count(num_skills, 'skill')}"
    if model.config.codes == "gaussian":
        how_many = f"codes of {model.config.code_dim} numbers, drawn here in {count(used, 'group')} (k-means)"
    first = f"Segmenting {count(num_demos, 'demonstration')}{_what_was_told(sets)}, the model used {how_many}"
    scored = [(shown.name, shown.scores.boundary_accuracy) for shown in sets if shown.scores is not None]
    if not scored:
        return f"{first}."
    if len(scored) == 1:
        return f"{first}; {per_cent(scored[0][1])} of true boundaries were hit exactly."
    if len(scored) > 3:
        low, high = (pick(accuracy for _, accuracy in scored) for pick in (min, max))
        return (
            f"{first}; {per_cent(low)} to {per_cent(high)} of true boundaries were hit exactly, depending on the set."
        )
    each = [f"{per_cent(accuracy)} in {name}" for name, accuracy in scored]
    return f"{first}. Of true boundaries it hit exactly {', '.join(each[:-1])} and {each[-1]}."


def _what_was_told(sets: Sequence[Shown]) -> str:
    """Says what was told of the demonstrations that are shown; how the model was trained is not known here."""
    num_told = sum(_num_labelled(shown.demos) for shown in sets)
    if num_told:
        whose = "all of them" if num_told == sum(len(shown.demos) for shown in sets) else f"{num_told:,} of them"
        return f", told labels of {whose}"
    # A posterior that has no doubt may be one that was told: nothing is claimed of those.
    return "" if any(count_was_given(shown.found) for shown in sets) else ", not told how many segments there are"


def _num_labelled(demos: Demonstrations) -> int:
    labels = demos.labels
    if labels is None:
        return 0
    segment_codes = labels.segment_codes or [np.empty(0)] * len(demos)
    told = zip(labels.boundaries, labels.codes, segment_codes, strict=True)
    # An empty list tells nothing; any other tells at least the number of segments.
    return sum(bool((b != UNKNOWN).any() or (c != UNKNOWN).any() or len(z)) for b, c, z in told)


def with_distinct_names(sets: Sequence[Shown]) -> list[Shown]:
    """Returns the sets, those that share a name, such as files from two folders, numbered in the order given."""
    names = [shown.name for shown in sets]
    taken, distinct = set(names), []
    for shown in sets:
        name = shown.name
        if names.count(name) > 1:
            name = next(new for n in itertools.count(1) if (new := f"{shown.name} ({n})") not in taken)
            taken.add(name)
        distinct.append(dataclasses.replace(shown, name=name))
    return distinct


def draw_scores(sets: Sequence[Shown]) -> str:
    """Draws a row per score and a column per set, the paper's number below ours; empty where there are neither."""
    known = [name for name in SCORE_NAMES if any(_score(shown, name) is not None for shown in sets)]
    known += [name for name in SCORE_NAMES if name not in known and any(name in shown.paper for shown in sets)]
    others = dict.fromkeys(name for shown in sets for name in shown.paper if name not in SCORE_NAMES)
    if not known and not others:
        return ""
    columns = [shown for shown in sets if shown.scores is not None or shown.paper]
    top = tag("tr", tag("td"), *(tag("th", text(shown.name), scope="col") for shown in columns))
    lines = []
    for name in [*known, *others]:
        title, meaning = SCORE_NAMES.get(name, (name, ""))
        head = tag("th", text(title), tag("small", text(meaning)), scope="row")
        lines.append(tag("tr", head, *(_score_cell(shown, name) for shown in columns)))
    table = tag("table", tag("thead", top), tag("tbody", *lines), class_="scores")
    return tag("section", tag("h2", "Scores"), scrolling(table, "Scores"))


def _score(shown: Shown, name: str) -> float | None:
    value: float | None = getattr(shown.scores, name, None)
    return value


def _score_cell(shown: Shown, name: str) -> str:
    ours = tag("span", text(per_cent(_score(shown, name))), class_="ours")
    theirs = tag("small", f"paper {text(shown.paper[name])}") if name in shown.paper else ""
    return tag("td", ours, theirs, class_="num")


def draw_settings(model: Model) -> str:
    """Draws all settings of the model, behind a click."""
    settings: dict[str, Any] = {**model.resolved.to_json(), "expected segment length": round(model.expected_length, 2)}
    items = [
        tag("div", tag("dt", text(name.replace("_", " "))), tag("dd", text(_setting(value))))
        for name, value in settings.items()
    ]
    return tag("details", tag("summary", "Settings of the model"), tag("dl", *items, class_="settings"))


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not given" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


NUM_STARTS = 20
"""Number of starts of k-means, of which the best is kept."""


def in_groups(sets: Sequence[Shown], most: int) -> list[Shown]:
    """Returns the sets with each code replaced by the number of its group; the first group has the most segments.

    Args:
      sets: demonstrations in which codes that are vectors were found.
      most: the most groups; they are found by k-means over all sets together.
    """
    codes = np.concatenate([row for shown in sets for row in shown.found.skills]).astype(np.float64)
    num_groups = min(most, len(np.unique(codes, axis=0)))
    means, _ = kmeans(codes, num_groups, iter=NUM_STARTS, seed=0)
    counts = np.bincount(vq(codes, means)[0], minlength=len(means))
    means = means[np.argsort(-counts, kind="stable")]
    return [
        dataclasses.replace(shown, found=dataclasses.replace(shown.found, skills=_numbers(shown.found.skills, means)))
        for shown in sets
    ]


def _numbers(codes: Sequence[np.ndarray], means: np.ndarray) -> list[np.ndarray]:
    return [vq(row.astype(np.float64), means)[0].astype(np.int32) for row in codes]


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
        tag("p", text(describe(shown.demos.storage).replace("..", "–")), class_="facts"),
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
