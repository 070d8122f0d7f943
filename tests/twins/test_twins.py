"""The twins themselves: film strips worked out by hand, and what must hold on every random level."""

import math
from collections import Counter
from random import Random

import numpy as np
import pytest

from tests.twins import grid_twin, reacher_twin
from tests.twins.grid_twin import TwinGrid, TwinLevel, level_from_ascii, shortest_distance
from tests.twins.reacher_twin import TwinReacher, TwinReacherLevel

N, E, S, W, PICK_N, PICK_E, PICK_S, PICK_W = range(8)
A, B, C = range(3)


def frames(strip: str) -> list[list[str]]:
    """Pictures drawn side by side, as a list of pictures."""
    lines = [line.split() for line in strip.strip().splitlines()]
    return [list(rows) for rows in zip(*lines, strict=True)]


def play(strip: str, actions: list[int], tasks: list[int], kind: str, **options) -> tuple[TwinGrid, list]:
    """Start from the first picture, act, and check each next picture; gives the world and its rewards."""
    first, *rest = frames(strip)
    world = TwinGrid(level_from_ascii(first, tasks), kind=kind, **options)
    rewards = []
    for t, (action, picture) in enumerate(zip(actions, rest, strict=True)):
        rewards.append(world.step(action)[0])
        assert world.ascii() == picture, f"after action {t}"
    return world, rewards


def test_walls_stop_the_player_and_cost_a_step() -> None:
    world, rewards = play(
        """
        #####  #####  #####  #####  #####
        #@#A#  #@#A#  #@#A#  #@#A#  #.#A#
        #...#  #...#  #...#  #...#  #@..#
        #...#  #...#  #...#  #...#  #...#
        #####  #####  #####  #####  #####
        """,
        [N, E, W, S],
        [A],
        "visit",
    )
    assert rewards == [0, 0, 0, 0]
    assert (world.num_steps, world.task_index, world.terminated) == (4, 0, False)


def test_picking_from_above_takes_the_object_and_not_the_player() -> None:
    world, rewards = play(
        """
        #####  #####  #####  #####
        #@..#  #@..#  #@..#  #@..#
        #A.B#  #A.B#  #A.B#  #..B#
        #...#  #...#  #...#  #...#
        #####  #####  #####  #####
        """,
        [PICK_N, PICK_E, PICK_S],
        [A, B],
        "pickup",
    )
    assert rewards == [0, 0, 1]
    assert (world.task_index, world.terminated, world.success) == (1, False, False)


def test_a_wrong_pick_up_removes_the_object_and_ends_in_failure() -> None:
    world, rewards = play(
        """
        #####  #####
        #B@A#  #.@A#
        #...#  #...#
        #...#  #...#
        #####  #####
        """,
        [PICK_W],
        [A],
        "pickup",
    )
    assert rewards == [0]
    assert (world.terminated, world.truncated, world.success) == (True, False, False)
    with pytest.raises(RuntimeError, match="over"):
        world.step(N)


def test_objects_do_not_block_and_stay_where_they_are() -> None:
    strip = """
        #####  #####  #####
        #@A.#  #.@.#  #.A@#
        #...#  #...#  #...#
        #..B#  #..B#  #..B#
        #####  #####  #####
        """
    pickup, rewards = play(strip, [E, E], [A], "pickup")
    assert rewards == [0, 0]
    assert pickup.task_index == 0
    # Passing A on the way to B is no visit, whatever is asked later.
    visit, rewards = play(strip, [E, E], [B, A], "visit")
    assert rewards == [0, 0]
    assert visit.task_index == 0


def test_visiting_in_order_with_useless_pick_ups() -> None:
    world, rewards = play(
        """
        #####  #####  #####  #####  #####
        #@AB#  #@AB#  #.@B#  #.A@#  #.@B#
        #...#  #...#  #...#  #...#  #...#
        #..A#  #..A#  #..A#  #..A#  #..A#
        #####  #####  #####  #####  #####
        """,
        [PICK_E, E, E, W],
        [A, B, A],
        "visit",
        reward="sparse",
    )
    assert rewards == [0, 0, 0, 1]
    assert (world.task_index, world.terminated, world.success) == (3, True, True)


