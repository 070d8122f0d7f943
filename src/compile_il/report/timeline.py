"""Draws a demonstration along time: probabilities of boundaries, the skills of its segments, the true tasks below.

Marks are drawn in SVG that stretches with the page; numbers and names are HTML on top of it, so that they never do.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.report.markup import count, drawing, number, per_cent, tag, text
from compile_il.report.runs import (
    MAX_COLUMNS,
    Look,
    Run,
    action_name,
    column_edges,
    few_runs,
    segment_runs,
    task_icon,
    task_name,
    true_runs,
)

WIDTHS = {"": 300, " tight": 760}
"""Pixels along a timeline on a phone or in one of two columns, and, by the class of what fits there only, in a card
that takes the whole width."""


def draw_timeline(segments: Segments, demos: Demonstrations, index: int, look: Look) -> str:
    """Draws up to three rows over one axis of time, which answer to the pointer, step by step."""
    runs, truth, probs = segment_runs(segments, index), true_runs(demos, index), segments.boundary_probs[index]
    length = len(probs)
    # Starts of segments that are chosen and not true, or true and not chosen.
    stray = set() if truth is None else {run.start for run in runs} ^ {run.start for run in truth}

    def band(run: Run, color: str, choices: list[tuple[float, str]]) -> str:
        """Draws a run with the first of some choices, (width in pixels, markup), that has room."""
        left, share = run.start / length, (run.end - run.start) / length
        fits = ((tight, inner) for tight, wide in WIDTHS.items() for width, inner in choices if share * wide >= width)
        tight, inner = next(fits, ("", ""))
        classes = f"band{color}{tight}{' stray' if run.start in stray else ''}"
        return tag("div", inner, class_=classes, style=f"left:{number(100 * left)}%;width:{number(100 * share)}%")

    def skill_band(run: Run) -> str:
        return band(run, f" k{run.code}", [(7 * len(str(run.code)) + 3, tag("b", str(run.code)))])

    def task_band(run: Run) -> str:
        name, icon = task_name(look, run.code), task_icon(look, run.code)
        whole = (18 * bool(icon) + 6.5 * len(name), icon + tag("span", text(name)))
        return band(run, "", [] if run.code < 0 else [whole, (14, icon)] if icon else [whole])

    rows = [("boundary probability", "probs", _probabilities(runs, probs))]
    rows.append(("skills found", "found", "".join(map(skill_band, few_runs(runs)))))
    if truth is not None:
        rows.append(("true tasks", "true", "".join(map(task_band, few_runs(truth)))))
    named = [
        tag("div", name, class_="row-name") + tag("div", inner, class_=f"row {kind}") for name, kind, inner in rows
    ]
    axis = tag("div", tag("span", "0"), tag("span", text(count(length, "step"))), class_="axis")

    # Invisible columns over all rows say what happens in them.
    starts, actions, columns = [run.start for run in runs], demos[index].actions, []
    for start, end in itertools.pairwise(column_edges(length).tolist()):
        run = runs[int(np.searchsorted(starts, start, side="right")) - 1]
        p = per_cent(float(probs[start:end].max()))
        words = f"steps {start} to {end - 1} · skill {run.code} · boundary up to {p}"
        if end - start == 1:
            action = action_name(demos, look, actions[start])
            words = f"step {start} · action {action} · skill {run.code} · boundary {p}"
        columns.append(tag("rect", tag("title", text(words)), x=start, width=end - start, height=1))
    hits = drawing(length, 1, *columns, class_="hits", stretched=True)
    return tag("div", *named, axis, hits, class_="timeline")


def _probabilities(runs: list[Run], probs: NDArray[np.floating]) -> str:
    """Draws a bar per column, as high as the highest probability in it, and thin lines at the chosen boundaries."""
    length, edges = len(probs), column_edges(len(probs))
    highest = np.maximum.reduceat(probs, edges[:-1]).astype(float)
    columns = zip(edges[:-1].tolist(), np.diff(edges).tolist(), highest.tolist(), strict=True)
    bars = [
        # A bar begins at its step, which is where the segment would begin, and is never too thin to be seen.
        tag("rect", x=start, y=1 - p, width=max(0.42 * width, length / 400), height=p)
        for start, width, p in columns
        if p >= 0.004
    ]
    # Where there are more ticks than columns they would only make a grey area.
    ticked = runs[1:] if len(runs) <= MAX_COLUMNS else []
    ticks = [tag("line", x1=run.start, x2=run.start, y1=0, y2=1, class_="tick") for run in ticked]
    chosen = ", ".join(f"{run.start} ({per_cent(float(probs[run.start]), 0)})" for run in runs[1:13])
    label = f"Chosen boundaries: {chosen or 'none'}{' and more' if len(runs) > 13 else ''}"
    return drawing(length, 1, *ticks, *bars, label=label, class_="bars", stretched=True)
