"""The duration factor against SciPy's Poisson."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

from compile_il.config import Config
from compile_il.inference.exact.skills import FIRST_WEIGHT, Durations, poisson_log_duration

LEARNED_WEIGHT = Durations(Config())


def learned_rate(weight: float) -> Durations:
    return Durations(Config(num_segments=None, duration_weight=weight))


@pytest.mark.parametrize(("rate", "longest"), [(0.5, 4), (3.0, 10), (20.0, 12), (150.0, 400)])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_poisson_of_at_least_one_step(rate: float, weight: float, longest: int) -> None:
    durations = np.arange(1, longest + 1)
    expected = weight * (poisson.logpmf(durations, rate) - np.log(1 - poisson.pmf(0, rate)))
    found = poisson_log_duration(rate, weight, longest)
    assert found.shape == (longest + 1,)
    np.testing.assert_allclose(found[1:], expected, rtol=1e-4, atol=1e-4)


def test_how_long_a_segment_may_be_changes_nothing_else() -> None:
    np.testing.assert_array_equal(poisson_log_duration(7.0, 0.3, 5), poisson_log_duration(7.0, 0.3, 90)[:6])


def test_sums_to_one() -> None:
    np.testing.assert_allclose(np.exp(poisson_log_duration(4.0, 1.0, 60)[1:]).sum(), 1.0, rtol=1e-5)


def test_a_learned_weight_begins_small_and_stays_between_0_and_1() -> None:
    start = LEARNED_WEIGHT
    np.testing.assert_allclose(start.weight, FIRST_WEIGHT, rtol=1e-5)
    for logit in (-50.0, 50.0):
        moved = eqx.tree_at(lambda durations: durations.weight_logit, start, jnp.array(logit))
        assert 0 <= moved.weight <= 1


def test_a_learned_factor_is_a_distribution_of_lengths() -> None:
    found = LEARNED_WEIGHT.log_duration(6.0, 48)
    np.testing.assert_allclose(jnp.sum(jnp.exp(found[1:])), 1.0, rtol=1e-5)
    short = LEARNED_WEIGHT.log_duration(6.0, 5, allowed=5)
    np.testing.assert_allclose(jnp.sum(jnp.exp(short[1:])), 1.0, rtol=1e-5)
    tempered = poisson_log_duration(6.0, FIRST_WEIGHT, 48)
    np.testing.assert_allclose(found[2:] - found[1], tempered[2:] - tempered[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("allowed", [None, 9])
def test_padding_changes_no_learned_factor(allowed: int | None) -> None:
    """However long the longest demonstration of a batch is."""
    short, long = (LEARNED_WEIGHT.log_duration(6.0, longest, allowed) for longest in (7, 300))
    np.testing.assert_allclose(short, long[:8], rtol=1e-6)


@pytest.mark.parametrize(("lengths", "rises"), [([5, 6, 7, 6], True), ([1, 1, 2, 20], False)])
def test_regular_lengths_raise_the_weight_and_others_lower_it(lengths: list[int], rises: bool) -> None:
    def log_likelihood(durations: Durations) -> jax.Array:
        return jnp.sum(durations.log_duration(6.0, 40)[jnp.array(lengths)])

    assert (jax.grad(log_likelihood)(LEARNED_WEIGHT).weight_logit > 0) == rises


@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_a_learned_rate_begins_where_training_says(weight: float) -> None:
    start = learned_rate(weight)
    np.testing.assert_allclose(start.log_duration(2.5, 30), poisson_log_duration(2.5, weight, 30), rtol=1e-6)
    np.testing.assert_array_equal(start.log_duration(2.5, 30, allowed=4), start.log_duration(2.5, 30))


@pytest.mark.parametrize("weight", [0.5, 1.0])
@pytest.mark.parametrize("lengths", [[9, 11, 12, 8], [1, 1, 2, 1]])
def test_a_learned_rate_finds_the_mean_length(lengths: list[int], weight: float) -> None:
    """Where the likelihood is largest, the Poisson of at least one step has the mean of the lengths."""

    def loss(durations: Durations) -> jax.Array:
        return -jnp.sum(durations.log_duration(3.0, 20)[jnp.array(lengths)])

    def improved(_: int, at: Durations) -> Durations:
        return jax.tree.map(lambda one, slope: one - 1e-3 * slope, at, jax.grad(loss)(at))

    rate = float(jax.lax.fori_loop(0, 2000, improved, learned_rate(weight)).rate(3.0))
    np.testing.assert_allclose(rate / -np.expm1(-rate), np.mean(lengths), rtol=1e-3)
