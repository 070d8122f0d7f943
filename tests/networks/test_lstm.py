"""The batched LSTM gives what one row at a time gives, and so does its gradient, which is written out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from compile_il.networks.lstm import masked_passes_by_scan
from tests.inference.relaxed.single import masked_pass

ROWS, TIMES, HIDDEN, MEMBERS = 3, 5, 4, 2


def example() -> tuple[Any, ...]:
    """A cell for each member, inputs, masks that are zero and one at times, and a direction for gradients."""
    keys = jax.random.split(jax.random.key(0), 4)
    cells = eqx.filter_vmap(lambda key: eqx.nn.LSTMCell(HIDDEN, HIDDEN, key=key))(jax.random.split(keys[0], MEMBERS))
    projected = jax.random.normal(keys[1], (MEMBERS, ROWS, TIMES, 4 * HIDDEN))
    mask = jnp.clip(jax.random.uniform(keys[2], (MEMBERS, ROWS, TIMES), minval=-0.5, maxval=1.5), 0, 1)
    return cells, projected, mask, jax.random.normal(keys[3], (MEMBERS, ROWS, TIMES, HIDDEN))


def row_by_row(cell: Any, projected: Any, mask: Any) -> Any:
    return jax.vmap(masked_pass, (None, 0, 0))(cell, projected, mask)


@eqx.filter_jit
def pulled_back(encode: Any, cells: Any, projected: Any, mask: Any, direction: Any) -> Any:
    def one(weight: Any, cell: Any, projected: Any, mask: Any, direction: Any) -> Any:
        def run(weight: Any, projected: Any, mask: Any) -> Any:
            return encode(eqx.tree_at(lambda cell: cell.weight_hh, cell, weight), projected, mask)

        value, pull = jax.vjp(run, weight, projected, mask)
        return value, pull(direction)

    return eqx.filter_vmap(one)(cells.weight_hh, cells, projected, mask, direction)


def test_values_and_gradients_are_those_of_single_rows() -> None:
    ours, theirs = (pulled_back(encode, *example()) for encode in (masked_passes_by_scan, row_by_row))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.abs(other).max() > 0.01
        np.testing.assert_allclose(one, other, atol=2e-6)


def test_weights_in_half_precision_get_gradients_in_half_precision() -> None:
    cells, projected, mask, _ = example()
    cell = jax.tree.map(lambda leaf: leaf[0].astype(jnp.bfloat16), eqx.filter(cells, eqx.is_array))
    cell = eqx.combine(cell, eqx.filter(cells, eqx.is_array, inverse=True))
    gradient = eqx.filter_grad(lambda cell: jnp.sum(masked_passes_by_scan(cell, projected[0], mask[0]) ** 2))(cell)
    assert gradient.weight_hh.dtype == jnp.bfloat16
    assert masked_passes_by_scan(cell, projected[0], mask[0]).dtype == jnp.float32
