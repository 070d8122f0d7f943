"""Names of things on the page: the worlds of this package are known by what is observed, others get numbers."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from compile_il.demos import Demonstrations
from compile_il.report.markup import tag, text
from compile_il.worlds.glyphs import COLORS, GLYPHS
from compile_il.worlds.grid import ACTION_NAMES, OBJECT_NAMES
from compile_il.worlds.reacher import LINK_LENGTH, TARGET_NAMES

Look = Literal["maze", "image", "arm", "lines", "strip"]
"""Kind of drawing that suits a demonstration."""
_NUM_LOOKED_AT = 64
"""About how many frames of a set are looked at to decide how it is drawn."""


def look_of(demos: Demonstrations) -> Look:
    """Returns how to draw a set: our mazes and arms as such, other grids as images, vectors as lines, else strips."""
    values = demos.storage.observations.values
    frames = values[:: max(1, len(values) // _NUM_LOOKED_AT)]
    if demos.observation_kind == "grid":
        return "maze" if _is_maze(frames) else "image"
    if demos.observation_kind == "symbol":
        return "strip"
    if demos.observation_shape == (0,):
        return "strip" if demos.action_kind == "discrete" else "lines"
    return "arm" if demos.action_dim == 2 and _is_arm(frames) else "lines"


def _is_maze(frames: NDArray[np.generic]) -> bool:
    """Whether frames are zeros and ones with one player in the last channel, as those of our grid worlds."""
    if frames.shape[-1] < 3 or frames.dtype != np.uint8 or frames.max() > 1:
        return False
    return bool((frames[..., -1].sum(axis=(1, 2)) == 1).all())


def _is_arm(frames: NDArray[np.floating]) -> bool:
    """Whether frames are targets within reach, each with a flag of 0 or 1, then two angles, as those of our reacher."""
    width = frames.shape[1]
    if width < 5 or (width - 2) % 3:
        return False
    targets = frames[:, :-2].reshape(len(frames), -1, 3)
    flags, places = targets[..., 0], targets[..., 1:]
    return bool(np.isin(flags, (0, 1)).all() and (np.linalg.norm(places, axis=-1) <= 2 * LINK_LENGTH).all())


def action_name(demos: Demonstrations, look: Look, action: NDArray[np.generic] | np.generic) -> str:
    """Returns the action of one step as a word, a number, or the first numbers of a vector."""
    if demos.num_actions is None:
        values = [f"{value:.2f}" for value in np.asarray(action).tolist()]
        return f"({', '.join(values[:4])}{', …' if len(values) > 4 else ''})"
    if look == "maze" and demos.num_actions in (4, 8):
        return ACTION_NAMES[int(action)]
    return str(int(action))


def task_name(look: Look, code: int) -> str:
    """Returns the name of the true task with this code."""
    if look == "maze" and 0 <= code < len(OBJECT_NAMES):
        return OBJECT_NAMES[code]
    if look == "arm" and 0 <= code < len(TARGET_NAMES):
        return TARGET_NAMES[code]
    return f"type{chr(160)}{code}"


def task_icon(look: Look, code: int) -> str:
    """Returns a small picture of the true task with this code; empty where there is none."""
    if look == "maze" and code >= 0:
        return tag("svg", glyph(code), view_box="-1.1 -1.1 2.2 2.2", class_="icon", aria_hidden="true")
    if look == "arm" and code >= 0:
        dot = tag("circle", r=0.8, fill=COLORS[code % len(COLORS)])
        return tag("svg", dot, view_box="-1.1 -1.1 2.2 2.2", class_="icon", aria_hidden="true")
    return ""


def task_label(look: Look, code: int) -> str:
    """Returns the picture and the name of a true task."""
    return task_icon(look, code) + text(task_name(look, code))


def glyph(kind: int, **attributes: object) -> str:
    """Draws an object of the maze, from -1 to 1; its shape is defined once for a page, by `glyph_shapes`."""
    # Beyond ten types shapes return, in other colours, as in `worlds.draw`.
    color = COLORS[(kind + 3 * (kind // len(GLYPHS))) % len(COLORS)]
    return tag("use", href=f"#glyph{kind % len(GLYPHS)}", fill=color, **attributes)


def glyph_shapes() -> str:
    """Defines the shapes that `glyph` draws; a page needs them once."""
    shapes = [tag("path", id=f"glyph{kind}", d=_outline(kind)) for kind in range(len(GLYPHS))]
    return tag("svg", tag("defs", *shapes), class_="shapes", aria_hidden="true", width=0, height=0)


def _outline(kind: int) -> str:
    """Returns a glyph as an SVG path, with y downwards."""
    words = []
    for vertices, code in GLYPHS[kind].iter_segments(curves=False, simplify=False):
        x, y = (f"{value:.2f}" for value in (vertices[0], -vertices[1]))
        words.append("Z" if code == 79 else f"{'M' if code == 1 else 'L'}{x} {y}")
    return "".join(words)
