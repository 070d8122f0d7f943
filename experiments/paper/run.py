"""Makes `results/NAME.json` of a study's parts, after running those that are not done."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compile_il.data.files import check_target
from compile_il.evaluation.results import write_result
from compile_il.training.runs import lock_folder
from experiments.paper.jobs import jobs_of
from experiments.paper.parts import Say, Scale
from experiments.paper.studies import Study

REMEDY = "Give another folder (--results), or move it away."


def reproduce(study: Study, scale: Scale, *, work: Path, out: Path, say: Say, so_far: bool = False) -> dict[str, Any]:
    """Runs the parts of a study that are not done in `work`, writes its result file, and returns the file's contents.

    With `so_far` nothing is run, and parts that are not done are left out.
    """
    jobs = jobs_of(study, scale, work)
    left = [job.part.name for job in jobs if not job.is_done] if so_far else []
    parts: dict[str, dict[str, Any]] = {}
    for job in jobs:
        if job.part.name not in left:
            done = job.run(say) if job.is_done else job.run_counted(say)
            parts[job.part.name] = done | {"wall_time": round(job.seconds, 2)}
    if not parts:
        raise ValueError(f"Nothing of {study.name} is done in {work}, at scale {scale}: run it without --so-far.")
    if lost := sorted(_read(out)["figures"].keys() - parts.keys()):
        raise ValueError(f"{out} has parts of {study.name} that are not done in {work}: {'; '.join(lost)}. {REMEDY}")
    settings = {name: done.pop("part") for name, done in parts.items()}
    write_result(
        out,
        config={"study": study.name, "scale": scale, "parts": settings} | ({"not_run": left} if left else {}),
        seeds=list(range(study.parts[0].num_seeds)),
        wall_time=sum(done["wall_time"] for done in parts.values()),
        figures=parts,
        made=made_by(list(parts.values())),
    )
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def made_by(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns commit and hardware of parts that may have been run before and elsewhere; several, where they differ."""
    commits = dict.fromkeys(commit for part in parts for commit in part["commit"].split(", "))
    machines = [json.loads(one) for one in dict.fromkeys(json.dumps(part["hardware"]) for part in parts)]
    return {"commit": ", ".join(commits), "hardware": machines[0] if len(machines) == 1 else machines}


def check_result(out: Path, study: Study, scale: Scale) -> None:
    """Raises an error if the result of a study cannot be written, before the work is done."""
    existing = _read(out)
    if (other := existing["config"].get("scale", scale)) != scale:
        raise ValueError(f"{out} has results of scale {other}, not {scale}. {REMEDY}")
    if unknown := sorted(existing["figures"].keys() - {part.name for part in study.parts}):
        raise ValueError(f"{out} has parts that are unknown to {study.name}: {'; '.join(unknown)}. {REMEDY}")
    _make_folder(out.parent, "--results")
    check_target(out, overwrite=True)


def _read(out: Path) -> dict[str, dict[str, Any]]:
    """Returns config and figures of a result file; both empty if there is no file that can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        result = json.loads(out.read_text())
        return {"config": dict(result["config"]), "figures": dict(result["figures"])}
    return {"config": {}, "figures": {}}


@contextlib.contextmanager
def lock_work(work: Path, scale: Scale) -> Iterator[None]:
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
