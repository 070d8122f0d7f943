"""Lists the worlds by name; each is a frozen dataclass of pure JAX functions of one episode."""

import dataclasses
import difflib
from typing import Any, TypeVar

from compile_il.worlds.grid import GridWindowWorld, GridWorld
from compile_il.worlds.reacher import ReacherWorld
from compile_il.worlds.symbols import SymbolsWorld
from compile_il.worlds.world import ActingWorld, World, WorldError, check_whole

__all__ = [
    "WORLDS",
    "ActingWorld",
    "GridWindowWorld",
    "GridWorld",
    "ReacherWorld",
    "SymbolsWorld",
    "World",
    "WorldError",
    "make_world",
    "name_of",
    "with_num_tasks",
]
AnyWorld = TypeVar("AnyWorld", bound=World)

WORLDS: dict[str, GridWorld | ReacherWorld | SymbolsWorld] = {
    "grid-pickup": GridWorld(kind="pickup"),
    "grid-visit": GridWorld(kind="visit"),
    "reacher": ReacherWorld(),
    "symbols": SymbolsWorld(),
    "grid-pickup-window": GridWindowWorld(kind="pickup"),
    "grid-visit-window": GridWindowWorld(kind="visit"),
}
"""World of each public name, with the paper's options; the two with a window are not in the paper."""


def make_world(name: str, **options: Any) -> GridWorld | ReacherWorld | SymbolsWorld:
    """Makes a world by its name, with options changed: `make_world("grid-pickup", num_tasks=5)`.

    A longer task list raises the number of objects or targets where needed, unless that is an option too.
    """
    if name not in WORLDS:
        raise WorldError(f"There is no world {name!r}{suggest(name, list(WORLDS))} There are: {', '.join(WORLDS)}.")
    world = WORLDS[name]
    names = [field.name for field in dataclasses.fields(world) if field.name != "kind"]
    for option in options:
        if option not in names:
            hint = f"{suggest(option, names)} It has: {', '.join(names)}."
            raise WorldError(f"World {name!r} has no option {option!r}{hint}")
    if "num_tasks" in options:
        options = _enough_things(world, options["num_tasks"]) | options
    return dataclasses.replace(world, **options)


def with_num_tasks(world: AnyWorld, num_tasks: int) -> AnyWorld:
    """Returns the same world with lists of `num_tasks` tasks, and with enough objects or targets for them."""
    return dataclasses.replace(world, num_tasks=num_tasks, **_enough_things(world, num_tasks))  # type: ignore[type-var]


def _enough_things(world: World, num_tasks: int) -> dict[str, int]:
    """Returns options that give a world enough objects or targets, where each can serve only one task."""
    check_whole("num_tasks", num_tasks)
    if isinstance(world, GridWorld) and world.kind == "pickup":
        return {"num_objects": max(world.num_objects, num_tasks)}
    if isinstance(world, ReacherWorld):
        return {"max_targets": max(world.max_targets, min(num_tasks, world.num_types))}
    return {}


def name_of(world: object) -> str | None:
    """Returns the public name of a world, whatever its options; None for one that is not of this package."""
    kind = type(world), getattr(world, "kind", None)
    return next((name for name, ours in WORLDS.items() if (type(ours), getattr(ours, "kind", None)) == kind), None)


def suggest(word: str, names: list[str]) -> str:
    """Returns the end of a sentence about a word that is none of some names: a question for the closest, if any."""
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
