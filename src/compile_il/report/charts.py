"""Draws curves of training, counts of segments, and tables of how skills are used, what they serve and what follows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.evaluation.metrics import step_labels
from compile_il.report.markup import NO_BREAK, count, drawing, number, per_cent, points, section, table, tag, text
from compile_il.report.runs import Look, task_label

GIVEN = 0.9999
"""Least probability of one number of segments in a posterior whose number of segments was given."""
MAX_BARS, MAX_POINTS, MAX_BINS = 24, 300, 24
"""Most bars of the chart of counts, points of a curve, and bins of a histogram."""
MAX_TASKS, MAX_FOLLOWERS, NUM_PAIRS = 24, 16, 20
"""Most columns of the heat maps of tasks and of followers, and pairs that are listed where there would be more."""
QUANTITIES = {
    "loss": "Loss",
    "held_out_log_likelihood": "Held-out log-likelihood",
    "boundary_accuracy": "Boundary accuracy",
    "loss_reconstruction": "Loss of reconstruction",
    "loss_codes": "Loss of codes",
    "loss_boundaries": "Loss of boundaries",
    "loss_termination": "Loss of termination",
    "temperature": "Temperature",
}
"""Columns of a training log that are drawn, by name, with their headings."""


def draw_curves(history: Sequence[Mapping[str, Any]]) -> str:
    """Draws charts of what the log holds; empty where it holds fewer than two values of each."""
    charts = [_draw_curve(heading, _values(history, name)) for name, heading in QUANTITIES.items()]
    if not any(charts):
        return ""
    iterations, seconds = (
        max((y for _, y in _values(history, name)), default=None) for name in ("iteration", "seconds")
    )
    steps = "" if iterations is None else f" over {count(int(iterations), 'iteration')}"
    took = "" if seconds is None else f" It took {_time(seconds)}."
    note = f"How the model learned{steps}.{took}"
    return section("Training", note, tag("div", *charts, class_="curves"), level="h2")


def _values(history: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    """Returns iteration, else place in the log, and value of all rows in which this is a finite number."""

    def number_in(row: Mapping[str, Any], key: str, otherwise: float) -> float:
        value = row.get(key)
        return float(value) if isinstance(value, int | float | np.number) and np.isfinite(value) else otherwise

    pairs = [(number_in(row, "iteration", i), number_in(row, name, np.nan)) for i, row in enumerate(history)]
    return [pair for pair in pairs if not np.isnan(pair[1])]


def _draw_curve(heading: str, pairs: list[tuple[float, float]]) -> str:
    if len(pairs) < 2:
        return ""
    # Counted from the end, so that the last value is always drawn.
    stride = -(-len(pairs) // MAX_POINTS)
    x, y = np.array(pairs[::-stride][::-1]).T
    share = heading == QUANTITIES["boundary_accuracy"]
    low, high = (0.0, 1.0) if share else (float(y.min()), float(y.max()))

    def show(value: float) -> str:
        if share:
            return per_cent(float(value))
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")

    line = np.stack([x - x[0], (high - y) / ((high - low) or 1.0)], axis=1)
    curve = tag("polyline", points=points(line), class_="curve")
    label = f"{heading}: from {show(y[0])} to {show(y[-1])}"
    chart = drawing(float(x[-1] - x[0]) or 1.0, 1, curve, label=label, class_="plot", stretched=True)
    scale = tag("div", tag("span", text(show(high))), tag("span", text(show(low))), class_="scale")
    ends = tag("div", tag("span", f"{x[0]:,.0f}"), tag("span", f"{x[-1]:,.0f}"), class_="axis")
    title = tag("figcaption", text(heading), tag("b", text(show(y[-1]))))
    return tag("figure", title, tag("div", scale, chart, class_="plot-row"), ends, class_="chart")


def _time(seconds: float) -> str:
    if seconds < 120:
        return count(round(seconds), "second")
    return count(round(seconds / 60), "minute") if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def chip(skill: int) -> str:
    """Draws the number of a skill on its color."""
    return tag("b", str(skill), class_=f"chip k{skill}")


def draw_usage(segments: Segments, demos: Demonstrations, num_skills: int, look: Look) -> str:
    """Draws a table with one row for each skill that is used, the most used first, and which task each serves."""
    served = _tasks_served(segments, demos, num_skills)
    skills = np.concatenate(segments.skills)
    inner = zip(segments.boundaries, demos.lengths.tolist(), strict=True)
    durations = np.concatenate([np.diff([0, *starts.tolist(), length]) for starts, length in inner])
    used = np.bincount(skills, minlength=num_skills)
    order = [k for k in np.argsort(-used, kind="stable").tolist() if used[k]]
    # The last bin takes the longest hundredth of segments, lest it squeezes others.
    longest = max(int(np.quantile(durations, 0.99)), 2)
    width = -(-longest // MAX_BINS)
    edges = np.arange(1, longest + width + 1, width)
    last = int(edges[-1]) - 1
    bins = {k: np.histogram(np.minimum(durations[skills == k], last), edges)[0] for k in order}
    tallest = max(int(heights.max()) for heights in bins.values())
    most = max(int(durations[skills == k].sum()) for k in order)

    def cells(k: int) -> list[str]:
        mine = durations[skills == k]
        bar = tag("span", class_="bar", style=f"--share:{mine.sum() / most:.3f}")
        label = f"Lengths of the segments of skill {k}: from {mine.min()} to {mine.max()} steps"
        bars = [
            tag("rect", x=i + 0.1, y=1 - n / tallest, width=0.8, height=n / tallest)
            for i, n in enumerate(bins[k].tolist())
            if n
        ]
        histogram = drawing(len(bins[k]), 1, *bars, label=label, class_=f"histogram k{k}", stretched=True)
        row = [
            tag("td", text(count(int(used[k]), "time")), class_="num"),
            tag("td", tag("div", bar, tag("span", per_cent(mine.sum() / demos.num_steps)), class_="share")),
            tag("td", f"{mine.mean():.1f}{NO_BREAK}±{NO_BREAK}{mine.std():.1f}", class_="num"),
            tag("td", histogram),
        ]
        if served is not None:
            best = int(served[k].argmax())
            share = per_cent(served[k, best] / served[k].sum(), 0)
            row.append(tag("td", task_label(look, best), tag("span", text(share), class_="aside")))
        return row

    heading = "How skills are used"
    heads = ["skill", "used", "share of steps", "steps per segment"]
    heads.append(f"lengths, 1 to {last}{' or more' if durations.max() > last else ''}")
    heads += [] if served is None else ["mostly for"]
    idle = np.flatnonzero(used == 0).tolist()
    never = f"; never {', '.join(map(str, idle))}" if len(idle) <= 12 else ""
    note = f"{len(order)} of {len(used)} skills are used{never}." if idle else f"All {len(used)} skills are used."
    usage = section(heading, note, table(heading, "usage", heads, [(chip(k), cells(k)) for k in order]))
    return usage if served is None else usage + _draw_tasks_served(served, look)


def _tasks_served(segments: Segments, demos: Demonstrations, num_skills: int) -> Int[np.ndarray, "skills tasks"] | None:
    """Counts the steps of each skill in each true task; None where the true tasks are not known."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return None
    tasks = np.concatenate(step_labels(truth.boundaries, truth.codes, demos.lengths))
    served = np.zeros((num_skills, int(tasks.max()) + 1), np.int64)
    np.add.at(served, (np.concatenate(segments.labels), tasks), 1)
    return served