@pytest.mark.parametrize("kind", ["visit", "pickup"])
def test_finishing_on_the_last_step_is_success_and_one_step_less_is_a_cut(kind: str) -> None:
    level = level_from_ascii(["#####", "#@.A#", "#...#", "#...#", "#####"], [A])
    last = {"visit": E, "pickup": PICK_E}[kind]
    in_time = TwinGrid(level, kind=kind, max_steps=2)
    assert in_time.step(E) == (0, False, False)
    assert in_time.step(last) == (1, True, False)
    assert in_time.success
    too_late = TwinGrid(level, kind=kind, max_steps=1)
    assert too_late.step(E) == (0, False, True)
    assert not too_late.success


def test_expert_steps_off_the_wanted_object_then_picks_it_up() -> None:
    world, _ = play(
        """
        #####  #####
        ##@.#  ##..#
        #.A.#  #.@.#
        #..A#  #..A#
        #####  #####
        """,
        [S],
        [A],
        "pickup",
    )
    # The other A is two away; the rule still steps to the first open neighbour, north, and picks from there.
    assert world.expert_action() == N
    world.step(N)
    assert world.expert_action() == PICK_S
    assert world.step(PICK_S) == (1, True, False)


def test_expert_on_a_wanted_object_prefers_another_one_beside_it() -> None:
    world, _ = play(
        """
        #####  #####
        #.@.#  #...#
        #AA.#  #A@.#
        #.A.#  #.A.#
        #####  #####
        """,
        [S],
        [A],
        "pickup",
    )
    assert world.expert_action() == PICK_S


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["#####", "#...#", "#.@.#", "#A..#", "#####"], S),  # S and W are equally short
        (["#####", "#..A#", "#.@.#", "#A..#", "#####"], N),  # two nearest objects: the first move counts
        (["#####", "#@#A#", "#.#.#", "#...#", "#####"], S),  # around the wall
        (["######", "#A...#", "#....#", "#@.A.#", "#....#", "######"], N),  # as near as the other one
        (["######", "#A...#", "#....#", "#.@.A#", "#....#", "######"], E),  # nearer than the other one
    ],
)
def test_expert_takes_a_shortest_path_and_the_first_of_equal_moves(rows: list[str], expected: int) -> None:
    assert TwinGrid(level_from_ascii(rows, [A]), kind="pickup").expert_action() == expected


def test_shortest_distance_goes_around_walls() -> None:
    walls = level_from_ascii(["#####", "#@#.#", "#.#.#", "#...#", "#####"], [A]).walls
    assert shortest_distance(walls, (1, 1), (1, 3)) == 6
    assert shortest_distance(walls, (1, 1), (1, 1)) == 0
    walls[3][2] = True
    assert shortest_distance(walls, (1, 1), (1, 3)) is None


def test_observation_has_types_then_walls_then_player() -> None:
    world = TwinGrid(level_from_ascii(["####", "#@J#", "#A.#", "####"], [A]), kind="visit")
    world.step(E)  # onto the J, which is seen beneath the player
    seen = world.observation()
    assert seen.shape == (4, 4, 12)
    assert seen.dtype == np.uint8
    assert seen[:, :, 10].sum() == 12
    seen[:, :, 10] = 0
    assert np.argwhere(seen).tolist() == [[1, 2, 9], [1, 2, 11], [2, 1, 0]]


def test_demonstration_of_three_segments_by_hand() -> None:
    level = level_from_ascii(["#####", "#@.B#", "#...#", "#A.C#", "#####"], [A, B, C])
    demo = grid_twin.demonstrate(level, kind="pickup")
    assert demo.actions == [S, PICK_S, N, E, PICK_E, E, S, PICK_S]
    assert (demo.boundaries, demo.codes, demo.success) == ([2, 5], [A, B, C], True)
    assert demo.observations.shape == (9, 5, 5, 12)


