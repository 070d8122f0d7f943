"""Result files: what was measured, with everything needed to measure it again.

Headings of scores in tables, and how the scores of several seeds are written.
"""

import contextlib
import functools
import json
import math
import os
import platform
import re
import subprocess
import time
import tomllib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from compile_il.data.files import write_atomically
from compile_il.evaluation.metrics import summarise

RESULTS = Path("results")


UNKNOWN_COMMIT = "unknown"


ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Variables that send git to another repository than that of the folder it is given."""


def hardware() -> dict[str, Any]:
    """Describes the machine and the versions of JAX and Python, as far as they can be told."""
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device": device.device_kind if device.platform != "cpu" else _processor(),
        "num_devices": jax.device_count(),
        "num_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@functools.cache
def commit() -> str:
    """The commit the code came from, with a mark where files had been changed since when this was first asked.

    Where there is no repository to ask, such as on a machine that got a copy of the files, the variable
    COMPILE_IL_COMMIT says it.
    """
    return os.environ.get("COMPILE_IL_COMMIT") or commit_of(Path(__file__).resolve().parent)


def commit_of(package: Path) -> str:
    """The commit of the repository whose sources a package is, and not of another one that it is installed inside."""
    top = package.parent.parent
    if not (package == top / "src" / "compile_il" and (top / ".git").exists() and _is_ours(top / "pyproject.toml")):
        return UNKNOWN_COMMIT
    command = ["git", "-C", str(top), "describe", "--always", "--dirty", "--abbrev=12"]
    # A hook of another repository, for one, says with variables that all is about that one.
    environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_COMMIT


def _is_ours(pyproject: Path) -> bool:
    try:
        found = tomllib.loads(pyproject.read_text())
    except (OSError, ValueError):
        return False
    return found.get("project", {}).get("name") == "compile-il"


class Measurement:
    """What is being measured, from its beginning on: by which version of the program, and how long it has taken."""

    def __init__(self) -> None:
        commit()  # of the code that runs, whatever happens to the files meanwhile
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def write(self, path: Path, *, config: Any, seeds: Iterable[int], figures: Any) -> None:
        """Writes what has been found so far; several times, for what takes long."""
        write_result(path, config=config, seeds=list(seeds), wall_time=self.seconds, figures=figures)


def write_result(
    path: Path, *, config: Any, seeds: list[int], wall_time: float, figures: Any, made: dict[str, Any] | None = None
) -> None:
    """Writes figures with their config, commit, seeds, hardware and wall time in seconds.

    With `made`, commit and hardware are those in it, of other processes, instead of this one's.
    """
    made = made or {"commit": commit(), "hardware": hardware()}
    result = {
        "config": config,
        "commit": made["commit"],
        "seeds": seeds,
        "hardware": made["hardware"],
        "wall_time": round(wall_time, 2),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": figures,
    }
    before = _read(path)
    if before == json.loads(json.dumps(result)) | {"finished": before.get("finished")}:
        return  # what was there is the same, and was finished before
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as temporary:
        temporary.write_text(_in_few_lines(json.dumps(result, indent=2)) + "\n")


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _in_few_lines(text: str) -> str:
    """Indented JSON with each list of plain numbers in one line; strings have no line breaks, and stay as they are."""
    return re.sub(r'\[\n([^][{}"]*)\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", text)


def read_result(name: str) -> dict[str, Any]:
    """Reads one file of results, as `write_result` wrote it."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


SCORE_HEADINGS = {
    "boundaries": "boundary_accuracy",
    "F1": "f1",
    "F1, 1 step off": "f1_tolerance_1",
    "number right": "count_accuracy",
    "reconstruction": "reconstruction",
    "exact match": "exact_match",
    "online": "online",
}
"""Headings of tables, in order, with the fields of `Evaluation` that stand below them."""


LABEL_HEADINGS = {
    "skills agree": "agreement",
    "agree by chance": "agreement_by_chance",
    "mutual information": "nmi",
    "information by chance": "nmi_by_chance",
    "mean IoU": "mean_iou",
    "segmental F1, overlap 50 %": "segmental_f1_50",
}
"""Headings, with fields of `Evaluation`, for how well skills agree with the things that tasks are about."""


def spread(values: Sequence[float | None]) -> str:
    """Writes mean and standard deviation over seeds, in per cent; a dash where there is no such score.

    Seeds that diverged have no score; where there are some, it is said how many are left.
    """
    given = [100 * value for value in values if value is not None]
    if not given:
        return "-"
    summary = summarise(given)
    deviation = "" if math.isnan(summary.std) else f" ± {summary.std:.1f}"
    left = "" if len(given) == len(values) else f" ({len(given)} of {len(values)} seeds)"
    return f"{summary.mean:.1f}{deviation}{left}"


def interval(values: Sequence[float | None]) -> str:
    """Writes the 95 % interval of the mean over seeds, in per cent; a dash for fewer than two scores."""
    given = [100 * value for value in values if value is not None]
    if len(given) < 2:
        return "-"
    summary = summarise(given)
    return f"{summary.low:.1f} to {summary.high:.1f}"
