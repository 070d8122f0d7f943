"""Draws curves of training, counts of segments, and tables of how skills are used and which tasks they serve."""

from collections.abc import Callable, Mapping, Sequence
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
MAX_BARS, MAX_BINS, MAX_COLUMNS = 24, 24, 24
"""Most bars of the chart of counts, bins of a histogram, and columns of a heat map."""
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
    """Draws a chart for each quantity of which the log holds at least two values; empty where there is none."""
    charts = []
    for name, heading in QUANTITIES.items():
        pairs = [(row["iteration"], row[name]) for row in history if row.get(name) is not None]
        if len(pairs) > 1:
            charts.append(_draw_curve(heading, np.array(pairs, float), is_share=name == "boundary_accuracy"))
    if not charts:
        return ""
    note = f"{count(history[-1]['iteration'], 'iteration')} in {count(round(history[-1]['seconds']), 'second')}."
    return section("Training", note, tag("div", *charts, class_="curves"), level="h2")


def _draw_curve(heading: str, xy: NDArray[np.floating], *, is_share: bool) -> str:
    x, y = xy.T
    low, high = (0.0, 1.0) if is_share else (float(y.min()), float(y.max()))

    def show(value: float) -> str:
        if is_share:
            return per_cent(value)
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("-", "−")

    line = np.stack([x - x[0], (high - y) / ((high - low) or 1.0)], axis=1)
    curve = tag("polyline", points=points(line), class_="curve")
    label = f"{heading}: from {show(y[0])} to {show(y[-1])}"
    chart = drawing(float(x[-1] - x[0]) or 1.0, 1, curve, label=label, class_="plot", stretched=True)
    scale = tag("div", tag("span", show(high)), tag("span", show(low)), class_="scale")
    ends = tag("div", tag("span", f"{x[0]:,.0f}"), tag("span", f"{x[-1]:,.0f}"), class_="axis")
    title = tag("figcaption", heading, tag("b", show(y[-1])))
    return tag("figure", title, tag("div", scale, chart, class_="plot-row"), ends, class_="chart")


def chip(skill: int) -> str:
    """Draws the number of a skill on its color."""
    return tag("b", str(skill), class_=f"chip k{skill}")


def draw_usage(segments: Segments, demos: Demonstrations, num_skills: int, look: Look) -> str:
    """Draws a table with a row for each skill that is used, the most used first, and the task that it serves most."""
    served = _tasks_served(segments, demos, num_skills)
    skills = np.concatenate(segments.skills)
    inner = zip(segments.boundaries, demos.lengths.tolist(), strict=True)
    durations = np.concatenate([np.diff([0, *starts.tolist(), length]) for starts, length in inner])
    used = np.bincount(skills, minlength=num_skills)
    order = np.argsort(-used, kind="stable")[: np.count_nonzero(used)].tolist()
    # The last bin takes the longest hundredth of segments, which would otherwise leave little room to the others.
    longest = max(int(np.quantile(durations, 0.99)), 2)
    edges = _bin_edges(longest, MAX_BINS)
    last = int(edges[-1]) - 1
    bins = {k: np.histogram(np.minimum(durations[skills == k], last), edges)[0] for k in order}
    tallest = max(int(heights.max()) for heights in bins.values())
    most = max(int(durations[skills == k].sum()) for k in order)

    def cells(k: int) -> list[str]:
        mine = durations[skills == k]
        bar = tag("span", class_="bar", style=f"--share:{mine.sum() / most:.3f}")
        label = f"Lengths of the segments of skill {k}: from {mine.min()} to {mine.max()} steps"
        heights = enumerate((bins[k] / tallest).tolist())
        bars = [tag("rect", x=i + 0.1, y=1 - height, width=0.8, height=height) for i, height in heights if height]
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
            row.append(tag("td", task_label(look, best), tag("span", share, class_="aside")))
        return row

    lengths = f"lengths, 1 to {last}{' or more' if durations.max() > last else ''}"
    heads = ["skill", "used", "share of steps", "steps per segment", lengths]
    heads += [] if served is None else ["mostly for"]
    note = f"{len(order)} of {len(used)} skills are used."
    heading = "How skills are used"
    usage = section(heading, note, table(heading, "usage", heads, [(chip(k), cells(k)) for k in order]))
    return usage if served is None else usage + _draw_tasks_served(served, look)


