"""Pictures in a report are those of the data."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.image import imread

from compile_il.data.demonstrations import Demonstrations
from compile_il.report.runs import Run
from compile_il.report.scenes import draw_film

RNG = np.random.default_rng(0)


def pictures(markup: str) -> list[np.ndarray]:
    files = re.findall(r"data:image/png;base64,([\w+/=]+)", markup)
    return [(255 * imread(io.BytesIO(base64.b64decode(file)))[..., :3]).round().astype(int) for file in files]


def film(frames: np.ndarray, runs: list[Run]) -> str:
    demos = Demonstrations.from_arrays([frames], [np.zeros(len(frames) - 1, int)])
    return draw_film(demos[0], runs)


def test_a_film_shows_the_beginning_and_each_end() -> None:
    frames = RNG.integers(0, 256, (9, 6, 5, 3)).astype(np.uint8)
    markup = film(frames, [Run(0, 3, 2), Run(3, 7, 0), Run(7, 8, 1)])
    for picture, step in zip(pictures(markup), (0, 3, 7, 8), strict=True):
        np.testing.assert_array_equal(picture, frames[step])
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
        (np.array([[0.0, 1.0], [0.6, 0.2]]), [[0, 255], [153, 51]]),
        (np.array([[0, 1], [1, 0]], np.uint8), [[0, 255], [255, 0]]),
        (np.array([[0.0, 200.0], [40.0, 7.0]]), [[0, 200], [40, 7]]),
        (np.full((2, 2), 200, np.uint8), [[200, 200], [200, 200]]),
        (np.full((2, 2), 700.0), [[0, 0], [0, 0]]),
    ],
    ids=["numbers", "shares", "ones", "bytes in floats", "one grey", "all the same"],
)
@pytest.mark.parametrize("num_channels", [1, 2])
def test_grids_without_colours_are_grey(frames: np.ndarray, expected: list[list[int]], num_channels: int) -> None:
    grid = np.kron(frames, np.ones((3, 3), frames.dtype))[..., None].repeat(num_channels, axis=-1)
    markup = film(np.stack([grid, grid]), [Run(0, 1, 0)])
    for picture in pictures(markup):
        np.testing.assert_array_equal(picture[::3, ::3, 0], expected)
        np.testing.assert_array_equal(picture[..., 0], picture[..., 2])
    assert ("mean of the channels" in markup) == (num_channels > 1)


def test_how_opaque_an_image_is_is_not_shown() -> None:
    frames = RNG.integers(0, 256, (2, 6, 5, 4)).astype(np.uint8)
    for picture, expected in zip(pictures(film(frames, [Run(0, 1, 0)])), frames, strict=True):
        np.testing.assert_array_equal(picture, expected[..., :3])


def test_colours_between_zero_and_one_are_not_stretched() -> None:
    pastel = np.broadcast_to([0.8, 0.6, 0.4], (2, 6, 5, 3))
    for picture in pictures(film(np.array(pastel), [Run(0, 1, 0)])):
        assert picture[0, 0].tolist() == [204, 153, 102]


def test_large_images_are_averaged_down_and_keep_their_shape() -> None:
    blocks = RNG.integers(0, 256, (2, 50, 20, 3)).astype(np.uint8)
    frames = blocks.repeat(2, axis=1).repeat(2, axis=2)
    for picture, expected in zip(pictures(film(frames, [Run(0, 1, 0)])), blocks, strict=True):
        np.testing.assert_array_equal(picture, expected)
