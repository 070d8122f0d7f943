"""How long a study took, in words, from its result file."""

import json
from collections.abc import Mapping
from typing import Any

from compile_il.config import Config


def duration(seconds: float) -> str:
    """Returns a time in words, such as "42 s", "12 min" or "3 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def time_taken(result: dict[str, Any]) -> str:
    """Returns sentences on wall time and training time, and where models ran at once, on why these differ."""
    wall, training = result["wall_time"], training_seconds(result)
    if _is_shared(result):
        at_once = f" with {_at_once(result):.1f} models at once" if _at_once(result) > 1.05 else ""
        took = f"; by the clock of each, training took {duration(training)} in sum" if training else ""
        shared = f"Models shared {_machine(result)}, and this is the sum of their shares of its time{took}."
        return f"Wall time: {duration(wall)}{at_once}. {shared}"
    return f"Wall time: {duration(wall)}{f', of training {duration(training)}' if training else ''}."


def training_seconds(result: dict[str, Any]) -> float:
    """Returns the training time of all models and agents in seconds; models that parts have in common count once."""
    figures, models = result["figures"], dict[str, float]()
    for name, trained in _trainings(result).items():
        models[trained] = max(models.get(trained, 0.0), figures[name].get("training_seconds", 0.0))
    return sum(models.values()) + sum(found.get("learning_seconds", 0.0) for found in figures.values())


def repeated_seconds(studies: Mapping[Any, dict[str, Any]]) -> float:
    """Returns wall time in seconds, scoring included, of parts that train what a part of an earlier study trains."""
    trained_before, seconds = set[str](), 0.0
    for result in studies.values():
        trainings = _trainings(result)
        again = [name for name, trained in trainings.items() if trained in trained_before]
        seconds += sum(result["figures"][name]["wall_time"] for name in again)
        trained_before |= set(trainings.values())
    return seconds


def _trainings(result: dict[str, Any]) -> dict[str, str]:
    """Returns world and settings of each part that has models as one text; what older files lack is as by default."""
    by_default = Config().to_json()
    done = {name: result["config"]["parts"][name] for name in result["figures"]}
    return {
        name: json.dumps([part["world"], {**by_default, **part["config"]}], sort_keys=True)
        for name, part in done.items()
        if "config" in part and part.get("agent", {}).get("agent") != "low-level"
    }


def _is_shared(result: dict[str, Any]) -> bool:
    """Whether several parts ran at once; in older files, which do not say, whether training exceeds the wall time."""
    if all("clock_time" in part for part in result["figures"].values()):
        return _at_once(result) > 1.05
    return training_seconds(result) > result["wall_time"]


def _at_once(result: dict[str, Any]) -> float:
    """Returns how many parts shared the machine, on average over the time of each; 1 where the file does not say it."""
    clock = sum(part.get("clock_time", part["wall_time"]) for part in result["figures"].values())
    return float(clock / max(result["wall_time"], 1e-9))


def _machine(result: dict[str, Any]) -> str:
    platforms = {part["hardware"]["platform"] for part in result["figures"].values()}
    return "one machine" if "cpu" in platforms else "one accelerator"
