"""Which drawings a study has, and how they become files that say what they were drawn from."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compile_il.files import replace_file
from compile_il.reproduce.agent_figures import draw_curves
from compile_il.reproduce.names import PictureFormat
from compile_il.reproduce.score_figures import draw_scores
from compile_il.reproduce.segment_figures import draw_segments
from compile_il.reproduce.skill_figures import draw_skills, draw_terminations

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAMELESS: dict[PictureFormat, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Creator": None, "Date": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
"""Metadata that files leave out, program and day, by format: pictures of the same numbers shall be the same bytes."""
SOURCE_KEYS: dict[PictureFormat, str] = {"png": "Source", "svg": "Source", "pdf": "Subject"}
"""Metadata key under which a file says what it was drawn from, by format."""


class Picture(NamedTuple):
    """Drawing to be made, with its name and caption."""

    name: str
    """Name of the file, without its ending."""
    caption: str
    draw: Callable[[], Figure]


def pictures_of(result: dict[str, Any]) -> list[Picture]:
    """Returns the drawings of a study, from what stands in its result file."""
    study = result["config"]["study"]
    if study == "figure5":
        caption = "Episodes in which all tasks are done, while agents learn: each seed, as it came and smoothed"
        return [Picture(study, caption, functools.partial(draw_curves, result))]
    if study.startswith("figure"):
        caption = "Each method on lists of three tasks and of five: dots are means, ticks are seeds"
        return [Picture(study, caption, functools.partial(draw_scores, result))]
    if study == "qualitative":
        return _portraits(result)
    return []


def _portraits(result: dict[str, Any]) -> list[Picture]:
    caption = (
        "How much each step of one unseen demonstration belongs to each segment, early in training and at its end; of "
        "CompILE first under q, then for one relaxed sample, as training sees it"
    )
    pictures = [Picture("qualitative-segments", caption, functools.partial(draw_segments, result))]
    for method, part in result["figures"].items():
        portrait = part["portrait"]
        if "skills" not in portrait:
            continue
        whose = "the exact engine" if method == "exact" else method
        at_work = (
            f"The skills of {whose} on one level, each until it stops. A red cross is on what was picked up; in bold "
            f"is the skill that the model infers from a demonstration of picking up the {portrait['task']}"
        )
        stops = f"Where the skills of {whose} stop, over {portrait['num_levels']:,} levels: the cell of the player"
        slug = re.sub(r"\W+", "-", method.lower())
        pictures += [
            Picture(f"qualitative-skills-{slug}", at_work, functools.partial(draw_skills, portrait)),
            Picture(f"qualitative-terminations-{slug}", stops, functools.partial(draw_terminations, portrait)),
        ]
    return pictures


def save_picture(picture: Picture, folder: Path, source: Path, form: PictureFormat = "png") -> Path:
    """Draws into `folder/NAME.png`, or another format, notes in it what it was drawn from, and returns its path."""
    import matplotlib as mpl

    target = folder / f"{picture.name}.{form}"
    metadata = {**NAMELESS[form], SOURCE_KEYS[form]: drawn_from(source)}
    # Names of an SVG file's parts are drawn at random, unless told from what.
    with replace_file(target) as temporary, mpl.rc_context({"svg.hashsalt": picture.name}):
        picture.draw().savefig(temporary, format=form, bbox_inches="tight", pad_inches=0.08, metadata=metadata)
    return target


def drawn_from(source: Path) -> str:
    """Returns the name of a result file and a digest of what is in it."""
    return f"{source.name} sha256 {hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
