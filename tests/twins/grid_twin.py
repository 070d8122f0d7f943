"""The grid world once more: slow, in plain Python, written from the rules in `docs/worlds.md`.

The fast world is stepped beside this one in the tests, so nothing here imports from the package. "Rule 7"
means that item of the grid world's list. Cells are `(row, column)`, counted from the north-west corner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

Cell = tuple[int, int]
Walls = list[list[bool]]

# North, east, south, west: the order of the actions, and the order in which ties are broken.
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))
PICK_UP = 4  # actions 0-3 move, PICK_UP + direction picks up
KINDS = ("pickup", "visit")
REWARDS = ("dense", "sparse")


def neighbour(cell: Cell, direction: int) -> Cell:
    """The next cell in a direction (0-3)."""
    return cell[0] + DIRECTIONS[direction][0], cell[1] + DIRECTIONS[direction][1]


def distances(walls: Walls, sources: Iterable[Cell]) -> dict[Cell, int]:
    """Steps from each reachable cell to the nearest source, breadth first; other cells are left out."""
    found = {source: 0 for source in sources}
    queue = deque(found)
    while queue:
        cell = queue.popleft()
        for direction in range(4):
            beside = neighbour(cell, direction)
            if beside not in found and not walls[beside[0]][beside[1]]:
                found[beside] = found[cell] + 1
                queue.append(beside)
    return found


def shortest_distance(walls: Walls, start: Cell, goal: Cell) -> int | None:
    """Number of moves from start to goal, or None where no path leads there."""
    return distances(walls, [start]).get(goal)


@dataclass
class TwinLevel:
    """Where an episode begins, and what is asked (rules 1-7)."""

    walls: Walls
    objects: list[tuple[int, int, int]]  # row, column, type
    player: Cell
    tasks: list[int]  # the types asked for, in order

    @classmethod
    def random(
        cls,
        rng: Random,
        *,
        kind: str,
        num_tasks: int,
        num_objects: int = 6,
        num_types: int = 10,
        size: int = 10,
        wall_rate: float = 0.2,
        distinct_types: bool = False,
    ) -> TwinLevel:
        """Draw a level; `wall_rate` is the probability that an inner wall of the maze stays."""
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, not {kind!r}")
        walls, lattice = _maze(rng, size)
        _thin(rng, walls, wall_rate)
        # Rule 4: the lattice hangs together, so any one of its cells reaches all that is reachable.
        reachable = sorted(distances(walls, lattice[:1]))
        player, *places = rng.sample(reachable, 1 + num_objects)
        types = _draw_types(rng, num_objects, num_types, distinct_types)
        draw_tasks = _draw_pickup_tasks if kind == "pickup" else _draw_visit_tasks
        objects = [(row, column, type_) for (row, column), type_ in zip(places, types, strict=True)]
        return cls(walls, objects, player, draw_tasks(rng, types, num_tasks))


def _maze(rng: Random, size: int) -> tuple[Walls, list[Cell]]:
    """Rule 2: the walls of a maze and the grid cells of its lattice."""
    side = (size - 1) // 2
    # An even grid has a row and a column to spare, hence offsets 1 and 2; an odd grid has offset 1 only.
    spare = size - 1 - 2 * side
    top, left = rng.randint(1, 1 + spare), rng.randint(1, 1 + spare)
    lattice = [(top + 2 * i, left + 2 * j) for i in range(side) for j in range(side)]
    walls = [[True] * size for _ in range(size)]
    start = rng.choice(lattice)
    walls[start[0]][start[1]] = False
    _carve(rng, walls, set(lattice), start)
    return walls, lattice


def _carve(rng: Random, walls: Walls, lattice: set[Cell], cell: Cell) -> None:
    """Recursive backtracking: open unvisited lattice neighbours, and what lies between, while any is left."""
    while True:
        ways = []
        for direction in range(4):
            between = neighbour(cell, direction)
            beyond = neighbour(between, direction)
            if beyond in lattice and walls[beyond[0]][beyond[1]]:  # a lattice cell is open once visited
                ways.append((between, beyond))
        if not ways:
            return
        between, beyond = rng.choice(ways)
        walls[between[0]][between[1]] = walls[beyond[0]][beyond[1]] = False
        _carve(rng, walls, lattice, beyond)


def _thin(rng: Random, walls: Walls, wall_rate: float) -> None:
    """Rule 3: every wall inside the outer ring stays with probability `wall_rate`."""
    inner = range(1, len(walls) - 1)
    for row in inner:
        for column in inner:
            walls[row][column] = walls[row][column] and rng.random() < wall_rate


def _draw_types(rng: Random, num_objects: int, num_types: int, distinct_types: bool) -> list[int]:
    """Rule 6: the objects' types, never all the same."""
    if distinct_types:
        return rng.sample(range(num_types), num_objects)
    types = [rng.randrange(num_types) for _ in range(num_objects)]
    if len(set(types)) == 1:
        types[-1] = (types[-1] + 1) % num_types
    return types


