"""Demonstrations whose segments nobody can miss."""

import functools

import numpy as np

from compile_il.data.demonstrations import Demonstrations

CENTRES = 4.0 * np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])


@functools.cache
def plateaus(num_demos: int = 40, num_segments: int = 3, seed: int = 0) -> Demonstrations:
    """Vectors that stay near one of four centres for 2 to 6 steps, then at another; actions say nothing."""
    rng = np.random.default_rng(seed)
    observations, actions, boundaries, codes = [], [], [], []
    for _ in range(num_demos):
        kinds = rng.permutation(len(CENTRES))[:num_segments]
        durations = rng.integers(2, 7, num_segments)
        kind_of_frame = np.repeat(kinds, durations + (np.arange(num_segments) == num_segments - 1))
        observations.append(CENTRES[kind_of_frame] + 0.1 * rng.normal(size=(len(kind_of_frame), 3)))
        actions.append(rng.integers(0, 2, durations.sum()))
        boundaries.append(np.cumsum(durations)[:-1])
        codes.append(kinds)
    return Demonstrations.from_arrays(observations, actions, num_actions=2, boundaries=boundaries, codes=codes)


def assert_found(found: list[np.ndarray], demos: Demonstrations) -> None:
    """Every boundary, and nothing else."""
    assert demos.truth.boundaries is not None
    for ours, true in zip(found, demos.truth.boundaries, strict=True):
        np.testing.assert_array_equal(ours, true)
