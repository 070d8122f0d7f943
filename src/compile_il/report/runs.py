"""Splits demonstrations into runs of steps, chooses which to show and how, and names their actions and tasks."""

import itertools
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.data import Demonstrations
from compile_il.data.segments import Segments
from compile_il.report.markup import NO_BREAK, tag, text
from compile_il.worlds.drawing import COLORS, GLYPHS
from compile_il.worlds.grid import ACTION_NAMES, OBJECT_NAMES
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_NAMES

NUM_SHOWN = 8
MOST_WRONG, MOST_UNSURE = 3, 2
"""Numbers of demonstrations, of those shown, with the most wrong boundaries and of the least certain ones."""
MAX_COLUMNS = 160
"""Most columns of a drawing along time; longer demonstrations are drawn with several steps per column."""
NUM_SAMPLED_FRAMES = 64
"""About how many frames of a set decide how it is drawn."""

Look = Literal["maze", "image", "arm", "lines", "strip"]
"""Kind of drawing that suits a demonstration."""


class Run(NamedTuple):
    """Steps from `start` up to, not including, `end` that share a code: a skill, or a true task (-1 if unknown)."""

    start: int
    end: int
    code: int


def segment_runs(segments: Segments, index: int) -> list[Run]:
    """Returns the segments of one demonstration."""
    return _runs(segments.boundaries[index], len(segments.boundary_probs[index]), segments.skills[index].tolist())


def true_runs(demos: Demonstrations, index: int) -> list[Run] | None:
    """Returns the true segments of one demonstration; None if they are unknown."""
    truth = demos.truth
    if truth.boundaries is None:
        return None
    inner = truth.boundaries[index]
    codes = [-1] * (len(inner) + 1) if truth.codes is None else truth.codes[index].tolist()
    return _runs(inner, int(demos.lengths[index]), codes)


def _runs(inner: NDArray[np.integer], length: int, codes: list[int]) -> list[Run]:
    edges = itertools.pairwise([0, *inner.tolist(), length])
    return [Run(start, end, code) for (start, end), code in zip(edges, codes, strict=True)]


def certainty(segments: Segments, index: int) -> float:
    """Returns 1 - max_t |p_t - c_t|, the weakest step's, for boundaries with probability p and c = 1 where chosen."""
    chosen = np.zeros(len(segments.boundary_probs[index]))
    chosen[segments.boundaries[index]] = 1
    return float(np.clip(1 - np.abs(segments.boundary_probs[index] - chosen).max(initial=0), 0, 1))


def num_misplaced(segments: Segments, demos: Demonstrations, index: int) -> int:
    """Counts boundaries that are chosen and not true, or true and not chosen; 0 if the truth is unknown."""
    if demos.truth.boundaries is None:
        return 0
    return len(np.setxor1d(segments.boundaries[index], demos.truth.boundaries[index]))


def choose(segments: Segments, demos: Demonstrations) -> dict[int, str]:
    """Chooses the worst, the least certain of those without a wrong boundary, and others spread evenly.

    Returns why each was chosen, by its index; empty for others without a wrong boundary.
    """
    wrong = np.array([num_misplaced(segments, demos, i) for i in range(len(demos))])
    sure = np.array([certainty(segments, i) for i in range(len(demos))])
    order = np.lexsort((sure, -wrong))
    bad, good = order[wrong[order] > 0].tolist(), order[wrong[order] == 0].tolist()
    chosen = dict.fromkeys(bad[:MOST_WRONG], "wrong")
    chosen |= dict.fromkeys(good[: min(MOST_UNSURE, len(demos) - 1)], "least certain")
    rest = np.setdiff1d(order, list(chosen))
    places = np.linspace(0, len(rest) - 1, min(NUM_SHOWN - len(chosen), len(rest))).astype(int)
    return {i: "wrong" if wrong[i] else "" for i in rest[places].tolist()} | chosen


def column_edges(length: int) -> NDArray[np.int64]:
    """Returns the steps at which columns of a drawing along time begin and end: one per step, or `MAX_COLUMNS`."""
    return np.unique(np.linspace(0, length, min(length, MAX_COLUMNS) + 1).round().astype(np.int64))