@pytest.mark.parametrize(("max_steps", "boundaries", "codes"), [(1, [], [A]), (2, [], [A]), (3, [2], [A, B])])
def test_a_cut_demonstration_lists_the_tasks_begun(max_steps: int, boundaries: list, codes: list) -> None:
    level = level_from_ascii(["#####", "#@.B#", "#...#", "#A.C#", "#####"], [A, B, C])
    demo = grid_twin.demonstrate(level, kind="pickup", max_steps=max_steps)
    assert (demo.boundaries, demo.codes, demo.success) == (boundaries, codes, False)
    assert len(demo.actions) == max_steps


@pytest.mark.parametrize("kind", ["visit", "pickup"])
def test_random_levels_are_solved_by_the_expert(kind: str) -> None:
    rng = Random(0)
    for _ in range(200):
        level = TwinLevel.random(rng, kind=kind, num_tasks=3)
        for row, column, _ in level.objects:
            assert shortest_distance(level.walls, level.player, (row, column)) is not None
        assert len({level.player, *[(row, column) for row, column, _ in level.objects]}) == 7
        if kind == "visit":
            assert level.tasks[0] != level.tasks[1] != level.tasks[2]
        else:
            assert not Counter(level.tasks) - Counter(type_ for _, _, type_ in level.objects)
        demo = grid_twin.demonstrate(level, kind=kind)
        assert demo.success
        assert demo.codes == level.tasks
        assert len(demo.boundaries) == 2


@pytest.mark.parametrize("kind", ["visit", "pickup"])
def test_expert_finishes_from_wherever_a_wanderer_left_off(kind: str) -> None:
    rng = Random(1)
    for _ in range(200):
        world = TwinGrid(TwinLevel.random(rng, kind=kind, num_tasks=3), kind=kind)
        for _ in range(20):
            if not world.terminated:
                world.step(rng.randrange(4))
        while not (world.terminated or world.truncated):
            world.step(world.expert_action())
        assert world.success


def test_unthinned_mazes_are_trees_of_sixteen_cells() -> None:
    rng = Random(2)
    corners = set()
    for _ in range(50):
        walls = TwinLevel.random(rng, kind="visit", num_tasks=1, wall_rate=1.0).walls
        open_cells = [(r, c) for r in range(10) for c in range(10) if not walls[r][c]]
        assert len(open_cells) == 31  # a tree: sixteen lattice cells and the fifteen passages between them
        assert len(grid_twin.distances(walls, open_cells[:1])) == 31
        corners.add((min(r for r, _ in open_cells), min(c for _, c in open_cells)))
    assert corners == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_thinning_keeps_a_fifth_of_the_inner_walls_and_the_whole_ring() -> None:
    rng = Random(3)
    inner = 0
    for _ in range(400):
        walls = TwinLevel.random(rng, kind="visit", num_tasks=1).walls
        walls_in_all = sum(map(sum, walls))
        inside = sum(sum(row[1:-1]) for row in walls[1:-1])
        assert walls_in_all - inside == 36
        inner += inside
    # Of 64 inner cells the maze leaves 33 as walls; the mean over 400 levels has a spread of about 0.12.
    assert abs(inner / 400 - 0.2 * 33) < 0.5


def test_types_are_drawn_with_replacement_unless_distinct() -> None:
    rng = Random(4)

    def num_distinct(**options) -> set[int]:
        levels = [TwinLevel.random(rng, kind="pickup", num_tasks=1, **options) for _ in range(200)]
        return {len({type_ for _, _, type_ in level.objects}) for level in levels}

    assert {4, 5, 6} <= num_distinct()
    assert num_distinct(distinct_types=True) == {6}
    assert num_distinct(num_objects=2, num_types=2) == {2}  # two alike are made to differ


def test_pictures_round_trip() -> None:
    rng = Random(5)
    for _ in range(50):
        level = TwinLevel.random(rng, kind="pickup", num_tasks=3)
        again = level_from_ascii(TwinGrid(level, kind="pickup").ascii(), level.tasks)
        level.objects.sort()  # a picture has them in reading order
        assert again == level


def test_fingertip_of_some_known_poses() -> None:
    poses = {
        (0.0, 0.0): (0.24, 0.0),
        (math.pi / 2, 0.0): (0.0, 0.24),
        (0.0, math.pi / 2): (0.12, 0.12),
        (1.0, math.pi): (0.0, 0.0),
    }
    for angles, expected in poses.items():
        world = TwinReacher(TwinReacherLevel(angles, {0: (0.1, 0.0)}, [0]))
        assert world.tip() == pytest.approx(expected, abs=1e-12)


