"""Options that cannot work are refused, with what to do about it."""

import math

import pytest

import compile_il as cil
from compile_il.worlds import make_world
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.reacher import ReacherWorld
from compile_il.worlds.symbols import SymbolsWorld
from compile_il.worlds.world import WorldError, key_of


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"num_tasks": 7},
            "7 pick-ups need as many objects, and a level has 6: use num_tasks <= 6 or raise num_objects",
        ),
        ({"num_tasks": 0}, "num_tasks is 0: use at least 1"),
        ({"kind": "push"}, "use 'pickup' or 'visit'"),
        ({"reward": "rich"}, "use 'dense' or 'sparse'"),
        ({"size": 4}, "use 5 to 32 cells"),
        ({"size": 33}, "use 5 to 32 cells"),
        ({"wall_rate": 1.5}, "use a probability"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"num_objects": 31}, "size 10 holds 1 to 30"),
        ({"num_types": 1}, "num_types is 1: use 2 to 26"),
        ({"num_types": 27}, "num_types is 27: use 2 to 26"),
        ({"num_objects": 11, "distinct_types": True}, "11 objects of distinct types cannot be drawn from 10"),
        ({"kind": "visit", "num_objects": 1}, "3 visits need two objects"),
    ],
)
def test_grid(options: dict[str, object], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        GridWorld(**options)


def test_reacher_and_symbols() -> None:
    with pytest.raises(WorldError, match="7 tasks need as many targets, and a level has at most 6"):
        ReacherWorld(num_tasks=7)
    with pytest.raises(WorldError, match="11 targets of distinct types"):
        ReacherWorld(max_targets=11)
    for gain in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(WorldError, match=f"expert_gain is {gain}: use a number above 0"):
            ReacherWorld(expert_gain=gain)
    with pytest.raises(WorldError, match="6 runs of distinct symbols cannot be drawn from 5"):
        SymbolsWorld(num_tasks=6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tasks": "3"}, "num_tasks is '3': use a whole number"),
        ({"max_steps": 20.5}, "max_steps is 20.5: use a whole number"),
        ({"size": 10.0}, "size is 10.0: use a whole number"),
        ({"num_objects": True}, "num_objects is True: use a whole number"),
        ({"wall_rate": "0.2"}, "wall_rate is '0.2': use a number"),
    ],
)
def test_numbers_of_the_wrong_kind(options: dict[str, object], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        GridWorld(**options)


def test_unknown_world_and_option() -> None:
    with pytest.raises(WorldError, match="no world 'grid-pick'; did you mean 'grid-pickup'"):
        cil.demonstrate("grid-pick", num_demos=1)
    with pytest.raises(WorldError, match="There are: grid-pickup, grid-visit, reacher, symbols"):
        make_world("chess")
    with pytest.raises(WorldError, match="World 'reacher' has no option 'num_objects'"):
        cil.demonstrate("reacher", num_demos=1, num_objects=3)


@pytest.mark.parametrize(("name", "things"), [("grid-pickup", "num_objects"), ("reacher", "max_targets")])
def test_longer_lists_bring_the_things_that_they_take(name: str, things: str) -> None:
    assert getattr(make_world(name, num_tasks=8), things) == 8
    assert getattr(make_world(name, num_tasks=2), things) == 6
    assert getattr(make_world(name, num_tasks=8, **{things: 9}), things) == 9
    with pytest.raises(WorldError, match=r"8 .* need as many"):
        make_world(name, num_tasks=8, **{things: 7})


def test_lists_longer_than_a_level_holds_are_refused() -> None:
    with pytest.raises(
        WorldError, match=r"99 pick-ups needs as many objects, .* size 10 holds at most 30: use num_tasks"
    ):
        make_world("grid-pickup", num_tasks=99)


def test_visits_may_return_and_bring_nothing() -> None:
    assert make_world("grid-visit", num_tasks=8) == GridWorld(kind="visit", num_tasks=8)


@pytest.mark.parametrize(
    ("seed", "message"), [(2**32, "use a number from 0 to 4294967295"), (-1, "use a number"), (2**40, "use a number")]
)
def test_seeds_that_would_be_others_are_refused(seed: float, message: str) -> None:
    with pytest.raises(WorldError, match=f"seed is {seed}: {message}"):
        key_of(seed)  # type: ignore[arg-type]


def test_the_edges_of_what_is_allowed_work() -> None:
    assert len(cil.demonstrate("grid-pickup", num_demos=2, num_tasks=1, num_objects=1)) == 2
    assert len(cil.demonstrate("grid-visit", num_demos=2, num_tasks=20)) == 2
    assert len(cil.demonstrate("grid-pickup", num_demos=2, num_tasks=30, num_objects=30)) == 2
