"""Shapes and colours of the objects in drawings: ten things that nobody confuses, in colour or in grey."""

import numpy as np
from matplotlib.path import Path
from numpy.typing import NDArray

Points = NDArray[np.float64]

COLORS = (
    "#e03e52",  # heart
    "#2b8a3e",  # tree
    "#f2b705",  # star
    "#1098ad",  # gem
    "#6741d9",  # moon
    "#c2740c",  # bell
    "#1c7ed6",  # drop
    "#d6336c",  # flag
    "#5c677d",  # key
    "#fd7e14",  # sun
)


def _closed(points: Points | list[tuple[float, float]]) -> Path:
    points = np.asarray(points, float)
    return Path(np.concatenate([points, points[:1]]), closed=True)


def _arc(start: float, stop: float, radius: float = 1.0, center: tuple[float, float] = (0.0, 0.0)) -> Points:
    """Points on a circle between two angles in degrees."""
    angle = np.radians(np.linspace(start, stop, 40))
    return np.stack([center[0] + radius * np.cos(angle), center[1] + radius * np.sin(angle)], axis=1)


def _heart() -> Path:
    t = np.linspace(0, 2 * np.pi, 80)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return _closed(np.stack([x / 17, (y + 2.5) / 15], axis=1))


def _tree() -> Path:
    right = [
        (0.0, 1.0),
        (0.55, 0.3),
        (0.28, 0.3),
        (0.72, -0.25),
        (0.4, -0.25),
        (0.85, -0.72),
        (0.16, -0.72),
        (0.16, -1.0),
    ]
    return _closed(right + [(-x, y) for x, y in reversed(right[1:])])


def _star() -> Path:
    return _closed(np.asarray(Path.unit_regular_star(5, 0.45).vertices, float))


def _gem() -> Path:
    return _closed([(-0.55, 0.75), (0.55, 0.75), (1.0, 0.2), (0.0, -0.95), (-1.0, 0.2)])


def _moon() -> Path:
    # The inner arc runs back from the lower horn to the upper one, round the left of a circle that passes through both.
    return _closed(np.concatenate([_arc(50, 310, 0.95), _arc(282.4, 77.6, 0.747, (0.45, 0.0))]))


def _bell() -> Path:
    dome = _arc(0, 180, 0.52, (0.0, 0.3))
    brim = [(-0.52, -0.2), (-0.9, -0.6), (-0.22, -0.6)]
    clapper = _arc(180, 360, 0.22, (0.0, -0.66))
    return _closed(np.concatenate([dome, brim, clapper, [(0.22, -0.6), (0.9, -0.6), (0.52, -0.2)]]))


def _drop() -> Path:
    return _closed(np.concatenate([[(0.0, 1.0)], _arc(150, 390, 0.66, (0.0, -0.3))]))


def _flag() -> Path:
    return _closed([(-0.62, 1.0), (0.85, 0.5), (-0.38, 0.02), (-0.38, -1.0), (-0.62, -1.0)])


def _key() -> Path:
    bow, hole = _closed(_arc(0, 360, 0.58, (0.0, 0.5))), _closed(_arc(360, 0, 0.22, (0.0, 0.5)))
    blade, bit = [(-0.17, 0.0), (-0.17, -1.05), (0.62, -1.05), (0.62, -0.74)], [(0.52, -0.52), (0.52, -0.24)]
    shaft = _closed([*blade, (0.17, -0.74), (0.17, -0.52), *bit, (0.17, -0.24), (0.17, 0.0)])
    return Path.make_compound_path(bow, hole, shaft)


def _sun() -> Path:
    points = []
    for ray in range(10):
        middle = 36.0 * ray
        points += [
            _arc(middle - 12, middle - 11, 0.62),
            _arc(middle, middle + 1, 1.0),
            _arc(middle + 12, middle + 13, 0.62),
        ]
    return _closed(np.concatenate(points))


GLYPHS = (
    _heart(),
    _tree(),
    _star(),
    _gem(),
    _moon(),
    _bell(),
    _drop(),
    _flag(),
    _key(),
    _sun(),
)
"""One shape for each of the names in `grid.OBJECT_NAMES`, in the box from -1 to 1."""