def test_reacher_clips_actions_and_never_wraps_angles() -> None:
    world = TwinReacher(TwinReacherLevel((3.1, -3.1), {4: (0.2, 0.0)}, [4]), max_steps=2)
    assert world.step((100.0, -1.0)) == (0, False, False)
    assert world.step((3.0, -100.0)) == (0, False, True)
    assert world.angles == pytest.approx((3.1 + 0.36, -3.1 - 0.06 - 0.18))


def test_reacher_reaches_one_target_a_step_and_only_the_current_one() -> None:
    # All three within reach of the straight arm's tip at (0.24, 0); type 9 is never asked for.
    targets = {2: (0.22, 0.0), 7: (0.24, 0.02), 9: (0.23, 0.01)}
    world = TwinReacher(TwinReacherLevel((0.0, 0.0), targets, [7, 2]), reward="dense")
    assert world.observation()[[6, 21, 27]].tolist() == [1, 1, 1]
    assert world.step((0.0, 0.0)) == (1, False, False)
    seen = world.observation()
    assert seen[[6, 21, 27]].tolist() == [1, 0, 1]
    assert seen[22:24] == pytest.approx((0.24, 0.02))
    assert world.step((0.0, 0.0)) == (1, True, False)
    seen = world.observation()
    assert seen[[6, 21, 27]].tolist() == [0, 0, 1]
    assert (seen.shape, seen.dtype, np.count_nonzero(seen[[0, 1, 2, 30, 31]])) == ((32,), np.float32, 0)


@pytest.mark.parametrize(("gap", "reached"), [(0.0249, True), (0.0251, False)])
def test_reacher_target_has_a_radius_of_25_mm(gap: float, reached: bool) -> None:
    level = TwinReacherLevel((0.0, 0.0), {0: (0.24 - gap, 0.0)}, [0])
    world = TwinReacher(level, max_steps=1, reward="sparse")
    assert world.step((0.0, 0.0)) == (reached, reached, not reached)  # on the last allowed step


def test_reacher_expert_by_hand() -> None:
    # Tip radius 0.24 cos(0.5), angle 0.7; the target is 0.01 further out and 0.1 further round.
    radius, angle = 0.24 * math.cos(0.5) + 0.01, 0.8
    target = (radius * math.cos(angle), radius * math.sin(angle))
    bent_left = TwinReacher(TwinReacherLevel((0.2, 1.0), {0: target}, [0]))
    assert bent_left.expert_action() == pytest.approx((0.6 + 0.2, -0.4))
    bent_right = TwinReacher(TwinReacherLevel((1.2, -1.0), {0: target}, [0]))
    assert bent_right.expert_action() == pytest.approx((0.6 - 0.2, 0.4))
    # A straight arm bends left at full speed; the shoulder makes up for the clipped speed; the error wraps.
    straight = TwinReacher(TwinReacherLevel((math.tau, 0.0), {0: (0.05, 0.0)}, [0]))
    assert straight.expert_action() == pytest.approx((-1.5, 3.0))


@pytest.mark.parametrize("num_tasks", [1, 3])
def test_random_reacher_levels_are_solved_by_the_expert(num_tasks: int) -> None:
    rng = Random(6)
    num_targets = set()
    for _ in range(200):
        level = TwinReacherLevel.random(rng, num_tasks)
        num_targets.add(len(level.targets))
        assert len(set(level.tasks)) == num_tasks
        assert all(0.05 <= math.hypot(*centre) <= 0.2 for centre in level.targets.values())
        demo = reacher_twin.demonstrate(level)
        assert demo.success
        assert demo.codes == level.tasks
        assert demo.observations.shape == (len(demo.actions) + 1, 32)
        # A target's alpha falls in the observation that the next segment starts from.
        ends = [*demo.boundaries, len(demo.actions)]
        for task, end in zip(level.tasks, ends, strict=True):
            assert demo.observations[end - 1 : end + 1, 3 * task].tolist() == [1, 0]
    assert num_targets == set(range(num_tasks, 7))
