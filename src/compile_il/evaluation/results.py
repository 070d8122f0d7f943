"""Writes and reads result files: scores with all that is needed to measure them again, and how tables show them."""

import contextlib
import functools
import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax

from compile_il.data.files import write_atomically
from compile_il.evaluation.metrics import summarise

RESULTS = Path("results")
UNKNOWN_COMMIT = "unknown"


def hardware() -> dict[str, Any]:
    """Describes the machine and the versions of JAX and Python."""
    device, processor = jax.devices()[0], platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        if model := re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()):
            processor = model[1]
    return {
        "platform": device.platform,
        "device": device.device_kind if device.platform != "cpu" else processor,
        "num_devices": jax.device_count(),
        "num_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


@functools.cache
def commit() -> str:
    """Returns the commit of the code when this was first asked, marked where files had been changed since.

    On a machine that got a copy of the files without their repository, the variable COMPILE_IL_COMMIT gives it.
    """
    return os.environ.get("COMPILE_IL_COMMIT") or commit_of(Path(__file__).resolve().parents[3])


def commit_of(checkout: Path) -> str:
    """Returns the commit of a checkout, or `UNKNOWN_COMMIT` for an installed package, whatever repository is around."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    # In a hook, variables of git name the repository of the hook instead.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    if not (checkout / ".git").exists():
        return UNKNOWN_COMMIT
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_COMMIT


class Measurement:
    """Result file in the making: the commit that it began with, and the time since then."""

    def __init__(self) -> None:
        commit()  # of the code that runs, whatever happens to the files meanwhile
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def write(self, path: Path, *, config: Any, seeds: Iterable[int], figures: Any) -> None:
        """Writes the figures so far; several times, for what takes long."""
        write_result(path, config=config, seeds=list(seeds), wall_time=self.seconds, figures=figures)


def write_result(
    path: Path, *, config: Any, seeds: list[int], wall_time: float, figures: Any, made: dict[str, Any] | None = None
) -> None:
    """Writes figures with their config, commit, seeds, hardware and wall time in seconds.

    With `made`, commit and hardware are those in it, of other processes, instead of this one's. A file that holds the
    same is left as it is, with the time at which it was finished.
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
    with contextlib.suppress(OSError, ValueError, TypeError):
        if json.loads(path.read_text()) | {"finished": ""} == json.loads(json.dumps(result)) | {"finished": ""}:
            return
    # Each list of plain numbers takes one line; strings in JSON have no line breaks, and stay as they are.
    indented = json.dumps(result, indent=2)
    text = re.sub(r'\[\n([^][{}"]*)\]', lambda numbers: f"[{' '.join(numbers[1].split())}]", indented)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n")


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
"""Headings of tables, in order, with the fields of `Evaluation` below them."""
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
    """Writes mean and standard deviation over seeds, in per cent, with the number of scores if some seeds have none."""
    scores = [100 * value for value in values if value is not None]
    if not scores:
        return "-"
    summary = summarise(scores)
    deviation = "" if math.isnan(summary.std) else f" ± {summary.std:.1f}"
    left = "" if len(scores) == len(values) else f" ({len(scores)} of {len(values)} seeds)"
    return f"{summary.mean:.1f}{deviation}{left}"


def interval(values: Sequence[float | None]) -> str:
    """Writes the 95 % interval of the mean over seeds, in per cent; a dash for fewer than two scores."""
    scores = [100 * value for value in values if value is not None]
    if len(scores) < 2:
        return "-"
    summary = summarise(scores)
    return f"{summary.low:.1f} to {summary.high:.1f}"
