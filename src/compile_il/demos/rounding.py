"""What is lost where real numbers are rounded to float32, which holds about seven digits of each."""

import numpy as np
from jaxtyping import Bool, Float

LEAST_STEPS = 100
"""Fewest steps between neighbouring numbers of float32 that the standard deviation of a column must span."""
CONSTANT = 1e-12
"""Columns that spread less, relative to their largest entry, are constant but for the rounding of float64."""


def lost_columns(values: Float[np.ndarray, "N D"], rounded: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " D"]:
    """Returns which columns float32 is too coarse for: far from zero, with differences that are small beside it.

    Columns that float32 holds as they are, and constant ones, are not among them.

    Args:
      values: real numbers, all of a size that float32 can hold.
      rounded: the same in float32.
    """
    changed = (values != rounded).any(axis=0)
    if not changed.any():
        return changed
    largest = np.maximum(values.max(axis=0), -values.min(axis=0))
    spread = values.std(axis=0, dtype=np.float64)
    coarse = LEAST_STEPS * np.spacing(largest.astype(np.float32)) > spread
    return changed & coarse & (spread > CONSTANT * largest)