def _draw_pickup_tasks(rng: Random, types: list[int], num_tasks: int) -> list[int]:
    """Rule 7: an ordered choice of objects, none twice (but two objects can be of one type)."""
    return rng.sample(types, num_tasks)


def _draw_visit_tasks(rng: Random, types: list[int], num_tasks: int) -> list[int]:
    """Rule 7: any object whose type is not the one that was just asked for."""
    tasks: list[int] = []
    for _ in range(num_tasks):
        tasks.append(rng.choice([type_ for type_ in types if type_ not in tasks[-1:]]))
    return tasks


def level_from_ascii(rows: list[str], tasks: list[int]) -> TwinLevel:
    """Read a picture as `TwinGrid.ascii` draws it; the objects come in reading order."""
    size = len(rows)
    cells = {(r, c): char for r, row in enumerate(rows) for c, char in enumerate(row)}
    if any(len(row) != size for row in rows):
        raise ValueError("the picture must be square")
    if any(char != "#" for (r, c), char in cells.items() if {r, c} & {0, size - 1}):
        raise ValueError("the outer ring must be wall ('#')")
    if unknown := set(cells.values()) - set("#.@ABCDEFGHIJ"):
        raise ValueError(f"unknown characters {sorted(unknown)}")
    players = [cell for cell, char in cells.items() if char == "@"]
    if len(players) != 1:
        raise ValueError(f"the picture must have one player ('@'), not {len(players)}")
    walls = [[char == "#" for char in row] for row in rows]
    objects = [(r, c, ord(char) - ord("A")) for (r, c), char in cells.items() if char.isalpha()]
    return TwinLevel(walls, objects, players[0], list(tasks))


