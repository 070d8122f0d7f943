"""Drawings show the numbers of their result files, and say which files these were."""

from pathlib import Path
from typing import get_args

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from compile_il.worlds.drawing import grid_text
from experiments.paper.figures import (
    COLORS,
    Picture,
    PictureFormat,
    draw_curves,
    draw_scores,
    drawn_from,
    methods_of,
    panels_of,
    save_picture,
    seeds_of,
    smooth,
)
from experiments.paper.portrait_figures import draw_segments, draw_skills, draw_terminations, observation_of_text
from experiments.paper.tables import study_cells
from tests.experiments.paper import made_up


def title(axes: Axes) -> str:
    return axes.get_title(loc="left")


def test_dots_are_means_and_ticks_are_seeds() -> None:
    result = made_up.result("figure4")
    part = "grid-visit, CompILE"
    assert seeds_of(result, part, "online") == {3: pytest.approx([40, 60]), 5: pytest.approx([20, 40])}
    assert seeds_of(result, "grid-pickup, LSTM surprisal", "online") == {}
    assert set(seeds_of(result, "grid-pickup, LSTM surprisal", "boundary_accuracy")) == {3, 5}
    assert seeds_of(result, "grid-pickup, VAE-BC", "boundary_accuracy") == {}
    figure = draw_scores(result)
    assert len(figure.axes) == 2 * 4
    for row, methods in zip((figure.axes[:4], figure.axes[4:]), methods_of(result).values(), strict=True):
        names = [label.get_text().removesuffix(" (ours)") for label in row[0].get_yticklabels()]
        assert names == list(methods)
        for axes, missing in zip(row, ("VAE-BC", *["LSTM surprisal"] * 3), strict=True):
            drawn = {mark: [line for line in axes.lines if line.get_marker() == mark] for mark in "o|"}
            shown = [method for method in methods if method != missing]
            expected = [(pytest.approx(mean), COLORS[method]) for method in shown for mean in (50, 30)]
            assert [(dot.get_xdata()[0], dot.get_color()) for dot in drawn["o"]] == expected
            seeds = [pytest.approx([mean - 10, mean + 10]) for _ in shown for mean in (50, 30)]
            assert [line.get_xdata() for line in drawn["|"]] == seeds


def test_levels_come_back_from_text() -> None:
    frame = observation_of_text(made_up.LEVEL)
    assert frame.shape == (5, 5, 10 + 2)
    assert np.argwhere(frame[..., :-2]).tolist() == [[1, 2, 0], [3, 3, 1]]
    assert np.argwhere(frame[..., -1]).tolist() == [[1, 1]]
    assert frame[..., -2].sum() == 16
    assert grid_text(frame).splitlines() == made_up.LEVEL


def test_skills_are_marked() -> None:
    takes, wanders = draw_skills(made_up.portrait(early=False, relaxed=True)).axes[:2]
    crosses = [
        [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == "x"] for axes in (takes, wanders)
    ]
    assert crosses == [[[[2, 1]]], []]
    assert (title(takes), takes.get_title(loc="right")) == ("skill 0", "inferred · 1 step")
    assert (title(wanders), wanders.get_title(loc="right")) == ("skill 1", "does not stop")


def test_heat_is_the_share_of_levels() -> None:
    first = draw_terminations(made_up.portrait(early=False, relaxed=True)).axes[0]
    expected = np.zeros((3, 3))
    expected[0, 0], expected[0, 2] = 60, 20
    np.testing.assert_allclose(first.images[0].get_array(), expected)
    assert first.get_title(loc="right") == "stops in 80 %"


def test_soft_segments_stand_on_each_other() -> None:
    figure = draw_segments(made_up.result("qualitative"))
    labels = [axes.get_ylabel() for axes in figure.axes]
    late, early = "7,000 iterations", "70 iterations"
    expected = [f"CompILE\n{early}", f"CompILE\n{early}, a sample", f"CompILE\n{late}", f"CompILE\n{late}, a sample"]
    assert labels == [*expected, "exact\n80 iterations", "exact\n8,000 iterations"]
    for axes in figure.axes:
        tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
        np.testing.assert_allclose(tops, 1)


@pytest.mark.parametrize("form", get_args(PictureFormat))
def test_pictures_name_their_source_and_are_the_same_each_time(form: PictureFormat, tmp_path: Path) -> None:
    source = made_up.write(tmp_path, "figure7")
    figure = Figure((1, 1))
    figure.text(0.5, 0.5, "words")
    picture = Picture("figure7", "a caption", lambda: figure)
    drawn = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        path = save_picture(picture, folder, source, form)
        assert path == folder / f"figure7.{form}"
        drawn.append(path.read_bytes())
    assert drawn[0] == drawn[1]
    assert f"atplotlib v{matplotlib.__version__}".encode() not in drawn[0]
    assert drawn_from(source).encode() in drawn[0]
    source.write_text("{}")
    assert drawn_from(source).encode() not in drawn[0]


def test_curves_are_those_of_the_agents() -> None:
    result = made_up.result("figure5")
    panels = panels_of(result)
    assert len(panels) == 8
    np.testing.assert_array_equal(panels["grid-visit, 3 tasks, dense"]["low-level"][1], [[np.nan, 50], [25, 100]])
    figure = draw_curves(result)
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in drawn] == list(panels)
    for axes in drawn:
        assert len(axes.lines) == 4 * 2 * 2  # agents, seeds, as it came and smoothed
        np.testing.assert_array_equal(axes.lines[2].get_ydata(), [25, 100])
        np.testing.assert_allclose(axes.lines[3].get_ydata(), [25, 100])  # two points have no inner one
    np.testing.assert_allclose(smooth(np.array([np.nan, 50.0, 20.0, 80.0, 0.0])), [np.nan, 35, 50, 100 / 3, 0])
    (row, *_) = study_cells(result).rows
    assert row == ["grid-visit, 3 tasks, dense", *["50.0 ± 14.1"] * 4, f"{4 * made_up.WALL_TIME / 60:.1f}"]
