"""Pictures in a report are those of the data."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.image import imread

from compile_il.demos import Demonstrations
from compile_il.report.film import draw_film, png
from compile_il.report.runs import Run

RNG = np.random.default_rng(0)


def pictures(markup: str) -> list[np.ndarray]:
    files = re.findall(r"data:image/png;base64,([\w+/=]+)", markup)
    return [(255 * imread(io.BytesIO(base64.b64decode(file)))).round().astype(int) for file in files]


def film(frames: np.ndarray, runs: list[Run]) -> str:
    demos = Demonstrations.from_arrays([frames], [np.zeros(len(frames) - 1, int)])
    return draw_film(demos[0], runs)


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 4, 3), (64, 64, 3)])
def test_a_png_holds_its_pixels(shape: tuple[int, ...]) -> None:
    pixels = RNG.integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal((255 * imread(io.BytesIO(png(pixels)))).round(), pixels)


def test_a_film_shows_the_beginning_and_each_end() -> None:
    frames = RNG.integers(0, 256, (9, 6, 5, 3)).astype(np.uint8)
    markup = film(frames, [Run(0, 3, 2), Run(3, 7, 0), Run(7, 8, 1)])
    for found, step in zip(pictures(markup), (0, 3, 7, 8), strict=True):
        np.testing.assert_array_equal(found, frames[step])
    assert re.findall(r'class="frame( k\d)?"', markup) == ["", " k2", " k0", " k1"]
    assert re.findall(r"<figcaption>(\d+)", markup) == ["0", "3", "7", "8"]
    assert "mean of the channels" not in markup


def test_long_films_are_cut() -> None:
    markup = film(RNG.random((13, 5, 5, 3)), [Run(t, t + 1, 0) for t in range(12)])
    assert len(pictures(markup)) == 9
    assert "the first 8 of 12" in markup


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (np.array([[0.0, -3.0], [1.0, 0.0]]), [[191, 0], [255, 191]]),
        (np.array([[0, 1], [1, 0]], np.uint8), [[0, 255], [255, 0]]),
        (np.full((2, 2), 7.0), [[0, 0], [0, 0]]),
    ],
    ids=["numbers", "ones", "all the same"],
)
def test_other_grids_are_grey_from_dark_to_light(frames: np.ndarray, expected: list[list[int]]) -> None:
    grid = np.kron(frames, np.ones((3, 3), frames.dtype))  # at least five rows
    markup = film(np.stack([grid, grid])[..., None], [Run(0, 1, 0)])
    for found in pictures(markup):
        np.testing.assert_array_equal(found[::3, ::3, 0], expected)
        np.testing.assert_array_equal(found[..., 0], found[..., 2])
    assert "mean of the channels" in markup


def test_large_images_are_averaged_down() -> None:
    blocks = RNG.integers(0, 256, (2, 50, 40, 3)).astype(np.uint8)
    frames = blocks.repeat(2, axis=1)
    for found, expected in zip(pictures(film(frames, [Run(0, 1, 0)])), blocks, strict=True):
        np.testing.assert_array_equal(found, expected)
