"""Twenty thousand levels: all solvable, and distributed as designed."""

from random import Random

import jax
import numpy as np
import pytest
from scipy import stats

from compile_il.worlds.demonstrate import draw_episodes
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.maze import spanning_tree
from compile_il.worlds.world import Episode
from tests.twins.grid_twin import TwinLevel, distances
from tests.worlds.rollout import draw_levels, to_twin

NUM_LEVELS = 20_000
SURE = 1e-4
"""Chance of a false alarm for each statistical test; seeds are fixed, so a pass stays a pass."""


@pytest.fixture(scope="module")
def visit() -> Episode:
    return jax.tree.map(np.asarray, draw_episodes(GridWorld(kind="visit"), jax.random.key(0), 0, NUM_LEVELS))


@pytest.fixture(scope="module")
def pickup() -> Episode:
    return jax.tree.map(np.asarray, draw_episodes(GridWorld(kind="pickup"), jax.random.key(1), 0, NUM_LEVELS))


def test_every_demonstration_succeeds(visit: Episode, pickup: Episode) -> None:
    for episodes in (visit, pickup):
        assert episodes.success.all()
        assert episodes.length.max() < 200


@pytest.mark.parametrize("kind", ["pickup", "visit"])
def test_expert_lengths_are_breadth_first_distances(kind: str, request: pytest.FixtureRequest) -> None:
    episodes: Episode = request.getfixturevalue(kind)
    states, every = episodes.states, np.arange(NUM_LEVELS)
    # The states in which each task began, and the last one: what was still there, and where the player stood.
    begins = np.stack([(states.task_index >= task).argmax(axis=1) for task in range(4)], axis=1)
    present, player = states.present[every[:, None], begins], states.player[every[:, None], begins]
    for index in range(NUM_LEVELS):
        level = to_twin(episodes.level, index)
        for task in range(3):
            there = present[index, task]
            wanted = [
                (r, c)
                for (r, c, k), is_there in zip(level.objects, there, strict=True)
                if is_there and k == level.tasks[task]
            ]
            row, column = divmod(int(player[index, task]), 10)
            distance = distances(level.walls, wanted)[row, column]
            # Standing on the very thing: step off, and pick it up from there; or pick up an equal one beside it.
            if distance == 0:
                beside = any(abs(r - row) + abs(c - column) == 1 for r, c in wanted)
                assert begins[index, task + 1] - begins[index, task] == (1 if beside else 2)
            else:
                assert begins[index, task + 1] - begins[index, task] == distance


def test_objects_stand_alone_on_reachable_cells_and_uniformly(visit: Episode) -> None:
    cells = np.concatenate([visit.level.object_cells, visit.level.player[:, None]], axis=1)
    expected, variance = np.zeros((10, 10)), np.zeros((10, 10))
    for index in range(NUM_LEVELS):
        level = to_twin(visit.level, index)
        reach = distances(level.walls, [level.player])
        places = [divmod(int(cell), 10) for cell in cells[index]]
        assert len(set(places)) == 7
        assert all(place in reach for place in places)
        rows, columns = np.array(list(reach)).T
        share = len(places) / len(reach)
        expected[rows, columns] += share
        variance[rows, columns] += share * (1 - share)
    counted = np.bincount(cells.reshape(-1), minlength=100).reshape(10, 10)
    inner = np.s_[1:-1, 1:-1]
    assert (np.abs(counted - expected)[inner] < 4.5 * np.sqrt(variance)[inner]).all()
    assert counted.sum() == counted[inner].sum()


def test_border_is_closed_and_inner_density_is_a_fifth_of_the_maze(visit: Episode) -> None:
    walls = visit.level.walls
    assert walls[:, [0, -1]].all()
    assert walls[:, :, [0, -1]].all()
    # The maze opens 16 lattice cells and 15 passages of the 64 inner cells; each of the other 33 is kept with 0.2.
    kept = walls[:, 1:-1, 1:-1].sum(axis=(1, 2))
    assert stats.binomtest(int(kept.sum()), 33 * NUM_LEVELS, 0.2).pvalue > SURE
    assert abs(kept.var() - 33 * 0.2 * 0.8) < 0.15


def test_walls_favour_no_side(visit: Episode) -> None:
    frequency = visit.level.walls[:, 1:-1, 1:-1].mean(axis=0)
    spread = np.sqrt(frequency.max() / NUM_LEVELS)
    for turned in (frequency[::-1], frequency[:, ::-1], frequency.T):
        assert np.abs(frequency - turned).max() < 6 * spread


