"""The grid world seen through a window: film strips, crops of the board, and the grid world's own episodes."""

import textwrap

import numpy as np
import pytest

import compile_il as cil
from compile_il.report.runs import Run, look_of
from compile_il.report.scenes import draw_scene
from compile_il.worlds import make_world
from compile_il.worlds.grid import GridWindowWorld, GridWorld
from compile_il.worlds.world import WorldError
from tests.worlds.rollout import draw_levels, film, from_ascii, play

N, E, S, W, PICK_N, PICK_E, PICK_S, PICK_W = range(8)


def check_film(board: str, tasks: str, actions: list[int], strip: str) -> None:
    level = from_ascii(textwrap.dedent(board), tasks)
    num_objects, size = level.object_cells.shape[0], level.walls.shape[0]
    world = GridWindowWorld(num_tasks=len(tasks), num_objects=num_objects, size=size)
    assert film(world, level, actions)[0] == textwrap.dedent(strip).strip()


def test_in_a_corner_all_that_lies_beyond_the_board_is_wall() -> None:
    board = """
        #######
        #@.B..#
        #.#..A#
        #..#..#
        #.C...#
        #....D#
        #######
    """
    strip = """
        ##### ##### ##### ##### ##..B
        ##### ##### ##..B ##..B ##.#.
        ##@.B ##@.B ##@#. ##@#. ##@.#
        ##.#. ##.#. ##..# ##..# ##.C.
        ##..# ##..# ##.C. ##.C. ##...
    """
    check_film(board, "A", [N, S, E, S], strip)


def test_in_the_middle_the_board_moves_past_the_player() -> None:
    board = """
        #######
        #..B..#
        #.#..A#
        #..@..#
        #.C...#
        #....D#
        #######
    """
    strip = """
        ..B.. .B..# ##### #####
        .#..A #..A# .B..# .B..#
        ..@.. ..@.# #.@A# #.@.#
        .C... C...# ....# ....#
        ....D ...D# C...# C...#
    """
    check_film(board, "A", [E, N, PICK_E], strip)


@pytest.mark.parametrize("kind", ["pickup", "visit"])
@pytest.mark.parametrize("window", [3, 5, 17])
def test_a_window_is_cut_out_of_the_board_with_walls_around_it(kind: str, window: int) -> None:
    whole, part = GridWorld(kind=kind), GridWindowWorld(kind=kind, window=window)
    levels = draw_levels(whole, 0, 40)
    actions = np.random.default_rng(0).integers(0, 8, (40, 25))
    boards, *outcomes = map(np.asarray, play(whole, levels, actions))
    windows, *same_outcomes = map(np.asarray, play(part, levels, actions))
    for outcome, same in zip(outcomes, same_outcomes, strict=True):
        np.testing.assert_array_equal(outcome, same)
    assert windows.shape == (40, 26, window, window, 12)
    assert windows.dtype == np.uint8
    margin = window // 2
    for board, seen in zip(boards.reshape(-1, 10, 10, 12), windows.reshape(-1, window, window, 12), strict=True):
        padded = np.pad(board, ((margin, margin), (margin, margin), (0, 0)))
        padded[..., 10] = np.pad(board[..., 10], margin, constant_values=1)
        ((row, column),) = np.argwhere(board[..., 11])
        np.testing.assert_array_equal(seen, padded[row : row + window, column : column + window])


@pytest.mark.parametrize("name", ["grid-pickup", "grid-visit"])
def test_the_same_seed_gives_the_same_episodes(name: str) -> None:
    whole = cil.demonstrate(name, num_demos=50, num_tasks=2, seed=3)
    part = cil.demonstrate(f"{name}-window", num_demos=50, num_tasks=2, seed=3)
    assert part.observation_shape == (5, 5, 12)
    assert part.storage.observations.values.dtype == whole.storage.observations.values.dtype
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.truth.boundaries, other.truth.boundaries)
        np.testing.assert_array_equal(one.truth.codes, other.truth.codes)


def test_options() -> None:
    assert make_world("grid-visit-window", window=7, num_tasks=4) == GridWindowWorld("visit", 4, window=7)
    for window, message in ((4, "window is 4: use an odd number of cells, 3 to 17"), (19, "3 to 17"), (1, "3 to 17")):
        with pytest.raises(WorldError, match=message):
            make_world("grid-pickup-window", window=window)
    with pytest.raises(WorldError, match=r"window is 5\.0: use a whole number"):
        GridWindowWorld(window=5.0)
    with pytest.raises(WorldError, match="World 'grid-pickup' has no option 'window'"):
        make_world("grid-pickup", window=5)
    with pytest.raises(WorldError, match="did you mean 'grid-pickup-window'"):
        make_world("grid-pickup-windw")


def test_reports_draw_windows_as_they_are() -> None:
    demos = cil.demonstrate("grid-pickup-window", num_demos=5)
    assert look_of(demos) == "maze"
    scene = draw_scene(demos[0], [Run(0, len(demos[0]), 0)], "maze")
    assert scene.count("<polyline") == 1