def few_runs(runs: list[Run]) -> list[Run]:
    """Returns the same runs or, where they are finer than can be seen, one per column, with the code of most steps."""
    if len(runs) <= MAX_COLUMNS:
        return runs
    codes = np.repeat([run.code for run in runs], [run.end - run.start for run in runs])
    columns = []
    for start, end in itertools.pairwise(column_edges(len(codes)).tolist()):
        values, counts = np.unique(codes[start:end], return_counts=True)
        columns.append(Run(start, end, int(values[counts.argmax()])))
    return columns


def look_of(demos: Demonstrations) -> Look:
    """Returns how to draw a set: our mazes and arms as such, other grids as images, vectors as lines, else strips."""
    frames = demos.storage.observations.values
    frames = frames[:: max(1, len(frames) // NUM_SAMPLED_FRAMES)]
    if demos.observation_kind == "grid":
        return "maze" if _is_maze(frames) else "image"
    if demos.observation_kind == "symbol" or (demos.observation_shape == (0,) and demos.action_kind == "discrete"):
        return "strip"
    return "arm" if demos.action_dim == 2 and _is_arm(frames) else "lines"


def _is_maze(frames: NDArray[np.generic]) -> bool:
    """Returns whether frames are zeros and ones with one player in the last channel, as in our grid worlds."""
    if frames.shape[-1] < 3 or frames.dtype != np.uint8 or frames.max() > 1:
        return False
    return bool((frames[..., -1].sum(axis=(1, 2)) == 1).all())


def _is_arm(frames: NDArray[np.floating]) -> bool:
    """Returns whether frames hold targets in reach, each with a flag of 0 or 1, then two angles, as in our reacher."""
    if frames.shape[1] < 5 or frames.shape[1] % 3 != 2:
        return False
    targets = frames[:, :-2].reshape(len(frames), -1, 3)
    reachable = np.linalg.norm(targets[..., 1:], axis=-1) <= 2 * LINK_LENGTH
    return bool(np.isin(targets[..., 0], (0, 1)).all() and reachable.all())


def action_name(demos: Demonstrations, look: Look, action: NDArray[np.generic] | np.generic) -> str:
    """Returns the action of one step as a word, a number, or the first numbers of a vector."""
    if demos.num_actions is None:
        values = [f"{value:.2f}" for value in np.asarray(action).tolist()]
        return f"({', '.join(values[:4])}{', …' if len(values) > 4 else ''})"
    return ACTION_NAMES[int(action)] if look == "maze" and demos.num_actions in (4, 8) else str(int(action))


def task_label(look: Look, code: int) -> str:
    """Draws the picture, if there is one, and the name of the true task with this code; nothing if it is unknown."""
    if code < 0:
        return ""
    names, icon = {"maze": OBJECT_NAMES, "arm": TARGET_NAMES}.get(look, ()), ""
    if names:
        shape = glyph(code) if look == "maze" else tag("circle", r=0.8, fill=COLORS[code % len(COLORS)])
        icon = tag("svg", shape, view_box="-1.1 -1.1 2.2 2.2", class_="icon", aria_hidden="true")
    return icon + tag("span", text(names[code] if code < len(names) else f"type{NO_BREAK}{code}"))


def glyph(kind: int) -> str:
    """Draws an object of the maze, from -1 to 1; its shape is defined once for a page, by `glyph_shapes`."""
    # Beyond ten types shapes return, in other colors, as in `worlds.drawing`.
    color = COLORS[(kind + 3 * (kind // len(GLYPHS))) % len(COLORS)]
    return tag("use", href=f"#glyph{kind % len(GLYPHS)}", fill=color)


def glyph_shapes() -> str:
    """Defines the shapes that `glyph` draws, with y downwards; a page needs them once."""
    shapes = []
    for kind, outlines in enumerate(GLYPHS):
        paths = [f"M{'L'.join(f'{x:.2f} {-y:.2f}' for x, y in outline)}Z" for outline in outlines]
        shapes.append(tag("path", id=f"glyph{kind}", d="".join(paths)))
    return tag("svg", tag("defs", *shapes), class_="shapes", aria_hidden="true", width=0, height=0)
