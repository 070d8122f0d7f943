"""Summarises sets of demonstrations for the report: words, scores beside the paper's, settings, groups of codes."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.cluster.vq import kmeans, vq

from compile_il.data import UNKNOWN, Demonstrations
from compile_il.data.segments import Segments
from compile_il.evaluation.evaluate import Evaluation
from compile_il.evaluation.metrics import Scores
from compile_il.model.model import Model
from compile_il.report.charts import count_was_given
from compile_il.report.markup import count, per_cent, section, table, tag, text

NUM_STARTS = 20
"""Number of starts of k-means, of which the best is kept."""
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
    """A set of demonstrations to report on, with its segments."""

    name: str
    """Heading of the set, such as "grid-pickup, 5 tasks"."""
    demos: Demonstrations
    segments: Segments
    """Boundaries and skills, as `model.segment(demos)` gave them."""
    scores: Evaluation | Scores | None = None
    paper: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Numbers of the paper to stand beside ours, as text, by the name of a score or any other name."""


def with_distinct_names(sets: Sequence[Shown]) -> list[Shown]:
    """Returns the sets, those that share a name, such as files from two folders, numbered in the order given."""
    names = [shown.name for shown in sets]
    taken, distinct = set(names), []
    for name in names:
        numbered = (f"{name} ({n})" for n in itertools.count(1))
        distinct.append(next(new for new in numbered if new not in taken) if names.count(name) > 1 else name)
        taken.add(distinct[-1])
    return [dataclasses.replace(shown, name=name) for shown, name in zip(sets, distinct, strict=True)]


def in_groups(sets: Sequence[Shown], most: int) -> list[Shown]:
    """Returns the sets with each code, a vector, replaced by the number of its group, by size; at most so many groups.

    Groups are those of k-means over all sets together.
    """
    codes = np.concatenate([row for shown in sets for row in shown.segments.skills]).astype(np.float64)
    means, _ = kmeans(codes, min(most, len(np.unique(codes, axis=0))), iter=NUM_STARTS, seed=0)
    means = means[np.argsort(-np.bincount(vq(codes, means)[0], minlength=len(means)), kind="stable")]

    def grouped(segments: Segments) -> Segments:
        groups = [vq(row.astype(np.float64), means)[0].astype(np.int32) for row in segments.skills]
        return dataclasses.replace(segments, skills=groups)

    return [dataclasses.replace(shown, segments=grouped(shown.segments)) for shown in sets]


def summarise(model: Model, sets: Sequence[Shown]) -> str:
    """Says in one or two sentences of plain words, not escaped, what was segmented and how well."""
    num_demos = sum(len(shown.demos) for shown in sets)
    used = len(np.unique(np.concatenate([skills for shown in sets for skills in shown.segments.skills])))
    num_skills = model.config.num_skills
    how_many = f"all {num_skills} skills" if used == num_skills > 1 else f"{used} of {count(num_skills, 'skill')}"
    if model.config.codes == "gaussian":
        how_many = f"codes of {model.config.code_dim} numbers, drawn here in {count(used, 'group')} (k-means)"
    first = f"Segmenting {count(num_demos, 'demonstration')}{_supervision(sets)}, the model used {how_many}"
    scored = {shown.name: shown.scores.boundary_accuracy for shown in sets if shown.scores is not None}
    each = [f"{per_cent(accuracy)} in {name}" for name, accuracy in scored.items()]
    match list(scored.values()):
        case []:
            return f"{first}."
        case [accuracy]:
            return f"{first}; {per_cent(accuracy)} of true boundaries were hit exactly."
        case [_, _] | [_, _, _]:
            return f"{first}. Of true boundaries it hit exactly {', '.join(each[:-1])} and {each[-1]}."
        case many:
            share = f"{per_cent(min(many))} to {per_cent(max(many))}"
            return f"{first}; {share} of true boundaries were hit exactly, depending on the set."


def _supervision(sets: Sequence[Shown]) -> str:
    """Says which labels or numbers of segments the model was given with these demonstrations."""
    num_labelled = 0
    for labels in (demo.labels for shown in sets for demo in shown.demos if demo.labels is not None):
        # An empty list of codes says nothing; any other gives at least the number of segments.
        listed = labels.segment_codes is not None and len(labels.segment_codes) > 0
        num_labelled += bool(listed or (labels.boundaries != UNKNOWN).any() or (labels.codes != UNKNOWN).any())
    if num_labelled:
        num_demos = sum(len(shown.demos) for shown in sets)
        return f", given labels of {'all' if num_labelled == num_demos else f'{num_labelled:,}'} of them"
    # A posterior without doubt may be one with a given number: nothing is claimed of those.
    return "" if any(count_was_given(shown.segments) for shown in sets) else ", not given how many segments there are"


def draw_scores(sets: Sequence[Shown]) -> str:
    """Draws a row per score and a column per set, the paper's number below ours; empty where there are neither."""
    measured = [name for name in SCORE_NAMES if any(getattr(shown.scores, name, None) is not None for shown in sets)]
    ours_first = [*SCORE_NAMES, *(name for shown in sets for name in shown.paper)]
    published = [name for name in ours_first if any(name in shown.paper for shown in sets)]
    columns = [shown for shown in sets if shown.scores is not None or shown.paper]
    rows = []
    for name in dict.fromkeys([*measured, *published]):
        title, meaning = SCORE_NAMES.get(name, (name, ""))
        cells = []
        for shown in columns:
            ours = tag("span", text(per_cent(getattr(shown.scores, name, None))), class_="ours")
            theirs = tag("small", f"paper {text(shown.paper[name])}") if name in shown.paper else ""
            cells.append(tag("td", ours, theirs, class_="num"))
        rows.append((text(title) + tag("small", text(meaning)), cells))
    if not rows:
        return ""
    heads = ["", *(text(shown.name) for shown in columns)]
    return section("Scores", "", table("Scores", "scores", heads, rows), level="h2")


def draw_settings(model: Model) -> str:
    """Draws all settings of the model, behind a click."""

    def words(value: object) -> str:
        if value is None or isinstance(value, bool):
            return {None: "not given", True: "yes", False: "no"}[value]
        return f"{value:,}" if isinstance(value, int) else str(value)

    settings = {**model.resolved.to_json(), "expected segment length": round(model.expected_length, 2)}
    items = [
        tag("div", tag("dt", text(name.replace("_", " "))), tag("dd", text(words(value))))
        for name, value in settings.items()
    ]
    return tag("details", tag("summary", "Settings of the model"), tag("dl", *items, class_="settings"))
