"""Table of how often each skill is used, for how long, and for what."""

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from compile_il.demos import Demonstrations
from compile_il.report.heat import chip
from compile_il.report.markup import NO_BREAK, count, per_cent, scrolling, stretched, tag, text
from compile_il.report.names import Look, task_label
from compile_il.segments import Segments

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
