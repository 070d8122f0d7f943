"""The grid world's rules, as film strips: each picture is the level after one more action."""

import textwrap

import jax.numpy as jnp
import pytest

from compile_il.worlds.grid import GridWorld
from tests.worlds.rollout import film, from_ascii

N, E, S, W, PICK_N, PICK_E, PICK_S, PICK_W = range(8)


def check_film(world: GridWorld, tasks: str, actions: list[int], strip: str, events: list[str]) -> None:
    strip = textwrap.dedent(strip).strip()
    start = "\n".join(row.split()[0] for row in strip.splitlines())
    seen, happened = film(world, from_ascii(start, tasks), actions)
    assert seen == strip
    assert happened == events


def pickup(num_tasks: int, num_objects: int, **options: object) -> GridWorld:
    return GridWorld(kind="pickup", num_tasks=num_tasks, num_objects=num_objects, size=5, **options)


def visit(num_tasks: int, num_objects: int, **options: object) -> GridWorld:
    return GridWorld(kind="visit", num_tasks=num_tasks, num_objects=num_objects, size=5, **options)


def test_walls_stop_the_player_and_time_passes() -> None:
    strip = """
        ##### ##### ##### #####
        #@#A# #@#A# #@#A# #@#A#
        #...# #...# #...# #...#
        #...# #...# #...# #...#
        ##### ##### ##### #####
    """
    check_film(pickup(1, 1, max_steps=3), "A", [N, E, W], strip, ["0", "0", "0 cut"])


def test_picking_up_from_above_takes_the_thing_and_not_the_player() -> None:
    strip = """
        ##### ##### ##### #####
        #@..# #.@.# #.@.# #.@.#
        #.A.# #.A.# #...# #...#
        #..B# #..B# #..B# #..B#
        ##### ##### ##### #####
    """
    check_film(pickup(2, 2), "AB", [E, PICK_S, PICK_S], strip, ["0", "1", "0"])


def test_picking_up_the_wrong_thing_ends_the_episode() -> None:
    strip = """
        ##### #####
        #.B.# #...#
        #.@.# #.@.#
        #.A.# #.A.#
        ##### #####
    """
    check_film(pickup(1, 2), "A", [PICK_N], strip, ["0 end"])


def test_picking_up_nothing_or_a_wall_does_nothing() -> None:
    strip = """
        ##### ##### ##### #####
        #@.A# #@.A# #@.A# #@.A#
        #...# #...# #...# #...#
        #...# #...# #...# #...#
        ##### ##### ##### #####
    """
    check_film(pickup(1, 1), "A", [PICK_N, PICK_E, PICK_W], strip, ["0", "0", "0"])


def test_things_are_walked_over_and_stay_in_a_pickup_world() -> None:
    strip = """
        ##### ##### ##### #####
        #@AB# #.@B# #.A@# #.@B#
        #...# #...# #...# #...#
        #...# #...# #...# #...#
        ##### ##### ##### #####
    """
    check_film(pickup(1, 2), "A", [E, E, W], strip, ["0", "0", "0"])


def test_a_visit_counts_on_arrival_and_the_thing_stays() -> None:
    strip = """
        ##### ##### ##### ##### #####
        #@A.# #.@.# #.A@# #.A.# #.A.#
        #...# #...# #...# #..@# #...#
        #..B# #..B# #..B# #..B# #..@#
        ##### ##### ##### ##### #####
    """
    check_film(visit(2, 2), "AB", [E, E, S, S], strip, ["1", "0", "0", "1 end"])


def test_walking_over_the_wrong_thing_does_nothing_in_a_visit_world() -> None:
    strip = """
        ##### ##### #####
        #@BA# #.@A# #.B@#
        #...# #...# #...#
        #...# #...# #...#
        ##### ##### #####
    """
    check_film(visit(1, 2), "A", [E, E], strip, ["0", "1 end"])


