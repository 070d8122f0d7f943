"""Takes frames end to end to a padded table, and gradients back again."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from compile_il.batches import AnyArray, Batch

NOWHERE = -1
"""Place of a frame that no demonstration has."""


def unpack(scores: Any, batch: Batch, max_length: int) -> Any:
    """Per-frame scores as a padded table, B x max_length; padding repeats frames, means nothing and has no gradient.

    Gradients are right only if demonstrations lie end to end; rows that `pick` repeats must come last.
    """
    num_rows = jax.tree.leaves(scores)[0].shape[0]
    first, lengths = jnp.asarray(batch.first), jnp.asarray(batch.lengths)
    index = jnp.minimum(first[:, None] + jnp.arange(max_length), num_rows - 1)
    # Those that found no room lie nowhere, and end where the one before them does.
    ends = jax.lax.cummax(first + lengths + 1)
    rows = jnp.arange(num_rows)
    owner = jnp.searchsorted(ends, rows, side="right", method="scan_unrolled")
    time = rows - first[jnp.minimum(owner, len(first) - 1)]
    place = jnp.where((owner < len(first)) & (time < max_length), owner * max_length + time, NOWHERE)

    def spread(values: Shaped[AnyArray, "F ..."]) -> Shaped[Array, "B T ..."]:
        values = jnp.asarray(values)
        return _spread(values, index, place) if jnp.issubdtype(values.dtype, jnp.inexact) else values[index]

    return jax.tree.map(spread, scores)


@jax.custom_vjp
def _spread(
    values: Float[Array, "F ..."], index: Int[Array, "B T"], place: Int[Array, " F"]
) -> Float[Array, "B T ..."]:
    """The rows at `index`. The way back is a lookup too, where automatic differentiation would sum over all places."""
    return values[index]


def _spread_and_save(
    values: Float[Array, "F ..."], index: Int[Array, "B T"], place: Int[Array, " F"]
) -> tuple[Float[Array, "B T ..."], Int[Array, " F"]]:
    return values[index], place


def _spread_back(place: Int[Array, " F"], gradient: Float[Array, "B T ..."]) -> tuple[Array, None, None]:
    rows = gradient.reshape(-1, *gradient.shape[2:])[jnp.maximum(place, 0)]
    known = (place != NOWHERE).reshape(-1, *[1] * (rows.ndim - 1))
    return jnp.where(known, rows, 0), None, None


_spread.defvjp(_spread_and_save, _spread_back)