def _bin_edges(largest: int, most: int) -> NDArray[np.integer]:
    """Returns the edges of at most so many bins of equal whole width for the numbers from 1 to the largest."""
    width = -(-largest // most)
    return np.arange(1, largest + width + 1, width)


def _tasks_served(segments: Segments, demos: Demonstrations, num_skills: int) -> Int[np.ndarray, "skills tasks"] | None:
    """Counts the steps of each skill in each true task; None where the true tasks are unknown."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return None
    tasks = np.concatenate(step_labels(truth.boundaries, truth.codes, demos.lengths))
    served = np.zeros((num_skills, int(tasks.max()) + 1), np.int64)
    np.add.at(served, (np.concatenate(segments.labels), tasks), 1)
    return served


def _draw_tasks_served(served: Int[np.ndarray, "skills tasks"], look: Look) -> str:
    """Draws the shares of each skill's steps by true task; rows are in the order of the tasks that they serve most."""
    order = np.lexsort((-served.max(axis=1), served.argmax(axis=1))).tolist()
    note = "Share of each skill’s steps that lie in a true segment of that task."
    heading = "Which skill serves which task"
    return section(heading, *_heat_map(heading, note, "skill", served, order, lambda task: task_label(look, task)))


def draw_counts(segments: Segments, demos: Demonstrations) -> str:
    """Draws how many demonstrations have 1, 2, ... segments, chosen and true; empty where the number was given."""
    sure = np.array([probs.max() for probs in segments.count_probs])
    if sure.min() > GIVEN:
        return ""
    note = "The number of segments was not given. "
    note += f"Mean probability of the most probable number: {per_cent(float(sure.mean()))}."
    counts = {"inferred": segments.num_segments}
    if demos.truth.num_segments is not None:
        counts["true"] = demos.truth.num_segments
        right = float(np.mean(counts["inferred"] == counts["true"]))
        note += f" The number is right in {per_cent(right)} of demonstrations."
    edges = _bin_edges(max(int(values.max()) for values in counts.values()), MAX_BARS)
    heights = {kind: np.histogram(values, edges)[0].tolist() for kind, values in counts.items()}
    most = max(map(max, heights.values()))
    columns = []
    for i, first in enumerate(edges[:-1].tolist()):
        name = "–".join(str(n) for n in dict.fromkeys((first, int(edges[i + 1]) - 1)))
        bars = [
            tag(
                "div",
                tag("span", f"{nums[i]:,}") if nums[i] else "",
                class_=f"bar {kind}",
                style=f"height:{number(100 * nums[i] / most)}%",
                title=f"{count(nums[i], 'demonstration')} with {name} segments ({kind})",
            )
            for kind, nums in heights.items()
        ]
        columns.append(tag("div", tag("div", *bars, class_="pair"), tag("span", name), class_="column"))
    legend = tag("p", *(tag("i", class_=f"key {kind}") + kind for kind in counts), class_="legend")
    return section("How many segments", note, legend, tag("div", *columns, class_="counts"))


def draw_followers(segments: Segments, num_skills: int) -> str:
    """Draws a heat map of the skills that come after each skill."""
    follows = np.zeros((num_skills, num_skills), np.int64)
    for skills in segments.skills:
        np.add.at(follows, (skills[:-1], skills[1:]), 1)
    if not follows.any():
        return ""
    heading = "Which skill follows which"
    note = "How often the skill of a row is followed by that of a column, of all that follow it."
    note, body = _heat_map(heading, note, "after skill", follows, list(range(num_skills)), chip)
    return tag("details", tag("summary", heading), tag("p", note, class_="note"), body)


def _heat_map(
    heading: str,
    note: str,
    corner: str,
    counts: Int[np.ndarray, "skills columns"],
    order: list[int],
    draw_head: Callable[[int], str],
) -> tuple[str, str]:
    """Returns the note and a map of each skill's shares; only the most common columns, and no numbers below 0.5 %."""

    def cell(share: float) -> str:
        words = per_cent(share, 0).replace(f"{NO_BREAK}%", "") if share >= 0.005 else ""
        return tag("td", words, class_="cell strong" if share > 0.5 else "cell", style=f"--share:{share:.3f}")

    totals = counts.sum(axis=0)
    num_columns = np.count_nonzero(totals)
    columns = np.sort(np.argsort(-totals, kind="stable")[: min(num_columns, MAX_COLUMNS)]).tolist()
    if num_columns > MAX_COLUMNS:
        note += f" Only the {MAX_COLUMNS} most common columns are drawn."
    rows = [(chip(k), [cell(counts[k, c] / counts[k].sum()) for c in columns]) for k in order if counts[k].any()]
    return note, table(heading, "heat", [corner, *map(draw_head, columns)], rows)
