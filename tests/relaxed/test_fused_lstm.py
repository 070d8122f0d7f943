"""The fused LSTM, its kernels interpreted, against the scan: values and every gradient."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.relaxed.fused_lstm import Launch, encode_batch
from compile_il.relaxed.recognition import encode

TIMES, INPUT, HIDDEN = 5, 3, 32


def example(rows: int, *, hidden: int = HIDDEN, seed: int = 0) -> tuple[eqx.nn.LSTMCell, jax.Array, jax.Array]:
    """A cell, inputs and a mask that is soft in places, shut in others and open in the rest."""
    cell_key, input_key, mask_key = jax.random.split(jax.random.key(seed), 3)
    mask = jnp.clip(jax.random.uniform(mask_key, (rows, TIMES), minval=-0.3, maxval=1.3), 0.0, 1.0)
    return eqx.nn.LSTMCell(INPUT, hidden, key=cell_key), jax.random.normal(input_key, (rows, TIMES, INPUT)), mask


def by_scan(cell: Any, inputs: Any, mask: Any) -> Any:
    return jax.vmap(encode, (None, 0, 0))(cell, inputs, mask)


def by_kernel(cell: Any, inputs: Any, mask: Any) -> Any:
    return encode_batch(cell, inputs, mask, interpret=True)


def values_and_gradients(function: Any, cell: Any, inputs: Any, mask: Any) -> Any:
    """Of a sum that weights every encoding differently."""

    def loss(arguments: Any) -> Any:
        encodings = function(*arguments)
        return jnp.sum(jnp.sin(encodings + jnp.arange(encodings.size).reshape(encodings.shape))), encodings

    (_, encodings), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))((cell, inputs, mask))
    return encodings, gradients


def assert_close(one: Any, other: Any, **tolerances: float) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **{"rtol": 1e-4, "atol": 1e-5, **tolerances})


@pytest.mark.parametrize(("rows", "hidden"), [(21, 32), (1, 256)])
def test_kernels_agree_with_the_scan(rows: int, hidden: int) -> None:
    arguments = example(rows, hidden=hidden)
    encodings, gradients = values_and_gradients(by_kernel, *arguments)
    expected, expected_gradients = values_and_gradients(by_scan, *arguments)
    assert encodings.shape == (rows, TIMES, hidden)
    assert_close(encodings, expected)
    assert_close(gradients, expected_gradients)


def test_values_without_gradients_are_the_same() -> None:
    arguments = example(7)
    assert_close(jax.jit(by_kernel)(*arguments), by_scan(*arguments))


def test_members_with_their_own_weights_and_data_run_together() -> None:
    members = [example(5, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    found = jax.jit(jax.vmap(functools.partial(values_and_gradients, by_kernel)))(*stacked)
    for i, member in enumerate(members):
        assert_close(jax.tree.map(lambda x, i=i: x[i], found), values_and_gradients(by_scan, *member))


def test_members_may_share_weights() -> None:
    cell, inputs, mask = example(10)
    inputs, mask = inputs.reshape(2, 5, TIMES, INPUT), mask.reshape(2, 5, TIMES)

    def total(function: Any, cell: Any) -> Any:
        return jnp.sum(jnp.sin(jax.vmap(function, (None, 0, 0))(cell, inputs, mask)))

    gradient = jax.jit(jax.grad(total, 1), static_argnums=0)
    assert_close(gradient(by_kernel, cell), gradient(by_scan, cell))


def test_a_single_time() -> None:
    cell, inputs, mask = example(3)
    arguments = cell, inputs[:, :1], mask[:, :1]
    assert_close(values_and_gradients(by_kernel, *arguments), values_and_gradients(by_scan, *arguments))


def test_bfloat16_products_are_near() -> None:
    def in_bfloat16(cell: Any, inputs: Any, mask: Any) -> Any:
        return encode_batch(cell, inputs, mask, launch=Launch(weight_dtype=jnp.bfloat16), interpret=True)

    arguments = example(16)
    encodings, gradients = values_and_gradients(in_bfloat16, *arguments)
    expected, expected_gradients = values_and_gradients(by_scan, *arguments)
    assert encodings.dtype == jnp.float32
    assert_close(encodings, expected, atol=1e-2)
    assert_close(gradients, expected_gradients, rtol=2e-2, atol=5e-2)
    assert np.abs(encodings - expected).max() > 1e-6


@pytest.mark.parametrize("hidden", [5, 8, 48, 512])
def test_other_sizes_fall_back_to_the_scan(hidden: int) -> None:
    arguments = example(2, hidden=hidden)
    assert_close(encode_batch(*arguments, interpret=True), by_scan(*arguments), rtol=0, atol=0)


def test_without_a_gpu_the_scan_is_chosen() -> None:
    jaxpr = str(jax.make_jaxpr(encode_batch)(*example(2)))
    assert ("pallas_call" in jaxpr) == (jax.default_backend() == "gpu")
