"""Tables of shares as heat maps: which skill serves which task, and which skill follows which."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from compile_il.demos import Demonstrations
from compile_il.report.markup import per_cent, scrolling, tag, text
from compile_il.report.names import Look, task_label
from compile_il.report.runs import task_of_step
from compile_il.segments import Segments

_MAX_TASKS, _MAX_FOLLOWING = 24, 16


def chip(skill: int) -> str:
    """Draws the number of a skill on its colour."""
    return tag("b", str(skill), class_=f"chip k{skill}")


def tasks_served(found: Segments, demos: Demonstrations, num_skills: int) -> Int[np.ndarray, "skills tasks"] | None:
    """Counts the steps of each skill in each true task; None where the true tasks are not known."""
    truth = demos.truth
    if truth.boundaries is None or truth.codes is None:
        return None
    tasks = np.concatenate([task_of_step(demo) for demo in demos])
    table = np.zeros((num_skills, int(tasks.max()) + 1), np.int64)
    np.add.at(table, (np.concatenate(found.labels), tasks), 1)
    return table


def draw_tasks_served(table: Int[np.ndarray, "skills tasks"], look: Look) -> str:
    """Draws the shares of each skill's steps by true task; rows stand in the order of the tasks they mostly serve."""
    tasks = np.flatnonzero(table.sum(axis=0))
    dropped = len(tasks) - _MAX_TASKS
    if dropped > 0:
        tasks = np.sort(np.argsort(-table.sum(axis=0), kind="stable")[:_MAX_TASKS])
    skills = [int(k) for k in np.flatnonzero(table.sum(axis=1))]
    skills.sort(key=lambda k: (int(table[k, tasks].argmax()), -int(table[k, tasks].max())))
    shares = table[skills] / table[skills].sum(axis=1, keepdims=True)
    heads = [task_label(look, int(task)) for task in tasks]
    heading = "Which skill serves which task"
    note = "Share of each skill’s steps that lie in a true segment of that task; a row adds up to 100 %."
    if dropped > 0:
        note += f" The {dropped} rarest tasks are left out."
    return _section(heading, note, _heat_map(heading, "skill", skills, heads, shares[:, tasks]))


def followers(found: Segments, num_skills: int) -> Int[np.ndarray, "skills skills"]:
    """Counts how often each skill (row) is followed by each skill (column)."""
    table = np.zeros((num_skills, num_skills), np.int64)
    for skills in found.skills:
        np.add.at(table, (skills[:-1], skills[1:]), 1)
    return table


def draw_followers(table: Int[np.ndarray, "skills skills"]) -> str:
    """Draws what comes after each skill: a heat map, or the most common pairs where it would be too large to read."""
    heading = "Which skill follows which"
    used = np.flatnonzero(table.sum(axis=0) + table.sum(axis=1))
    if not table.sum():
        return ""
    if len(used) <= _MAX_FOLLOWING:
        rows = [int(k) for k in used if table[k].sum()]
        shares = table[rows] / table[rows].sum(axis=1, keepdims=True)
        body = _heat_map(heading, "after skill", rows, [chip(int(k)) for k in used], shares[:, used])
        note = "How often the skill of a row is followed by that of a column, of all that follow it."
    else:
        pairs = np.dstack(np.unravel_index(np.argsort(-table, axis=None, kind="stable")[:20], table.shape))[0]
        items = [
            tag("li", chip(a), " → ", chip(b), f" {table[a, b]:,} times") for a, b in pairs.tolist() if table[a, b]
        ]
        body = tag("ul", *items, class_="pairs")
        note = "The most common pairs of neighbours."
    return tag("details", tag("summary", heading), tag("p", note, class_="note"), body)


def _heat_map(label: str, corner: str, rows: Sequence[int], heads: Sequence[str], shares: NDArray[np.floating]) -> str:
    top = tag("tr", tag("th", text(corner), scope="col"), *(tag("th", head, scope="col") for head in heads))
    lines = [
        tag("tr", tag("th", chip(skill), scope="row"), *(_cell(float(share)) for share in line))
        for skill, line in zip(rows, shares, strict=True)
    ]
    table = tag("table", tag("thead", top), tag("tbody", *lines), class_="heat")
    return scrolling(table, label)


def _cell(share: float) -> str:
    """Draws a share as a cell of a heat map; small ones are left blank, to let the large ones speak."""
    strong = " strong" if share > 0.5 else ""
    words = per_cent(share, 0).replace("\u00a0%", "") if share >= 0.005 else ""
    return tag("td", words, class_=f"cell{strong}", style=f"--share:{share:.3f}")


def _section(heading: str, note: str, body: str) -> str:
    return tag("section", tag("h3", text(heading)), tag("p", text(note), class_="note"), body)