def test_pickup_actions_do_nothing_in_a_visit_world() -> None:
    strip = """
        ##### ##### #####
        #@BA# #@BA# #@BA#
        #...# #...# #...#
        #...# #...# #...#
        ##### ##### #####
    """
    check_film(visit(1, 2), "A", [PICK_E, PICK_S], strip, ["0", "0"])


@pytest.mark.parametrize(("reward", "events"), [("dense", ["1", "0", "1 end"]), ("sparse", ["0", "0", "1 end"])])
def test_finishing_on_the_last_allowed_step_is_success(reward: str, events: list[str]) -> None:
    strip = """
        ##### ##### ##### #####
        #@A.# #@..# #.@.# #.@.#
        #.B.# #.B.# #.B.# #...#
        #...# #...# #...# #...#
        ##### ##### ##### #####
    """
    check_film(pickup(2, 2, max_steps=3, reward=reward), "AB", [PICK_E, E, PICK_S], strip, events)


def test_one_step_too_few_is_cut() -> None:
    strip = """
        ##### ##### #####
        #@A.# #@..# #.@.#
        #.B.# #.B.# #.B.#
        #...# #...# #...#
        ##### ##### #####
    """
    check_film(pickup(2, 2, max_steps=2), "AB", [PICK_E, E], strip, ["1", "0 cut"])


def expert_actions(world: GridWorld, picture: str, tasks: str) -> list[int]:
    level = from_ascii(textwrap.dedent(picture), tasks)
    plan, state, actions = world.plan(level), world.start(level), []
    for _ in range(world.max_steps):
        action = world.expert(level, plan, state)
        step = world.step(level, state, action)
        actions.append(int(action))
        state = step.state
        if step.terminated:
            assert state.task_index == world.num_tasks
            return actions
    pytest.fail("the expert did not finish")


def test_expert_breaks_ties_north_east_south_west() -> None:
    picture = "#####\n#..A#\n#...#\n#@..#\n#####"
    assert expert_actions(visit(1, 1), picture, "A") == [N, N, E, E]
    picture = "#####\n#@..#\n#...#\n#..A#\n#####"
    assert expert_actions(visit(1, 1), picture, "A") == [E, E, S, S]


def test_expert_goes_round_walls_to_the_nearest_of_two() -> None:
    picture = "#####\n#@#A#\n#.#.#\n#...#\n#####"
    assert expert_actions(pickup(1, 1), picture, "A") == [S, S, E, E, N, PICK_N]
    picture = "#####\n#A.@#\n#..A#\n#...#\n#####"
    assert expert_actions(pickup(1, 2), picture, "A") == [PICK_S]


def test_expert_takes_the_second_of_a_kind_where_it_stands() -> None:
    picture = "#####\n#A..#\n#...#\n#@.A#\n#####"
    assert expert_actions(pickup(2, 2), picture, "AA") == [N, PICK_N, E, E, PICK_S]


def test_expert_steps_off_a_thing_before_picking_it_up() -> None:
    # To take B it walks onto A; the only way to take A is from beside it: first open neighbour, then back.
    picture = "#####\n#@AB#\n###.#\n#...#\n#####"
    assert expert_actions(pickup(2, 2), picture, "BA") == [E, PICK_E, E, PICK_W]


def test_expert_prefers_another_of_the_kind_beside_the_one_it_stands_on() -> None:
    picture = "#####\n#@AB#\n##A##\n#...#\n#####"
    assert expert_actions(pickup(2, 3), picture, "BA") == [E, PICK_E, PICK_S]


def test_observation_channels() -> None:
    world = pickup(1, 1)
    level = from_ascii("#####\n#@..#\n#..D#\n#...#\n#####", "D")
    seen = world.observe(level, world.start(level))
    assert seen.shape == (5, 5, 12)
    assert seen.dtype == jnp.uint8
    expected = jnp.zeros((5, 5, 12), jnp.uint8).at[2, 3, 3].set(1).at[1, 1, 11].set(1).at[:, :, 10].set(level.walls)
    assert (seen == expected).all()
