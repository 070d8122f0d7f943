"""Runs the parts of a study that are not done yet, and writes `results/NAME.json`."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compile_il.data.files import check_target
from compile_il.evaluation.results import write_result
from compile_il.training.runs import lock_folder
from experiments.paper.names import Scale, StudyName
from experiments.paper.parts import Say, all_commits, counted, is_done, run_part, seconds_had
from experiments.paper.studies import Study


class ScaleError(ValueError):
    """The result file is there already, and is of another scale."""


class PlaceError(ValueError):
    """A folder, or a file, that cannot take what would be written there; the message says what to do."""


class SoFarError(ValueError):
    """Only what is done so far was asked for, and that is nothing, or less than the result file already holds."""


def reproduce(study: Study, scale: Scale, *, work: Path, out: Path, say: Say, so_far: bool = False) -> dict[str, Any]:
    """Runs the parts of a study, writes its result file, and returns what stands in it.

    Args:
      study: a table or a figure, with its parts.
      scale: the scale of the parts, which names their folders and is recorded.
      work: a folder for what is under way; what is done there is not done again.
      out: the result file.
      say: function that is told in words how far the study is.
      so_far: run nothing, and leave out what is not done yet.
    """
    found, left = {}, []
    for part in study.parts:
        folder = part_folder(work, scale, study.name, part.name)
        if so_far and not is_done(folder, part):
            left.append(part.name)
            continue
        with counted(folder) if not is_done(folder, part) else contextlib.nullcontext():
            done = run_part(part, folder, say, trained=trained_folder(work, scale))
        seconds = seconds_had(folder)
        found[part.name] = done | {
            "wall_time": round(seconds.share, 2),
            "clock_time": round(seconds.by_the_clock, 2),
        }
    if not found:
        raise SoFarError(f"Nothing of {study.name} is done in {work}, at scale {scale}: run it without --so-far.")
    if lost := sorted(_parts_in(out) - set(found)):
        raise SoFarError(
            f"{out} has parts of {study.name} that are not done in {work}: {'; '.join(lost)}. Give another folder "
            "(--results), or move it away."
        )
    parts = {name: done["part"] for name, done in found.items()}
    write_result(
        out,
        config={"study": study.name, "scale": scale, "parts": parts} | ({"not_run": left} if left else {}),
        seeds=list(range(study.num_seeds)),
        wall_time=sum(done["wall_time"] for done in found.values()),
        figures={name: {key: value for key, value in done.items() if key != "part"} for name, done in found.items()},
        made=made_by(list(found.values())),
    )
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def _parts_in(out: Path) -> set[str]:
    """Returns the names of the parts in a result file; none if there is no file that can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        return set(json.loads(out.read_text())["figures"])
    return set()


def made_by(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns commit and hardware of parts that may have been run before and elsewhere; several, where they differ."""
    commits = list(dict.fromkeys(commit for part in parts for commit in all_commits(part)))
    machines = [json.loads(one) for one in dict.fromkeys(json.dumps(part["hardware"]) for part in parts)]
    return {"commit": ", ".join(commits), "hardware": machines[0] if len(machines) == 1 else machines}


def check_scale(out: Path, scale: Scale) -> None:
    """Raises an error if a result file is there already and is of another scale."""
    found = scale
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        found = json.loads(out.read_text())["config"]["scale"]
    if found != scale:
        raise ScaleError(
            f"{out} has results of scale {found}, not {scale}: give another folder (--results), or move it away."
        )


def check_libraries(study: Study, scale: Scale, work: Path) -> None:
    """Raises an error if a library is missing that a part needs which is not done yet."""
    for part in study.parts:
        if not is_done(part_folder(work, scale, study.name, part.name), part):
            part.check_libraries()


def check_result(out: Path, study: Study, scale: Scale) -> None:
    """Raises an error if the result of a study cannot be written to `out`: told before the work is done, not after."""
    check_scale(out, scale)
    if unknown := sorted(_parts_in(out) - {part.name for part in study.parts}):
        raise PlaceError(
            f"{out} has parts that are unknown to {study.name}: {'; '.join(unknown)}. Give another folder (--results), "
            "or move it away."
        )
    _make_folder(out.parent, "--results")
    check_target(out, overwrite=True)


@contextlib.contextmanager
def alone_at_work(work: Path, scale: Scale) -> Iterator[None]:
    """A block that keeps other commands from the parts of a scale: they would write and count the same things twice."""
    folder = work / scale
    _make_folder(folder, "--work")
    busy = PlaceError(f"Another command works in {folder}: wait until it ends, or name another folder (--work).")
    with lock_folder(folder, busy):
        yield


def _make_folder(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlaceError(f"There can be no folder {folder} ({error.strerror}): name another one ({option}).") from error


def part_folder(work: Path, scale: Scale, study: StudyName, part: str) -> Path:
    """Returns the folder for all that belongs to one part."""
    return work / scale / study / slug(part)


def trained_folder(work: Path, scale: Scale) -> Path:
    """Returns the folder for the checkpoints of all parts of a scale, some of which need the same models."""
    return work / scale / "trained"


def slug(name: str) -> str:
    """Returns a name with hyphens for what some file systems do not take."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name)
