"""Result files that no run has made, small enough for sums by hand."""

import json
from pathlib import Path
from typing import Any, get_args

from compile_il.evaluation.evaluate import Evaluation
from experiments.paper.classic import Method
from experiments.paper.studies import StudyName, make_study

HARDWARE = {"platform": "gpu", "device": "Some GPU", "num_devices": 1, "num_cores": 8, "jax": "0", "python": "3"}
WALL_TIME = 61.0
LEVEL = ["#####", "#@A.#", "#...#", "#..B#", "#####"]


def scores(part: str) -> dict[str, Any]:
    """Two seeds, 40 and 60 per cent with 3 tasks, 20 and 40 with 5; methods without policies have boundaries alone."""
    acts = not any(method in part for method in ("surprisal", *get_args(Method)))
    none = {} if acts else {"reconstruction": None, "exact_match": None, "online": None}
    fields = Evaluation._fields
    by_tasks = {"3": (0.4, 0.6), "5": (0.2, 0.4)}
    return {tasks: [dict.fromkeys(fields, value) | none for value in values] for tasks, values in by_tasks.items()}


def portrait(*, early: bool, relaxed: bool) -> dict[str, Any]:
    """Two skills on a level of 5 x 5: one takes object A and stops, the other goes on for ever."""
    probs = [[1.0, 0.75, 0.25, 0.0], [0.0, 0.25, 0.75, 1.0]]
    segments = {"boundaries": [2], "tasks": [0, 1], "probs": probs} | ({"sample": probs} if relaxed else {})
    stops = [0] * 25
    stops[6], stops[8] = 3, 1
    takes = {"path": [6, 6], "stopped": True, "taken": 7, "num_stopped": 4, "num_stopped_with_object": 3}
    wanders = {"path": [6, 11, 16], "stopped": False, "taken": None, "num_stopped": 0, "num_stopped_with_object": 0}
    skills = [
        takes | {"mean_steps": 1.5, "terminations": stops},
        wanders | {"mean_steps": None, "terminations": [0] * 25},
    ]
    at_work = {"level": LEVEL, "task": "heart", "found": 0, "num_levels": 5, "skills": skills}
    return {"segments": segments} | ({} if early else at_work)


def agents() -> dict[str, Any]:
    """Two seeds, one of which had not ended an episode at first; 40 and 60 per cent of unseen levels in the end."""
    curve = {"steps": [0, 10**6], "success": [[None, 0.5], [0.25, 1.0]], "reward": [[None, 1.0], [0.5, 3.0]]}
    return {"curve": curve, "played": [{"success": 0.4}, {"success": 0.6}], "learning_seconds": 1.0}


def result(name: StudyName) -> dict[str, Any]:
    """What the result file of a study would hold."""
    figures = {}
    study = make_study(name, "short")
    for part in study.parts:
        if name == "qualitative":
            early, relaxed = "early" in part.name, part.config.inference == "relaxed"
            found = {"portrait": portrait(early=early, relaxed=relaxed)}
        else:
            found = agents() if name == "figure5" else {"scores": scores(part.name)}
        figures[part.name] = {"commit": "0123abc", "hardware": HARDWARE, "wall_time": WALL_TIME, **found}
    config = {"study": name, "scale": "short", "parts": {part.name: part.to_json() for part in study.parts}}
    seeds = list(range(study.parts[0].num_seeds))
    return {"config": config, "seeds": seeds, "wall_time": WALL_TIME * len(figures), "figures": figures}


def write(folder: Path, name: StudyName) -> Path:
    """The file itself."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result(name)))
    return path
