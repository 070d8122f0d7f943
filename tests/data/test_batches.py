"""Batches hold what the demonstrations hold, whatever their padding, and leave out what has no room."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from compile_il.data.batch import (
    ROUND_FRAMES,
    ROUND_STEPS,
    Batch,
    batch_of,
    frame_budget,
    has_action,
    pick,
    rounded_batch,
    rows_filled_up,
    to_padded,
)
from compile_il.data.labels import UNKNOWN
from compile_il.inference.exact import engine as exact
from compile_il.inference.exact.segment_scores import Priors, point_mass
from compile_il.worlds.demonstrate import draw_batch, observe_frames
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.symbols import SymbolsWorld
from tests.inference.exact.small import SMALL, priors_of, small_model, vector_demos

log_likelihoods = eqx.filter_jit(functools.partial(exact.map_batch, exact.log_likelihood))
GRID = GridWorld(kind="pickup", num_tasks=2, max_steps=30)


@jax.jit
def loss_and_gradient(frames: Array, batch: Batch, priors: Priors, log_count: Array) -> tuple[Array, Array]:
    def loss(frames: Array) -> Array:
        likelihoods = log_likelihoods(small_model().skills, batch._replace(frames=frames), priors, log_count)
        return -jnp.sum(jnp.where(batch.fits, likelihoods, 0.0)) / jnp.maximum(jnp.sum(batch.fits), 1)

    return jax.value_and_grad(loss)(frames)


def test_frames_of_a_world_are_those_of_its_demonstrations() -> None:
    key, size = jax.random.key(3), 4
    episodes = jax.jit(jax.vmap(GRID.episode))(jax.random.split(key, size))
    lengths = np.asarray(episodes.length)
    batch = draw_batch(GRID, jax.random.split(key, size), 120, 31)
    np.testing.assert_array_equal(batch.lengths, lengths)
    np.testing.assert_array_equal(batch.first, np.cumsum(lengths + 1) - lengths - 1)
    assert np.asarray(batch.fits).all() == (int((lengths + 1).sum()) <= 120)
    unpacked = to_padded({"frames": batch.frames, "actions": batch.actions}, batch, 31)
    owner, time = np.divmod(np.arange(size * 31), 31)
    padded = np.asarray(observe_frames(GRID, episodes, jnp.asarray(owner), jnp.asarray(time)))
    padded = padded.reshape(size, 31, *padded.shape[1:])
    for i, n in enumerate(lengths):
        np.testing.assert_array_equal(unpacked["frames"][i, : n + 1], padded[i, : n + 1])
        np.testing.assert_array_equal(unpacked["actions"][i, :n], episodes.actions[i, :n])
    assert (np.asarray(batch.boundary_labels) == UNKNOWN).all()


def test_worlds_without_room() -> None:
    world = SymbolsWorld(num_tasks=2)
    keys = jax.random.split(jax.random.key(0), 4)
    whole, cut, short = (draw_batch(world, keys, n, t) for n, t in ((40, 8), (12, 8), (40, 4)))
    lengths = np.asarray(whole.lengths)
    assert np.asarray(whole.fits).all()
    np.testing.assert_array_equal(cut.fits, np.cumsum(lengths + 1) <= 12)
    assert not np.asarray(cut.fits).all()
    np.testing.assert_array_equal(short.fits, lengths <= 4)
    assert not np.asarray(short.fits).all()
    assert short.boundary_labels.shape == (4, 4)


@pytest.mark.parametrize("max_length", [9, 12])
def test_data_agrees_with_padded(max_length: int) -> None:
    demos = vector_demos()
    batch, padded = batch_of(demos.storage, 32, max_length), demos.padded(max_length)
    assert batch.fits.all()
    np.testing.assert_array_equal(batch.lengths, padded.lengths)
    found = to_padded({"frames": batch.frames, "actions": batch.actions}, batch, max_length)
    np.testing.assert_array_equal(np.asarray(found["frames"])[padded.valid], padded.observations[:, :-1][padded.valid])
    np.testing.assert_array_equal(np.asarray(found["actions"])[padded.valid], padded.actions[padded.valid])
    last_frames = to_padded(batch.frames, batch, max_length + 1)
    for row, observations, n in zip(last_frames, demos.observations, demos.lengths, strict=True):
        np.testing.assert_array_equal(row[n], observations[n])


@pytest.mark.parametrize("num_frames", [32, 20])
def test_gradients_find_their_frames(num_frames: int) -> None:
    """Two of the demonstrations have no room in the smaller batch."""
    batch, max_length = batch_of(vector_demos().storage, num_frames, 9), 11
    weights = jax.random.normal(jax.random.key(0), (len(batch.first), max_length))
    counted = (np.arange(max_length) <= batch.lengths[:, None]) & batch.fits[:, None]

    def total(table: Array) -> Array:
        return jnp.sum(jnp.where(counted, weights * jnp.tanh(table), 0.0))

    scores = jax.random.normal(jax.random.key(1), (num_frames,))
    found = jax.grad(lambda scores: total(to_padded(scores, batch, max_length)))(scores)
    rows = np.minimum(batch.first[:, None] + np.arange(max_length), num_frames - 1)
    np.testing.assert_allclose(found, jax.grad(lambda scores: total(scores[rows]))(scores), rtol=1e-6)
    padding = jax.grad(lambda scores: jnp.sum(jnp.where(counted, 0.0, to_padded(scores, batch, max_length))))(scores)
    used = int((batch.lengths[batch.fits] + 1).sum())
    np.testing.assert_array_equal(padding[:used], 0)


@pytest.mark.parametrize("num_frames", [32, 20])
def test_no_action_is_taken_where_a_demonstration_ends(num_frames: int) -> None:
    batch = batch_of(vector_demos().storage, num_frames, 9)
    ends = (batch.first + batch.lengths)[batch.fits]
    assert np.flatnonzero(~np.asarray(has_action(batch))).tolist() == ends.tolist()


def test_labels_travel() -> None:
    demos = vector_demos()[:2].with_labels(boundaries=[[-1, 0, 1, -1, 0], None], codes=[None, [2] * 9])
    batch = batch_of(demos.storage, 16, 9)
    assert batch.boundary_labels.tolist() == [[-1, 0, 1, -1, 0, -1, -1, -1, -1], [-1] * 9]
    assert batch.code_labels.tolist() == [[-1] * 9, [2] * 9]


def test_padding_changes_no_likelihood() -> None:
    model, demos = small_model(), vector_demos()
    priors, log_count = priors_of(model, demos.max_length), point_mass(3, 3)
    alone = [
        log_likelihoods(model.skills, batch_of(demos[[i]].storage, 10, 9), priors, log_count)[0]
        for i in range(len(demos))
    ]
    for num_frames, max_length in ((29, 9), (40, 14)):
        together = log_likelihoods(model.skills, batch_of(demos.storage, num_frames, max_length), priors, log_count)
        np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_demonstrations_without_room_do_not_influence_the_loss() -> None:
    demos, priors, log_count = vector_demos(), priors_of(small_model(), 9), point_mass(3, 3)
    cut = batch_of(demos.storage, 20, 9)  # 6 + 10 frames fit, 8 more do not, nor does what comes after
    assert cut.fits.tolist() == [True, True, False, False]
    loss, gradient = loss_and_gradient(jnp.asarray(cut.frames), cut, priors, log_count)
    two = log_likelihoods(small_model().skills, batch_of(demos[:2].storage, 20, 9), priors, log_count)
    np.testing.assert_allclose(loss, -np.mean(two), rtol=1e-5)
    other = cut._replace(lengths=np.array([5, 9, 3, 3], np.int32), first=np.array([0, 6, 1, 2], np.int32))
    again, gradient_again = loss_and_gradient(jnp.asarray(cut.frames), other, priors, log_count)
    np.testing.assert_array_equal(again, loss)
    np.testing.assert_array_equal(gradient_again, gradient)
    assert np.isfinite(gradient).all()


def test_nothing_fits() -> None:
    batch = batch_of(vector_demos().storage, 4, 9)
    assert not batch.fits.any()
    loss, gradient = loss_and_gradient(jnp.asarray(batch.frames), batch, priors_of(small_model(), 9), point_mass(3, 3))
    assert loss == 0
    assert not gradient.any()


def test_pick_repeats_rows() -> None:
    batch = batch_of(vector_demos().storage, 32, 9)
    picked = pick(batch, np.array([2, 0, 0]))
    assert picked.lengths.tolist() == [7, 5, 5]
    assert picked.frames is batch.frames
    assert picked.boundary_labels.shape == (3, 9)


def test_shapes_are_few() -> None:
    demos = vector_demos()
    rows = rows_filled_up(3, 5)
    np.testing.assert_array_equal(rows, [0, 1, 2, 0, 0])
    batch = rounded_batch(demos, rows, max_length=17)
    assert batch.frames.shape == (ROUND_FRAMES, 2)
    assert batch.boundary_labels.shape == (5, 2 * ROUND_STEPS)
    np.testing.assert_array_equal(batch.lengths, demos.lengths[rows])
    assert batch.fits.all()


@pytest.mark.parametrize("batch_size", [2, 4, 32])
def test_budgets_have_room_for_a_rare_long_demonstration(batch_size: int) -> None:
    lengths = np.append(np.full(999, 100), 1000)
    assert frame_budget(lengths, batch_size) >= 1001 + (batch_size - 1) * 101


def test_budgets_hold_random_batches() -> None:
    lengths = np.random.default_rng(0).integers(5, 40, 1000)
    budget = frame_budget(lengths, SMALL.batch_size * 8)
    draws = np.random.default_rng(1).choice(lengths + 1, (1000, SMALL.batch_size * 8)).sum(axis=1)
    assert draws.max() <= budget <= 32 * 41
    assert frame_budget(np.array([7]), 1) == 8
