"""Demonstrations of unusual length have a bucket of their own, and nothing but the time depends on it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from compile_il.config import Config
from compile_il.data.batch import (
    Batch,
    Bucket,
    batch_of,
    batches_by_bucket,
    frame_budget,
    group_by_length,
    make_buckets,
    rows_needed,
    usual_length,
)
from compile_il.data.demonstrations import Demonstrations
from compile_il.inference.engines import ENGINES
from compile_il.inference.records import Loss
from compile_il.training.feeds import DatasetBatches
from compile_il.training.sources import make_source
from compile_il.training.trainer import Trainer
from tests.inference.exact.small import SMALL, model_for

QUADRATIC = ENGINES["exact"].cost_of(Config())
MIXED = (5, 6, 60, 7, 5, 8, 6, 7, 5, 6, 8)


def demos_of(lengths: Sequence[int] = MIXED) -> Demonstrations:
    rng = np.random.default_rng(0)
    frames = [rng.normal(size=(n + 1, 2)).astype(np.float32) for n in lengths]
    return Demonstrations.from_arrays(frames, [rng.integers(0, 3, n) for n in lengths], num_actions=3)


@pytest.mark.parametrize(
    ("lengths", "batch_size", "usual"),
    [
        ([7] * 20, 4, 7),
        (list(range(20, 79)), 32, 78),  # no length is unusual
        ([*range(20, 79), 2000], 32, 78),
        ([10, 2000], 2, 2000),  # every batch has the long one, and is cheaper by less than a half
        ([10, 2000], 1, 2000),
        ([10] * 100 + [1000] * 100, 32, 1000),
        ([10] * 1000 + [1000], 1, 10),  # nearly every batch does without
        ([10] * 2 + [1000] * 2, 1, 1000),
        ([9], 1, 9),
    ],
)
def test_which_lengths_are_usual(lengths: list[int], batch_size: int, usual: int) -> None:
    assert usual_length(np.array(lengths), batch_size, QUADRATIC) == usual


def test_what_a_length_costs() -> None:
    """Sums over all pairs of times, or over those that a longest segment allows; or one pass."""
    for config, expected in (
        (Config(), 100 * 100),
        (Config(longest_segment=30), 100 * 30),
        (Config(longest_segment=300), 100 * 100),
        (Config(inference="relaxed"), 100),
    ):
        assert ENGINES[config.inference].cost_of(config)(100) == expected


def test_which_lengths_are_usual_does_not_depend_on_devices() -> None:
    lengths = np.array([10] * 100 + [1000])
    for num_shares in (1, 2, 8):
        usual, long = make_buckets(lengths, 8, num_shares, QUADRATIC)
        assert (usual.up_to, usual.num_rows, long.up_to, long.num_rows) == (10, 8 // num_shares, 1000, 1)


@pytest.mark.parametrize(
    ("num_chosen", "num_all", "batch_size"), [(23, 10_000, 16), (9, 1000, 4), (5, 7, 6), (1, 9, 9)]
)
def test_a_bucket_is_too_small_once_in_a_billion(num_chosen: int, num_all: int, batch_size: int) -> None:
    most = rows_needed(num_chosen, num_all, batch_size)
    more = hypergeom(num_all, num_chosen, batch_size).sf
    assert more(most) <= 1e-9 * (1 + 1e-6)
    assert more(most - 1) > 1e-9


@given(
    st.lists(st.integers(1, 9) | st.integers(100, 120), min_size=2, max_size=20), st.integers(1, 6), st.integers(0, 9)
)
def test_every_demonstration_of_a_batch_is_in_one_bucket(lengths: list[int], batch_size: int, seed: int) -> None:
    demos, batch_size = demos_of(lengths), min(batch_size, len(lengths))
    longest = max(lengths)
    buckets = make_buckets(demos.lengths, batch_size, 1, QUADRATIC)
    if min(lengths) < longest:
        buckets = [
            Bucket(0, longest - 1, batch_size, frame_budget(demos.lengths, batch_size)),
            Bucket(longest - 1, longest, batch_size, batch_size * (longest + 1)),
        ]
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(len(demos), batch_size, replace=False) for _ in range(2)]
    found: list[dict[int, np.ndarray]] = [{}, {}]
    for stacked in batches_by_bucket(demos, chosen, buckets):
        for i, rows in enumerate(found):
            batch = Batch(*(field[i] for field in stacked))
            for row, first, length, fits in zip(batch.rows, batch.first, batch.lengths, batch.fits, strict=True):
                if fits:
                    assert row not in rows
                    rows[int(row)] = np.asarray(batch.frames[first : first + length + 1])
    for indices, rows in zip(chosen, found, strict=True):
        assert sorted(rows) == list(range(batch_size))
        for place, index in enumerate(indices):
            np.testing.assert_array_equal(rows[place], demos.observations[index])


SIZES: dict[str, Any] = {"num_skills": 3, "hidden_dim": 8, "batch_size": 4, "num_seeds": 2, "num_iterations": 4}


def test_training_does_not_depend_on_buckets() -> None:
    """Losses and gradients of two seeds are those of batches all in one bucket."""
    config = Config(num_segments=None, **SIZES)
    source = make_source(demos_of(), config)
    apart, together = Trainer(config, source), Trainer(config, source)
    assert isinstance(apart.batches, DatasetBatches)
    assert isinstance(together.batches, DatasetBatches)
    assert [bucket.up_to for bucket in apart.batches.buckets] == [8, 60]
    together.batches.buckets = [Bucket(0, 60, 4, frame_budget(source.demos.lengths, 4))]
    num_buckets = set()
    for iteration in range(4):
        num_buckets.add(len(apart.batches.draw(iteration)))
        results = [trainer.step(trainer.start(), iteration) for trainer in (apart, together)]
        leaves = [jax.tree.leaves((loss, state.optimiser[0].mu)) for state, loss in results]
        for one, other in zip(*leaves, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert num_buckets == {1, 2}


def test_noise_is_that_of_the_row_in_the_batch() -> None:
    """Relaxed losses, with their samples, are those of each demonstration by itself with the key of its row."""
    config = Config(inference="relaxed", **SIZES | {"num_seeds": 1})
    demos = demos_of((60, 5, 6, 7, 5, 8, 6, 5, 6, 7))
    trainer = Trainer(config, make_source(demos, config))
    buckets = make_buckets(demos.lengths, 4, 1, ENGINES[config.inference].cost_of(config))
    assert [bucket.up_to for bucket in buckets] == [8, 60]
    chosen = np.array([3, 0, 5, 8])
    keys = jax.random.split(jax.random.key(0), (1, 1, 4))
    apart = batches_by_bucket(demos, [chosen], buckets)
    assert len(apart) == 2
    alone = [batch_of(demos[[index]].storage, 64, 60 if index == 0 else 8) for index in chosen]
    alone = [batch._replace(rows=np.array([row])) for row, batch in enumerate(alone)]

    @jax.jit
    def loss(batches: tuple[Batch, ...]) -> Loss:
        return trainer._gradients(trainer.start().params, batches, keys, iteration=jnp.array(0))[0]

    found = loss(jax.tree.map(lambda leaf: leaf[None], apart))
    expected = loss(jax.tree.map(lambda leaf: leaf[None, None], tuple(alone)))
    np.testing.assert_allclose(found.total, expected.total, rtol=1e-5)
    for name, value in expected.terms.items():
        np.testing.assert_allclose(found.terms[name], value, rtol=1e-5, err_msg=name)


def test_segments_come_back_in_order() -> None:
    """Of demonstrations of usual and of unusual lengths between them, as of each by itself; and so do samples."""
    demos = demos_of((5, 70, 6, 5, 80, 5, 6, 7))
    assert [group.tolist() for group in group_by_length(demos.lengths, QUADRATIC)] == [[0, 2, 3, 5, 6, 7], [1, 4]]
    model = model_for(demos, SMALL)
    counts = [3, 2, 1, 2, 3, 1, 2, 3]
    found = model.segment(demos, counts)
    assert found.num_segments.tolist() == counts
    for i in (0, 4, 7):  # with other numbers, other programs would be compiled
        alone = model.segment(demos[[i]], 3)
        np.testing.assert_array_equal(found.boundaries[i], alone.boundaries[0])
        np.testing.assert_array_equal(found.skills[i], alone.skills[0])
        np.testing.assert_allclose(found.boundary_probs[i], alone.boundary_probs[0], atol=1e-5)
        np.testing.assert_allclose(found.log_likelihood[i], alone.log_likelihood[0], rtol=1e-5)
    drawn = model.sample(demos, 3, seed=1)
    assert [len(probabilities) for probabilities in drawn.boundary_probs] == demos.lengths.tolist()
