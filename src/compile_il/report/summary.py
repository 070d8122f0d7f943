"""Summarises sets of demonstrations for the report: words, scores beside the paper's, settings, groups of codes."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans, vq

from compile_il.data import UNKNOWN, Demonstrations
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.metrics import Scores
from compile_il.model.model import Model
from compile_il.report.charts import (
    count_was_given,
)
from compile_il.report.markup import count, per_cent, scrolling, tag, text

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
    first = f"Segmenting {count(num_demos, 'demonstration')}{_what_was_given(sets)}, the model used {how_many}"
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


def _what_was_given(sets: Sequence[Shown]) -> str:
    """Says which labels or numbers of segments the model was given with these demonstrations."""
    num_labelled = sum(_num_labelled(shown.demos) for shown in sets)
    if num_labelled:
        whose = (
            "all of them" if num_labelled == sum(len(shown.demos) for shown in sets) else f"{num_labelled:,} of them"
        )
        return f", given labels of {whose}"
    # A posterior without doubt may be one with a given number: nothing is claimed of those.
    return "" if any(count_was_given(shown.found) for shown in sets) else ", not given how many segments there are"


def _num_labelled(demos: Demonstrations) -> int:
    labels = demos.labels
    if labels is None:
        return 0
    segment_codes = labels.segment_codes or [np.empty(0)] * len(demos)
    each = zip(labels.boundaries, labels.codes, segment_codes, strict=True)
    # An empty list says nothing; any other gives at least the number of segments.
    return sum(bool((b != UNKNOWN).any() or (c != UNKNOWN).any() or len(z)) for b, c, z in each)


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
