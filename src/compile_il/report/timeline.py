"""A demonstration along time: probabilities of boundaries, the skills found, the true tasks below.

Marks are drawn in SVG that stretches with the page; numbers and names are HTML on top of it, so that they never do.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.data import Demonstration, Demonstrations
from compile_il.report.markup import count, per_cent, stretched, styled, tag, text, tooltip
from compile_il.report.runs import MAX_COLUMNS, Look, Run, action_name, column_edges, few_runs, task_icon, task_name

_NARROW_PIXELS, _WIDE_PIXELS = 300, 760
"""Pixels along a timeline on a phone or in one of two columns, and in a card that takes the whole width."""


class Track(NamedTuple):
    """All that a timeline shows of one demonstration: segments found, P(boundary) at each step, the truth if known."""

    demo: Demonstration
    runs: list[Run]
    probs: NDArray[np.floating]
    truth: list[Run] | None


def draw_timeline(track: Track, demos: Demonstrations, look: Look) -> str:
    """Draws up to three rows over one axis of time, which answer to the pointer, step by step."""
    length, stray = len(track.demo), _stray_starts(track)
    rows = [
        tag("div", "boundary probability", class_="row-name"),
        tag("div", _probabilities(track), class_="row probs"),
        tag("div", "skills found", class_="row-name"),
        tag("div", *(_skill_band(run, length, stray) for run in few_runs(track.runs, length)), class_="row found"),
    ]
    if track.truth is not None:
        bands = [_task_band(run, length, stray, look) for run in few_runs(track.truth, length)]
        rows += [tag("div", "true tasks", class_="row-name"), tag("div", *bands, class_="row true")]
    axis = tag("div", tag("span", "0"), tag("span", text(count(length, "step"))), class_="axis")
    return tag("div", *rows, axis, _hits(track, demos, look), class_="timeline")


def _stray_starts(track: Track) -> set[int]:
    """Returns the starts of segments that are found and not true, or true and not found."""
    if track.truth is None:
        return set()
    return {run.start for run in track.runs} ^ {run.start for run in track.truth}


def _probabilities(track: Track) -> str:
    """Draws a bar per column, as high as the highest probability in it, and thin lines at the chosen boundaries."""
    length = len(track.demo)
    edges = column_edges(length)
    highest = np.maximum.reduceat(track.probs, edges[:-1])
    bars = [
        # A bar begins at its step, which is where the segment would begin, and is never too thin to be seen.
        tag(
            "rect",
            x=float(start),
            y=1 - float(p),
            width=float(max(0.42 * (end - start), length / 400)),
            height=float(p),
        )
        for start, end, p in zip(edges[:-1].tolist(), edges[1:].tolist(), highest, strict=True)
        if p >= 0.004
    ]
    # Where there are more ticks than columns they would only make a grey area.
    ticked = track.runs[1:] if len(track.runs) <= MAX_COLUMNS else []
    ticks = [tag("line", x1=run.start, x2=run.start, y1=0, y2=1, class_="tick") for run in ticked]
    chosen = ", ".join(f"{run.start} ({per_cent(float(track.probs[run.start]), 0)})" for run in track.runs[1:13])
    label = f"Chosen boundaries: {chosen or 'none'}{' and more' if len(track.runs) > 13 else ''}"
    return stretched(length, 1, *ticks, *bars, label=label, class_="bars")


def _skill_band(run: Run, length: int, stray: set[int]) -> str:
    digits = str(run.code)
    tight, words = _fit(run, length, [(7 * len(digits) + 3, tag("b", digits))])
    return tag("div", words, class_=f"band k{run.code}{tight}{_mark(run, stray)}", style=_place(run, length))


def _task_band(run: Run, length: int, stray: set[int], look: Look) -> str:
    tight, words = "", ""
    if run.code >= 0:
        name, icon = task_name(look, run.code), task_icon(look, run.code)
        whole = (18 * bool(icon) + 6.5 * len(name), icon + tag("span", text(name)))
        tight, words = _fit(run, length, [whole, (14, icon)] if icon else [whole])
    return tag("div", words, class_=f"band{tight}{_mark(run, stray)}", style=_place(run, length))


def _fit(run: Run, length: int, choices: list[tuple[float, str]]) -> tuple[str, str]:
    """Returns a class for what fits wide cards only, and the first choice (width in pixels, markup) that has room."""
    share = (run.end - run.start) / length
    for tight, pixels in (("", _NARROW_PIXELS), (" tight", _WIDE_PIXELS)):
        for width, words in choices:
            if share * pixels >= width:
                return tight, words
    return "", ""


def _mark(run: Run, stray: set[int]) -> str:
    return " stray" if run.start in stray else ""


def _place(run: Run, length: int) -> str:
    return styled(left=100 * run.start / length, width=100 * (run.end - run.start) / length)


def _hits(track: Track, demos: Demonstrations, look: Look) -> str:
    """Draws invisible columns over all rows, with tooltips that say what happens in them."""
    length, edges = len(track.demo), column_edges(len(track.demo)).tolist()
    starts = np.array([run.start for run in track.runs])
    columns = []
    for start, end in itertools.pairwise(edges):
        run = track.runs[int(np.searchsorted(starts, start, side="right")) - 1]
        p = per_cent(float(track.probs[start:end].max()))
        if end - start == 1:
            action = action_name(demos, look, track.demo.actions[start])
            words = f"step {start} · action {action} · skill {run.code} · boundary {p}"
        else:
            words = f"steps {start} to {end - 1} · skill {run.code} · boundary up to {p}"
        columns.append(tag("rect", tooltip(words), x=start, width=end - start, height=1))
    return stretched(length, 1, *columns, label=None, class_="hits")
