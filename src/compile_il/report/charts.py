"""Draws counts of segments, curves of training, and tables of how skills are used, what they serve and what follows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.report.markup import NO_BREAK, count, per_cent, points, scrolling, stretched, styled, tag, text
from compile_il.report.runs import Look, task_label, task_of_step

_GIVEN = 0.9999
"""Least probability of one number of segments in a posterior whose number of segments was given."""


_MAX_BARS = 24


def count_was_given(found: Segments) -> bool:
    """Whether every posterior over the number of segments has all its mass on one number."""
    return all(probs.max() > _GIVEN for probs in found.count_probs)


def draw_counts(found: Segments, demos: Demonstrations) -> str:
    """Draws how many demonstrations have 1, 2, ... segments, found and true; empty where the number was given."""
    if count_was_given(found):
        return ""
    mine = found.num_segments
    true = demos.truth.num_segments
    sure = float(np.mean([probs.max() for probs in found.count_probs]))
    words = f"The number of segments was not given. On average the model gives {per_cent(sure)} to the likeliest"
    words += " number."
    if true is not None:
        words += f" The number is right in {per_cent(float(np.mean(mine == true)))} of demonstrations."
    longest = int(max(mine.max(), 0 if true is None else true.max()))
    width = -(-longest // _MAX_BARS)
    groups = [range(first, min(first + width, longest + 1)) for first in range(1, longest + 1, width)]
    most = max(int(np.isin(counts, group).sum()) for counts in (mine, true) if counts is not None for group in groups)
    columns = []
    for group in groups:
        bars = [_bar(int(np.isin(mine, group).sum()), most, "found", group)]
        if true is not None:
            bars.append(_bar(int(np.isin(true, group).sum()), most, "true", group))
        name = str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"
        columns.append(tag("div", tag("div", *bars, class_="pair"), tag("span", name), class_="column"))
    legend = tag("p", tag("i", class_="key found"), "found", class_="legend")
    if true is not None:
        legend = tag("p", tag("i", class_="key found"), "found", tag("i", class_="key true"), "true", class_="legend")
    return tag(
        "section",
        tag("h3", "How many segments"),
        tag("p", text(words), class_="note"),
        legend,
        tag("div", *columns, class_="counts"),
    )


def _bar(number: int, most: int, kind: str, group: range) -> str:
    segments = str(group[0]) if len(group) == 1 else f"{group[0]} to {group[-1]}"
    words = f"{count(number, 'demonstration')} with {segments} segments ({kind})"
    label = tag("span", f"{number:,}") if number else ""
    return tag("div", label, class_=f"bar {kind}", style=styled(height=100 * number / most), title=words)


_MAX_POINTS = 300


class Quantity(NamedTuple):
    """Column of a training log: its key, its name on the page, and whether it is a share between 0 and 1."""

    key: str
    name: str
    share: bool


QUANTITIES = (
    Quantity("loss", "Loss", False),
    Quantity("held_out_log_likelihood", "Held-out log-likelihood", False),
    Quantity("boundary_accuracy", "Boundary accuracy", True),
    Quantity("loss_reconstruction", "Loss of reconstruction", False),
    Quantity("loss_codes", "Loss of codes", False),
    Quantity("loss_boundaries", "Loss of boundaries", False),
    Quantity("loss_termination", "Loss of termination", False),
    Quantity("temperature", "Temperature", False),
)


def draw_curves(history: Sequence[Mapping[str, Any]]) -> str:
    """Draws charts of what the log holds; empty where it holds fewer than two values of each."""
    charts = [chart for quantity in QUANTITIES if (chart := _draw_curve(history, quantity))]
    if not charts:
        return ""
    seconds = [value for row in history if (value := _value(row, "seconds")) is not None]
    took = f" It took {_time(max(seconds))}." if seconds else ""
    iterations = [value for row in history if (value := _value(row, "iteration")) is not None]
    steps = f" over {count(int(max(iterations)), 'iteration')}" if iterations else ""
    note = tag("p", text(f"How the model learned{steps}.{took}"), class_="note")
    return tag("section", tag("h2", "Training"), note, tag("div", *charts, class_="curves"))


def _draw_curve(history: Sequence[Mapping[str, Any]], quantity: Quantity) -> str:
    pairs = []
    for order, row in enumerate(history):
        value, at = _value(row, quantity.key), _value(row, "iteration")
        if value is not None:
            pairs.append((float(order) if at is None else at, value))
    if len(pairs) < 2:
        return ""
    stride = -(-len(pairs) // _MAX_POINTS)
    # Counted from the end, so that the last value is always drawn.
    x, y = np.array(pairs[::-1][::stride][::-1]).T
    low, high = (0.0, 1.0) if quantity.share else (float(y.min()), float(y.max()))
    spread = (high - low) or 1.0
    line = np.stack([x - x[0], (high - y) / spread], axis=1)
    width = float(x[-1] - x[0]) or 1.0
    show = per_cent if quantity.share else _plain
    label = f"{quantity.name}: from {show(float(y[0]))} to {show(float(y[-1]))}"
    curve = tag("polyline", points=points(line), class_="curve")
    chart = stretched(width, 1, curve, label=label, class_="plot")
    scale = tag("div", tag("span", text(show(high))), tag("span", text(show(low))), class_="scale")
    ends = tag("div", tag("span", f"{x[0]:,.0f}"), tag("span", f"{x[-1]:,.0f}"), class_="axis")
    title = tag("figcaption", text(quantity.name), tag("b", text(show(float(y[-1])))))
    return tag("figure", title, tag("div", scale, chart, class_="plot-row"), ends, class_="chart")


def _value(row: Mapping[str, Any], key: str) -> float | None:
    """Returns a number of a row of the log; None where it is missing or not a finite number."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        return None
    return float(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")


def _time(seconds: float) -> str:
    if seconds < 120:
        return count(round(seconds), "second")
    return count(round(seconds / 60), "minute") if seconds < 7200 else f"{seconds / 3600:.1f} hours"


_MAX_TASKS, _MAX_FOLLOWING = 24, 16


def chip(skill: int) -> str:
    """Draws the number of a skill on its color."""
    return tag("b", str(skill), class_=f"chip k{skill}")


def tasks_served(found: Segments, demos: Demonstrations, num_skills: int) -> Int[np.ndarray, "skills tasks"] | None:
    """Counts the steps of each skill in each true task; None where the true tasks are not known."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return None
    tasks = np.concatenate([task_of_step(demo) for demo in demos])
    table = np.zeros((num_skills, int(tasks.max()) + 1), np.int64)
    np.add.at(table, (np.concatenate(found.labels), tasks), 1)
    return table


def draw_tasks_served(table: Int[np.ndarray, "skills tasks"], look: Look) -> str:
    """Draws the shares of each skill's steps by true task; rows stand in the order of the tasks they mostly serve."""
    tasks = np.flatnonzero(table.sum(axis=0))
    dropped = len(tasks) - _MAX_TASKS
    if dropped > 0:
        tasks = np.sort(np.argsort(-table.sum(axis=0), kind="stable")[:_MAX_TASKS])
    skills = [int(k) for k in np.flatnonzero(table.sum(axis=1))]
    skills.sort(key=lambda k: (int(table[k, tasks].argmax()), -int(table[k, tasks].max())))
    shares = table[skills] / table[skills].sum(axis=1, keepdims=True)
    heads = [task_label(look, int(task)) for task in tasks]
    heading = "Which skill serves which task"
    note = "Share of each skill’s steps that lie in a true segment of that task; a row adds up to 100 %."
    if dropped > 0:
        note += f" The {dropped} rarest tasks are left out."
    return _section(heading, note, _heat_map(heading, "skill", skills, heads, shares[:, tasks]))


def followers(found: Segments, num_skills: int) -> Int[np.ndarray, "skills skills"]:
    """Counts how often each skill (row) is followed by each skill (column)."""
    table = np.zeros((num_skills, num_skills), np.int64)
    for skills in found.skills:
        np.add.at(table, (skills[:-1], skills[1:]), 1)
    return table


def draw_followers(table: Int[np.ndarray, "skills skills"]) -> str:
    """Draws what comes after each skill: a heat map, or the most common pairs where it would be too large to read."""
    heading = "Which skill follows which"
    used = np.flatnonzero(table.sum(axis=0) + table.sum(axis=1))
    if not table.sum():
        return ""
    if len(used) <= _MAX_FOLLOWING:
        rows = [int(k) for k in used if table[k].sum()]
        shares = table[rows] / table[rows].sum(axis=1, keepdims=True)
        body = _heat_map(heading, "after skill", rows, [chip(int(k)) for k in used], shares[:, used])
        note = "How often the skill of a row is followed by that of a column, of all that follow it."
    else:
        pairs = np.dstack(np.unravel_index(np.argsort(-table, axis=None, kind="stable")[:20], table.shape))[0]
        items = [
            tag("li", chip(a), " → ", chip(b), f" {table[a, b]:,} times") for a, b in pairs.tolist() if table[a, b]
        ]
        body = tag("ul", *items, class_="pairs")
        note = "The most common pairs of neighbours."
    return tag("details", tag("summary", heading), tag("p", note, class_="note"), body)


def _heat_map(label: str, corner: str, rows: Sequence[int], heads: Sequence[str], shares: NDArray[np.floating]) -> str:
    top = tag("tr", tag("th", text(corner), scope="col"), *(tag("th", head, scope="col") for head in heads))
    lines = [
        tag("tr", tag("th", chip(skill), scope="row"), *(_cell(float(share)) for share in line))
        for skill, line in zip(rows, shares, strict=True)
    ]
    table = tag("table", tag("thead", top), tag("tbody", *lines), class_="heat")
    return scrolling(table, label)


def _cell(share: float) -> str:
    """Draws a share as a cell of a heat map; small ones are left blank, to let the large ones speak."""
    strong = " strong" if share > 0.5 else ""
    words = per_cent(share, 0).replace("\u00a0%", "") if share >= 0.005 else ""
    return tag("td", words, class_=f"cell{strong}", style=f"--share:{share:.3f}")


def _section(heading: str, note: str, body: str) -> str:
    return tag("section", tag("h3", text(heading)), tag("p", text(note), class_="note"), body)


_MAX_BINS = 24


def draw_usage(
    found: Segments, demos: Demonstrations, served: Int[np.ndarray, "skills tasks"] | None, num_skills: int, look: Look
) -> str:
    """Draws a table with one row for each skill that is used, the most used first."""
    skills = np.concatenate(found.skills)
    durations = segment_lengths(found)
    used = np.bincount(skills, minlength=num_skills)
    order = [int(k) for k in np.argsort(-used, kind="stable") if used[k]]
    edges = _bin_edges(durations)
    tallest = max(np.histogram(np.minimum(durations[skills == k], edges[-1]), edges)[0].max() for k in order)
    heads = ["skill", "used", "share of steps", "steps per segment", _bins_in_words(edges, durations)]
    heads += ["mostly for"] if served is not None else []
    most_steps = max(int(durations[skills == k].sum()) for k in order)
    lines = []
    for k in order:
        mine = durations[skills == k]
        cells = [
            tag("td", text(count(int(used[k]), "time")), class_="num"),
            tag("td", _share_bar(int(mine.sum()), most_steps, demos.num_steps)),
            tag("td", f"{mine.mean():.1f}{NO_BREAK}±{NO_BREAK}{mine.std():.1f}", class_="num"),
            tag("td", _histogram(mine, edges, int(tallest), k)),
        ]
        if served is not None:
            cells.append(tag("td", _mostly(served[k], look)))
        lines.append(tag("tr", tag("th", chip(k), scope="row"), *cells))
    top = tag("tr", *(tag("th", text(head), scope="col") for head in heads))
    table = tag("table", tag("thead", top), tag("tbody", *lines), class_="usage")
    return tag(
        "section",
        tag("h3", "How skills are used"),
        tag("p", text(_unused(used)), class_="note"),
        scrolling(table, "How skills are used"),
    )


def segment_lengths(found: Segments) -> NDArray[np.int64]:
    """Returns the length in steps of every segment of every demonstration, in order."""
    edges = [
        np.diff([0, *inner.tolist(), len(p)]) for inner, p in zip(found.boundaries, found.boundary_probs, strict=True)
    ]
    return np.concatenate(edges).astype(np.int64)


def _bin_edges(durations: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns edges at whole steps; the last bin takes the longest hundredth of segments, lest it squeezes others."""
    longest = max(int(np.quantile(durations, 0.99)), 2)
    width = -(-longest // _MAX_BINS)
    return np.arange(1, longest + width + 1, width)


def _bins_in_words(edges: NDArray[np.int64], durations: NDArray[np.int64]) -> str:
    last = int(edges[-1]) - 1
    return f"lengths, 1 to {last}{' or more' if durations.max() > last else ''}"


def _histogram(mine: NDArray[np.int64], edges: NDArray[np.int64], tallest: int, skill: int) -> str:
    heights = np.histogram(np.minimum(mine, edges[-1] - 1), edges)[0]
    bars = [
        tag("rect", x=i + 0.1, y=1 - float(n) / tallest, width=0.8, height=float(n) / tallest)
        for i, n in enumerate(heights.tolist())
        if n
    ]
    label = f"Lengths of the segments of skill {skill}: from {mine.min()} to {mine.max()} steps"
    return stretched(len(heights), 1, *bars, label=label, class_=f"histogram k{skill}")


def _share_bar(steps: int, most: int, total: int) -> str:
    bar = tag("span", class_="bar", style=f"--share:{steps / most:.3f}")
    return tag("div", bar, tag("span", per_cent(steps / total)), class_="share")


def _mostly(steps: Int[np.ndarray, " tasks"], look: Look) -> str:
    best = int(steps.argmax())
    return task_label(look, best) + tag("span", text(per_cent(steps[best] / steps.sum(), 0)), class_="aside")


def _unused(used: NDArray[np.int64]) -> str:
    idle = np.flatnonzero(used == 0).tolist()
    if not idle:
        return f"All {len(used)} skills are used."
    never = f"; never {', '.join(map(str, idle))}" if len(idle) <= 12 else ""
    return f"{len(used) - len(idle)} of {len(used)} skills are used{never}."