def test_walls_are_those_of_the_twin(visit: Episode) -> None:
    rng, num = Random(0), 4000
    twin = np.mean([TwinLevel.random(rng, kind="visit", num_tasks=3).walls for _ in range(num)], axis=0)[1:-1, 1:-1]
    ours = visit.level.walls[:, 1:-1, 1:-1].mean(axis=0)
    spread = np.sqrt(ours.max() * (1 / num + 1 / NUM_LEVELS))
    assert np.abs(twin - ours).max() < 5 * spread


def test_spanning_trees_reach_every_cell_once_and_choose_fairly() -> None:
    trees = np.asarray(jax.jit(jax.vmap(lambda key: spanning_tree(key, 4)))(jax.random.split(jax.random.key(0), 8000)))
    root = 5
    assert (trees < 4).sum(axis=(1, 2)).tolist() == [15] * len(trees)
    assert (trees == root).sum(axis=(1, 2)).tolist() == [1] * len(trees)
    for tree in trees[:200]:
        for row in range(4):
            for column in range(4):
                r, c, hops = row, column, 0
                while tree[r, c] != root:
                    r, c = r + (-1, 0, 1, 0)[tree[r, c]], c + (0, 1, 0, -1)[tree[r, c]]
                    hops += 1
                    assert hops < 16, "a loop"
    # From a corner root, the first cell entered is either neighbour with equal chance.
    corner = trees[trees[:, 0, 0] == root]
    entered_east, entered_south = corner[:, 0, 1] == 3, corner[:, 1, 0] == 0
    only_east = int((entered_east & ~entered_south).sum())
    only_south = int((entered_south & ~entered_east).sum())
    assert stats.binomtest(only_east, only_east + only_south).pvalue > SURE
    roots = np.bincount((trees.reshape(len(trees), -1) == root).argmax(axis=1), minlength=16)
    assert stats.chisquare(roots).pvalue > SURE


def test_types_are_uniform_with_replacement(visit: Episode) -> None:
    types = visit.level.object_types
    for slot in range(6):
        assert stats.chisquare(np.bincount(types[:, slot], minlength=10)).pvalue > SURE
    pairs = stats.binomtest(int((types[:, 0] == types[:, 1]).sum()), NUM_LEVELS, 0.1)
    assert pairs.pvalue > SURE


def test_pickup_tasks_are_an_ordered_choice_of_the_objects(pickup: Episode) -> None:
    tasks, types = pickup.level.tasks, pickup.level.object_types
    for slot in range(3):
        assert stats.chisquare(np.bincount(tasks[:, slot], minlength=10)).pvalue > SURE
    for index in range(NUM_LEVELS):
        scene = types[index].tolist()
        for task in tasks[index]:
            scene.remove(task)


def test_visit_tasks_come_from_the_scene_and_never_repeat_at_once(visit: Episode) -> None:
    tasks, types = visit.level.tasks, visit.level.object_types
    assert (tasks[:, 1:] != tasks[:, :-1]).all()
    assert (tasks[:, :, None] == types[:, None, :]).any(axis=2).all()
    for slot in range(3):
        assert stats.chisquare(np.bincount(tasks[:, slot], minlength=10)).pvalue > SURE
    assert (tasks[:, 2] == tasks[:, 0]).mean() > 0.1, "a list may return to an object"


def test_a_level_always_holds_two_types() -> None:
    types = np.asarray(draw_levels(GridWorld(num_types=2, num_objects=3, kind="visit"), 0, NUM_LEVELS).object_types)
    assert (types.min(axis=1) < types.max(axis=1)).all()


def test_distinct_types() -> None:
    types = np.asarray(draw_levels(GridWorld(distinct_types=True), 0, NUM_LEVELS).object_types)
    assert all(len(set(row)) == 6 for row in types.tolist())
    assert stats.chisquare(np.bincount(types[:, 0], minlength=10)).pvalue > SURE


@pytest.mark.parametrize("size", [5, 16])
def test_other_sizes_are_solvable_too(size: int) -> None:
    world = GridWorld(size=size, num_objects=3, wall_rate=0.9, kind="pickup")
    assert np.asarray(draw_episodes(world, jax.random.key(0), 0, 500).success).all()
