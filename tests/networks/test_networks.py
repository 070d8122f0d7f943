"""Embeddings, and the convolution against XLA's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.data.spaces import Scaling, Space
from compile_il.networks.embeddings import GridEmbedding, ZeroEmbedding, make_embedding, to_bfloat16
from tests.networks.plain_networks import convolve

NOTHING = jnp.zeros((0,))
NO_CHANGES = jnp.zeros((0, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_grid(dtype: type) -> None:
    space = Space("grid", (5, 6, 4), num_symbols=0, num_actions=3, action_dim=0)
    scaling = Scaling(NOTHING, NOTHING, NOTHING, NOTHING, NO_CHANGES, NOTHING)
    embedding = make_embedding(space, scaling, num_maps=2, hidden_dim=8, key=jax.random.key(0))
    assert isinstance(embedding, GridEmbedding)
    embedded = embedding(jnp.ones((5, 6, 4), dtype))
    assert embedded.shape == (8,)
    np.testing.assert_allclose(embedded.mean(), 0, atol=1e-5)  # LayerNorm on top


@pytest.mark.parametrize("shape", [(5, 6, 4), (8, 8, 4), (7, 9, 4)])
def test_grids_are_read_row_by_row(shape: tuple[int, int, int]) -> None:
    """As a network without tiles would, from the same weights."""
    embedding = GridEmbedding(shape, 3, 8, normed=False, key=jax.random.key(0))
    biases = eqx.tree_at(lambda net: (net.first.bias, net.second.bias), embedding, (jnp.arange(3.0), jnp.ones(3)))
    image = jax.random.normal(jax.random.key(1), shape)
    maps = image
    for layer in (biases.first, biases.second):
        maps = jax.nn.relu(convolve(layer, maps))
    np.testing.assert_allclose(biases(image), embedding.linear(maps.reshape(-1)), rtol=1e-4, atol=1e-5)


def test_vectors_are_brought_to_one_scale() -> None:
    space = Space("vector", (2,), num_symbols=0, num_actions=3, action_dim=0)
    mean, spread = jnp.array([5.0, -100.0]), jnp.array([2.0, 50.0])
    raw, unit = (
        make_embedding(
            space, Scaling(m, s, NOTHING, NOTHING, NO_CHANGES, NOTHING), num_maps=2, hidden_dim=8, key=jax.random.key(0)
        )
        for m, s in ((mean, spread), (jnp.zeros(2), jnp.ones(2)))
    )
    vector = jnp.array([0.3, -1.2])
    np.testing.assert_allclose(raw(vector * spread + mean), unit(vector), rtol=1e-4, atol=1e-5)


def test_vectors_are_not_rounded_in_half_precision() -> None:
    space = Space("vector", (2,), num_symbols=0, num_actions=3, action_dim=0)
    scaling = Scaling(jnp.array([1000.0, 0.0]), jnp.ones(2), NOTHING, NOTHING, NO_CHANGES, NOTHING)
    embedding = make_embedding(space, scaling, num_maps=2, hidden_dim=32, key=jax.random.key(0))
    half = to_bfloat16(embedding)
    local_copy, there = jnp.array([1001.0, 0.3]), jnp.array([999.0, 0.3])  # the same number in bfloat16
    assert half(local_copy).dtype == jnp.bfloat16
    for vector in (local_copy, there):
        np.testing.assert_allclose(half(vector).astype(jnp.float32), embedding(vector), atol=0.05)
    assert jnp.abs(half(local_copy) - half(there)).max() > 0.2


def test_vectors_of_width_zero_give_a_constant() -> None:
    space = Space("vector", (0,), num_symbols=0, num_actions=3, action_dim=0)
    embedding = make_embedding(
        space,
        Scaling(NOTHING, NOTHING, NOTHING, NOTHING, NO_CHANGES, NOTHING),
        num_maps=2,
        hidden_dim=8,
        key=jax.random.key(0),
    )
    embedded = embedding(NOTHING)
    assert embedded.shape == (8,)
    assert np.isfinite(embedded).all()


def test_symbols_have_a_vector_each() -> None:
    space = Space("symbol", (), num_symbols=4, num_actions=3, action_dim=0)
    embedding = make_embedding(
        space,
        Scaling(NOTHING, NOTHING, NOTHING, NOTHING, NO_CHANGES, NOTHING),
        num_maps=2,
        hidden_dim=8,
        key=jax.random.key(0),
    )
    table = jax.vmap(embedding)(jnp.arange(4))
    assert table.shape == (4, 8)
    assert len(np.unique(np.round(table, 4), axis=0)) == 4


def test_no_states_are_zeros() -> None:
    space = Space("vector", (0,), num_symbols=0, num_actions=3, action_dim=0)
    scaling = Scaling(NOTHING, NOTHING, NOTHING, NOTHING, NO_CHANGES, NOTHING)
    embedding = make_embedding(space, scaling, num_maps=2, hidden_dim=8, key=jax.random.key(0))
    assert isinstance(embedding, ZeroEmbedding)
    for network, dtype in ((embedding, jnp.float32), (to_bfloat16(embedding), jnp.bfloat16)):
        embedded = network(NOTHING)
        assert (embedded.shape, embedded.dtype) == ((8,), dtype)
        assert not embedded.any()
