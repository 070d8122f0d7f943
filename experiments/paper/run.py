"""Runs what is left of a study, counts the time of each part, and writes `results/NAME.json`."""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compile_il.data.files import check_target, write_atomically
from compile_il.evaluation.results import write_result
from compile_il.training.runs import lock_folder
from experiments.paper.parts import Say, Scale, read_done, run_part
from experiments.paper.studies import Study, StudyName

SECONDS_FILE = "seconds.json"


def reproduce(study: Study, scale: Scale, *, work: Path, out: Path, say: Say, so_far: bool = False) -> dict[str, Any]:
    """Runs the parts of a study that are not done, writes its result file, and returns what it holds.

    Args:
      study: a table or a figure, with its parts.
      scale: the scale of the parts, which names their folders and is recorded.
      work: a folder for checkpoints and results of parts; what is done there is not done again.
      out: the result file.
      say: function that prints a line about the progress.
      so_far: run nothing, and leave out what is not done yet.
    """
    parts: dict[str, dict[str, Any]] = {}
    for part in study.parts:
        folder = part_folder(work, scale, study.name, part.name)
        is_done = read_done(folder, part) is not None
        if so_far and not is_done:
            continue
        with contextlib.nullcontext() if is_done else counted(folder):
            done = run_part(part, folder, say, trained=trained_folder(work, scale))
        share, clock = seconds_had(folder)
        parts[part.name] = done | {"wall_time": round(share, 2), "clock_time": round(clock, 2)}
    if not parts:
        raise ValueError(f"Nothing of {study.name} is done in {work}, at scale {scale}: run it without --so-far.")
    if lost := sorted(_read(out)["figures"].keys() - parts.keys()):
        raise ValueError(
            f"{out} has parts of {study.name} that are not done in {work}: {'; '.join(lost)}. Give another folder "
            "(--results), or move it away."
        )
    left = [part.name for part in study.parts if part.name not in parts]
    settings = {name: done.pop("part") for name, done in parts.items()}
    write_result(
        out,
        config={"study": study.name, "scale": scale, "parts": settings} | ({"not_run": left} if left else {}),
        seeds=list(range(study.num_seeds)),
        wall_time=sum(done["wall_time"] for done in parts.values()),
        figures=parts,
        made=made_by(list(parts.values())),
    )
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def made_by(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns commit and hardware of parts that may have been run before and elsewhere; several, where they differ."""
    commits = dict.fromkeys(commit for part in parts for commit in [*part.get("trained_by", []), part["commit"]])
    machines = [json.loads(one) for one in dict.fromkeys(json.dumps(part["hardware"]) for part in parts)]
    return {"commit": ", ".join(commits), "hardware": machines[0] if len(machines) == 1 else machines}


def check_result(out: Path, study: Study, scale: Scale) -> None:
    """Raises an error if the result of a study cannot be written, before the work is done."""
    there, remedy = _read(out), "Give another folder (--results), or move it away."
    if there["config"].get("scale", scale) != scale:
        raise ValueError(f"{out} has results of scale {there['config']['scale']}, not {scale}. {remedy}")
    if unknown := sorted(there["figures"].keys() - {part.name for part in study.parts}):
        raise ValueError(f"{out} has parts that are unknown to {study.name}: {'; '.join(unknown)}. {remedy}")
    _make_folder(out.parent, "--results")
    check_target(out, overwrite=True)


def _read(out: Path) -> dict[str, dict[str, Any]]:
    """Returns config and figures of a result file; both empty if there is no file that can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        result = json.loads(out.read_text())
        return {"config": dict(result["config"]), "figures": dict(result["figures"])}
    return {"config": {}, "figures": {}}


@contextlib.contextmanager
def alone_at_work(work: Path, scale: Scale) -> Iterator[None]:
    """Keeps other commands from the parts of a scale inside the block."""
    folder = work / scale
    _make_folder(folder, "--work")
    busy = ValueError(f"Another command works in {folder}: wait until it ends, or name another folder (--work).")
    with lock_folder(folder, busy):
        yield


def _make_folder(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"There can be no folder {folder} ({error.strerror}): name another one ({option}).") from error


def part_folder(work: Path, scale: Scale, study: StudyName, part: str) -> Path:
    """Returns the folder of one part; hyphens stand for what some file systems do not take."""
    return work / scale / study / re.sub(r"[^A-Za-z0-9.]+", "-", part)


def trained_folder(work: Path, scale: Scale) -> Path:
    """Returns the folder for the checkpoints of all parts of a scale, some of which need the same models."""
    return work / scale / "trained"


def seconds_had(folder: Path) -> tuple[float, float]:
    """Returns the recorded seconds of a part over all its runs: its share of the machine's time, and by the clock.

    The shares of parts that run at the same time add up to the time that the machine was in use.
    """
    path = folder / SECONDS_FILE
    if not path.exists():
        return 0.0, 0.0
    try:
        seconds = json.loads(path.read_text())
        return float(seconds["share"]), float(seconds["by_the_clock"])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{path} does not hold the time that the part took: it is damaged. Delete it to go on; the time until now "
            "will be missing from the part's wall time. Or delete its folder, to run the part anew."
        ) from error


def add_seconds(folder: Path, share: float, clock: float) -> None:
    """Adds a stretch of time to the record of a part."""
    folder.mkdir(parents=True, exist_ok=True)
    before = seconds_had(folder)
    with write_atomically(folder / SECONDS_FILE) as temporary:
        temporary.write_text(json.dumps({"share": before[0] + share, "by_the_clock": before[1] + clock}))


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Counts the time of the block for a part that has the machine to itself; what is killed is not counted."""
    seconds_had(folder)  # which complains before the work, not after it
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        add_seconds(folder, seconds, seconds)
