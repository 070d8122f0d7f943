"""Runs the parts of a study that are not done yet, and writes `results/NAME.json`."""

import re
from pathlib import Path
from typing import Any

from compile_il.reproduce.names import Scale
from compile_il.reproduce.parts import Say, run_part
from compile_il.reproduce.studies import Study
from compile_il.results import write_result


def reproduce(study: Study, scale: Scale, *, work: Path, out: Path, say: Say) -> dict[str, Any]:
    """Makes a table or a figure: what its parts found, by name.

    Args:
      study: which.
      scale: of the parts, for the record.
      work: a folder for what is under way; what is done there is not done again.
      out: the result file.
      say: is told how far it is.
    """
    found = {part.name: run_part(part, work / scale / study.name / slug(part.name), say) for part in study.parts}
    write_result(
        out,
        config={"study": study.name, "scale": scale, "parts": {name: done["part"] for name, done in found.items()}},
        seeds=list(range(study.parts[0].config.num_seeds)),
        wall_time=sum(done["wall_time"] for done in found.values()),
        figures={
            name: {key: done[key] for key in ("scores", "training_seconds", "wall_time", "hardware", "commit")}
            for name, done in found.items()
        },
    )
    return found


def slug(name: str) -> str:
    """A name that any file system takes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name)
