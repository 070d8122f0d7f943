"""Segment any number of demonstrations of any lengths in chunks: few programs, and bounded memory."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.batch import Batch, Cost, alike_in_length, rounded_batch, rows_filled_up
from compile_il.data.segments import Segments, join_segments
from compile_il.inference.records import BatchSegments, is_impossible

_DEMOS_PER_CALL, _STEPS_PER_CALL = 256, 1 << 16
Find = Callable[[Batch, Float[Array, "B counts"], NDArray[np.intp]], BatchSegments]
"""A function that segments a batch, given log p(M) of its demonstrations and their places among all of them."""


class DivergedError(DemonstrationError):
    """A model whose weights are not numbers any more."""


def segment_in_chunks(find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], cost: Cost) -> Segments:
    """Segments all demonstrations in parts; those of usual lengths and the long ones are looked at apart.

    Args:
      find: the function that segments one part.
      demos: all demonstrations.
      log_counts: log p(M) of each demonstration.
      cost: the function that gives the cost of a demonstration by its length.
    """
    places, parts = [], []
    for alike in alike_in_length(demos.lengths, cost):
        num_rows = _rows_per_call(len(alike), int(demos.lengths[alike].max()))
        for first in range(0, len(alike), num_rows):
            some = alike[first : first + num_rows]
            places.append(some)
            parts.append(_find_in(find, demos[some], log_counts[some], some, num_rows))
    found = join_segments(parts, np.concatenate(places))
    if np.isnan(found.log_likelihood).any():
        raise DivergedError(
            "The model's scores are not numbers: its training diverged. Train again with a lower learning_rate."
        )
    impossible = np.flatnonzero(is_impossible(jnp.asarray(found.log_likelihood)))
    if len(impossible):
        raise DemonstrationError(
            f"Demonstration {impossible[0]} has no segmentation into that many segments that agrees with its "
            "labels and the longest segment: change the labels, num_segments or longest_segment."
        )
    return found


def _find_in(
    find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], places: NDArray[np.intp], num_rows: int
) -> Segments:
    rows = rows_filled_up(len(demos), num_rows)
    batch = rounded_batch(demos, rows, demos.max_length)
    found = jax.tree.map(np.asarray, find(batch, jnp.asarray(log_counts[rows]), places[rows]))
    counts = found.num_segments
    return Segments(
        boundaries=[found.ends[i, : counts[i] - 1].astype(np.int32) for i in range(len(demos))],
        skills=[found.skills[i, : counts[i]] for i in range(len(demos))],
        boundary_probs=[found.boundary_probs[i, :n] for i, n in enumerate(demos.lengths)],
        count_probs=list(found.count_probs[: len(demos)]),
        log_likelihood=found.log_likelihood[: len(demos)],
    )


def _rows_per_call(num_demos: int, max_length: int) -> int:
    """Returns the number of demonstrations in one call: a power of two, to compile few programs."""
    most = min(_DEMOS_PER_CALL, 1 << max(_STEPS_PER_CALL // max_length, 1).bit_length() - 1)
    return min(most, 1 << (num_demos - 1).bit_length())