class TwinGrid:
    """One episode on a level (rules 8-14)."""

    def __init__(
        self, level: TwinLevel, *, kind: str, max_steps: int = 200, reward: str = "dense", num_types: int = 10
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, not {kind!r}")
        if reward not in REWARDS:
            raise ValueError(f"reward must be one of {REWARDS}, not {reward!r}")
        self.kind, self.max_steps, self.reward, self.num_types = kind, max_steps, reward, num_types
        self.walls = level.walls
        self.tasks = level.tasks
        self.player = level.player
        self.objects: dict[Cell, int] = {(row, column): type_ for row, column, type_ in level.objects}
        self.task_index = 0
        self.num_steps = 0
        self.terminated = self.truncated = self.success = False

    @property
    def task(self) -> int:
        """The type that is asked for now."""
        return self.tasks[self.task_index]

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Take one action; gives reward, terminated, truncated."""
        if self.terminated or self.truncated:
            raise RuntimeError("the episode is over")
        if action not in range(8):
            raise ValueError(f"an action is one of 0 to 7, not {action}")
        self.num_steps += 1
        done = self._act(action < PICK_UP, neighbour(self.player, action % 4))
        if done:
            self.task_index += 1
        if self.task_index == len(self.tasks):
            self.terminated = self.success = True
        # Rule 11: ending on the last allowed step is an end, not a cut.
        self.truncated = self.num_steps >= self.max_steps and not self.terminated
        paid = done if self.reward == "dense" else self.success
        return float(paid), self.terminated, self.truncated

    def _act(self, moves: bool, ahead: Cell) -> bool:
        """Move to, or pick up from, the cell ahead; says whether that does the current task."""
        if moves and not self._is_wall(ahead):
            self.player = ahead
        if self.kind == "visit":
            return self.objects.get(self.player) == self.task
        return not moves and self._pick_up(ahead)

    def _pick_up(self, cell: Cell) -> bool:
        """Rule 10: take what lies there, if anything does; the wrong thing ends the episode."""
        if cell not in self.objects:
            return False
        is_wanted = self.objects.pop(cell) == self.task
        self.terminated = not is_wanted
        return is_wanted

    def _is_wall(self, cell: Cell) -> bool:
        return self.walls[cell[0]][cell[1]]

    def expert_action(self) -> int:
        """Rule 14, from wherever the player is now."""
        wanted = [cell for cell, type_ in self.objects.items() if type_ == self.task]
        beside = [neighbour(self.player, direction) for direction in range(4)]
        if self.kind == "pickup":
            for direction in range(4):
                if beside[direction] in wanted:
                    return PICK_UP + direction
        if self.player in wanted:  # too close to pick it up: step off first
            return next(direction for direction in range(4) if not self._is_wall(beside[direction]))
        to_go = distances(self.walls, wanted)
        if self.player not in to_go:
            raise ValueError(f"no object of type {self.task} can be reached")
        nearer = to_go[self.player] - 1
        return next(direction for direction in range(4) if to_go.get(beside[direction]) == nearer)

    def observation(self) -> np.ndarray:
        """Rule 13: size x size x (types, walls, player), 0 or 1."""
        cells = [[[0] * self.num_types + [int(wall), 0] for wall in row] for row in self.walls]
        for (row, column), type_ in self.objects.items():
            cells[row][column][type_] = 1
        cells[self.player[0]][self.player[1]][self.num_types + 1] = 1
        return np.array(cells, dtype=np.uint8)

    def ascii(self) -> list[str]:
        """One character a cell: '#' wall, '.' empty, 'A' to 'J' objects, '@' player, over objects."""
        picture = [["#" if wall else "." for wall in row] for row in self.walls]
        for (row, column), type_ in self.objects.items():
            picture[row][column] = chr(ord("A") + type_)
        picture[self.player[0]][self.player[1]] = "@"
        return ["".join(row) for row in picture]


@dataclass
class TwinDemonstration:
    """T+1 observations, T actions, and the truth about their segments."""

    observations: np.ndarray
    actions: list[Any]  # whole numbers in the grid world, pairs of velocities in the reacher
    boundaries: list[int]  # the inner ones: the first step of each segment but the first
    codes: list[int]  # one a segment
    success: bool


def record_expert(world: Any, tasks: list[int]) -> TwinDemonstration:
    """Let a world's expert act until the episode is over."""
    observations, actions, task_indices = [world.observation()], [], []
    while not (world.terminated or world.truncated):
        task_indices.append(world.task_index)
        actions.append(world.expert_action())
        world.step(actions[-1])
        observations.append(world.observation())
    boundaries = [t for t, (before, now) in enumerate(pairwise(task_indices), start=1) if now != before]
    # A task counts as begun once a step was spent on it: a cut right after a boundary adds no empty segment.
    codes = tasks[: len(boundaries) + 1]
    return TwinDemonstration(np.stack(observations), actions, boundaries, codes, world.success)


def demonstrate(level: TwinLevel, *, kind: str, max_steps: int = 200) -> TwinDemonstration:
    """The expert's demonstration of a level, cut at `max_steps` (rule 15)."""
    return record_expert(TwinGrid(level, kind=kind, max_steps=max_steps), level.tasks)