def _draw_tasks_served(served: Int[np.ndarray, "skills tasks"], look: Look) -> str:
    """Draws the shares of each skill's steps by true task; rows stand in the order of the tasks they mostly serve."""
    tasks = np.flatnonzero(served.sum(axis=0))
    dropped = len(tasks) - MAX_TASKS
    if dropped > 0:
        tasks = np.sort(np.argsort(-served.sum(axis=0), kind="stable")[:MAX_TASKS])
    skills = np.flatnonzero(served.sum(axis=1)).tolist()
    skills.sort(key=lambda k: (int(served[k, tasks].argmax()), -int(served[k, tasks].max())))
    heading = "Which skill serves which task"
    note = "Share of each skill’s steps that lie in a true segment of that task; a row adds up to 100 %."
    note += f" The {dropped} rarest tasks are left out." if dropped > 0 else ""
    heads = ["skill", *(task_label(look, task) for task in tasks.tolist())]
    return section(heading, note, _heat_map(heading, heads, served, skills, tasks))


def draw_counts(segments: Segments, demos: Demonstrations) -> str:
    """Draws how many demonstrations have 1, 2, ... segments, chosen and true; empty where the number was given."""
    if count_was_given(segments):
        return ""
    sure = float(np.mean([probs.max() for probs in segments.count_probs]))
    note = f"The number of segments was not given. On average the model gives {per_cent(sure)} to the likeliest number."
    counts = {"found": segments.num_segments}
    if demos.truth.num_segments is not None:
        counts["true"] = demos.truth.num_segments
        right = float(np.mean(counts["found"] == counts["true"]))
        note += f" The number is right in {per_cent(right)} of demonstrations."
    longest = max(int(values.max()) for values in counts.values())
    width = -(-longest // MAX_BARS)
    groups = [range(first, min(first + width, longest + 1)) for first in range(1, longest + 1, width)]
    most = max(int(np.isin(values, group).sum()) for values in counts.values() for group in groups)
    columns = []
    for group in groups:
        ends = [str(n) for n in dict.fromkeys((group[0], group[-1]))]
        bars = []
        for kind, values in counts.items():
            num = int(np.isin(values, group).sum())
            words = f"{count(num, 'demonstration')} with {' to '.join(ends)} segments ({kind})"
            inner = tag("span", f"{num:,}") if num else ""
            bars.append(
                tag("div", inner, class_=f"bar {kind}", style=f"height:{number(100 * num / most)}%", title=words)
            )
        columns.append(tag("div", tag("div", *bars, class_="pair"), tag("span", "–".join(ends)), class_="column"))
    legend = tag("p", *(tag("i", class_=f"key {kind}") + kind for kind in counts), class_="legend")
    return section("How many segments", note, legend, tag("div", *columns, class_="counts"))


def count_was_given(segments: Segments) -> bool:
    """Returns whether every posterior over the number of segments has all its mass on one number."""
    return all(probs.max() > GIVEN for probs in segments.count_probs)


def draw_followers(segments: Segments, num_skills: int) -> str:
    """Draws what comes after each skill: a heat map, or the most common pairs where it would be too large to read."""
    follows = np.zeros((num_skills, num_skills), np.int64)
    for skills in segments.skills:
        np.add.at(follows, (skills[:-1], skills[1:]), 1)
    heading = "Which skill follows which"
    used = np.flatnonzero(follows.sum(axis=0) + follows.sum(axis=1))
    if not len(used):
        return ""
    if len(used) <= MAX_FOLLOWERS:
        heads = ["after skill", *map(chip, used.tolist())]
        body = _heat_map(heading, heads, follows, used[follows[used].any(axis=1)].tolist(), used)
        note = "How often the skill of a row is followed by that of a column, of all that follow it."
    else:
        order = np.argsort(-follows, axis=None, kind="stable")[:NUM_PAIRS].tolist()
        pairs = [(*divmod(place, num_skills), follows.flat[place]) for place in order]
        items = [tag("li", chip(a), " → ", chip(b), f" {times:,} times") for a, b, times in pairs if times]
        body, note = tag("ul", *items, class_="pairs"), "The most common pairs of neighbours."
    return tag("details", tag("summary", heading), tag("p", note, class_="note"), body)


def _heat_map(
    label: str,
    heads: list[str],
    counts: Int[np.ndarray, "skills columns"],
    skills: list[int],
    columns: NDArray[np.intp],
) -> str:
    """Draws the shares of some skills' counts in some columns; small ones are left blank, to let large ones speak."""

    def cell(share: float) -> str:
        words = per_cent(share, 0).replace(f"{NO_BREAK}%", "") if share >= 0.005 else ""
        return tag("td", words, class_="cell strong" if share > 0.5 else "cell", style=f"--share:{share:.3f}")

    shares = counts[skills] / counts[skills].sum(axis=1, keepdims=True)
    rows = [
        (chip(k), [cell(share) for share in row]) for k, row in zip(skills, shares[:, columns].tolist(), strict=True)
    ]
    return table(label, "heat", heads, rows)
