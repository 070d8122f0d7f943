"""The prior and the KL terms against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from compile_il.inference.records import LOG_ZERO
from compile_il.inference.relaxed.distributions import (
    categorical_kl,
    first_boundary_kl,
    first_boundary_prior,
    gaussian_code_losses,
    gaussian_kl,
    log_boundary_prior,
    relax,
    shift,
    soft_length_cost,
)

NUM_TIMES = 12


def truncated(rate: float, length: int) -> np.ndarray:
    mass = scipy.stats.poisson(rate).pmf(np.arange(length + 1))
    return mass / mass.sum()


@pytest.mark.parametrize("rate", [0.5, 3.0, 9.0])
@pytest.mark.parametrize("length", [1, 5, 11])
def test_prior_is_a_truncated_poisson(rate: float, length: int) -> None:
    found = np.exp(first_boundary_prior(rate, jnp.array(length), NUM_TIMES))
    np.testing.assert_allclose(found[: length + 1], truncated(rate, length), rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(found[length + 1 :], 0.0)


@pytest.mark.parametrize("rate", [0.5, 3.0, 20.0, 200.0])
def test_prior_of_a_boundary_given_the_one_before(rate: float) -> None:
    """Rates far beyond what is left included, where the whole mass that is kept underflows."""
    length = 9
    for begin, end in ((0, 0), (0, 4), (3, 9), (9, 9), (2, 2)):
        kept = scipy.special.logsumexp(scipy.stats.poisson.logpmf(np.arange(length - begin + 1), rate))
        expected = scipy.stats.poisson.logpmf(end - begin, rate) - kept
        found = log_boundary_prior(rate, jnp.array(length), jnp.array(begin), jnp.array(end), NUM_TIMES)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("length", [2, 11])
def test_kl_of_the_first_boundary(length: int) -> None:
    logits = np.random.default_rng(length).normal(size=NUM_TIMES)
    logits[0] = logits[length + 1 :] = LOG_ZERO
    q = np.exp(logits[1 : length + 1]) / np.exp(logits[1 : length + 1]).sum()
    expected = scipy.stats.entropy(np.append(0.0, q), truncated(3.0, length))  # SciPy's relative entropy
    found, gradient = jax.value_and_grad(first_boundary_kl)(jnp.asarray(logits, jnp.float32), 3.0, jnp.array(length))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.isfinite(gradient).all()


def test_soft_length_cost_of_whole_lengths() -> None:
    length, logits = 8, np.full(NUM_TIMES, LOG_ZERO)
    logits[3] = 0.0
    segment = (np.arange(NUM_TIMES) < 3).astype(np.float32)
    arguments = jnp.asarray(logits, jnp.float32), jnp.asarray(segment), 3.0, jnp.array(length)
    np.testing.assert_allclose(soft_length_cost(*arguments), -np.log(truncated(3.0, length)[3]), rtol=1e-5)


def test_kl_of_codes() -> None:
    logits = np.random.default_rng(0).normal(size=5)
    q = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(categorical_kl(jnp.asarray(logits)), scipy.stats.entropy(q, np.full(5, 0.2)), rtol=1e-5)
    mean, log_variance = np.array([0.3, -2.0]), np.array([0.5, -1.0])
    grid = np.linspace(-20, 20, 200_001)
    expected = 0.0
    for m, v in zip(mean, np.exp(log_variance), strict=True):
        p = scipy.stats.norm(m, np.sqrt(v))
        expected += np.trapezoid(p.pdf(grid) * (p.logpdf(grid) - scipy.stats.norm.logpdf(grid)), grid)
    np.testing.assert_allclose(gaussian_kl(jnp.asarray(mean), jnp.asarray(log_variance)), expected, rtol=1e-5)


def test_low_temperatures_approach_the_largest() -> None:
    logits, gumbel = jnp.array([0.1, 0.5, -1.0]), jnp.array([0.7, 0.1, 0.2])
    np.testing.assert_allclose(np.exp(relax(logits, gumbel, 0.01)), [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.exp(relax(logits, gumbel, 1.0)), jax.nn.softmax(logits + gumbel), rtol=1e-5)
    np.testing.assert_allclose(shift(jnp.array([1.0]), jnp.log(jnp.array([4.0])), jnp.array([0.5])), [2.0], rtol=1e-6)


def test_labelled_gaussian_codes_move_the_prior() -> None:
    rng = np.random.default_rng(5)
    mean, log_variance = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    found = gaussian_code_losses(jnp.asarray(mean), jnp.asarray(log_variance), jnp.array([2, -1, 0]), 0.3)
    away = {i: jnp.asarray(mean[i] - 2 * np.eye(4)[code]) for i, code in ((0, 2), (2, 0))}
    labelled = [gaussian_kl(away[i], jnp.asarray(log_variance[i])) for i in (0, 2)]
    free = 0.3 * gaussian_kl(jnp.asarray(mean[1]), jnp.asarray(log_variance[1]))
    np.testing.assert_allclose(found, [labelled[0], free, labelled[1]], rtol=1e-5)
