"""A step that a skill explains hopelessly badly, or with probability zero, costs nothing but the paths through it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.inference.exact.segment_scores import point_mass
from tests.inference.exact.cases import GRADIENTS, LIKELIHOODS, best_segmentation, enumerate_all, free
from tests.inference.exact.cases import case as case_of

LENGTH, SKILLS = 6, 3


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("score", [-1e3, -1e5, -1e8, -1e30, -np.inf])
@pytest.mark.parametrize("table", ["log_policy", "log_stop", "log_go"])
def test_what_comes_after_is_exact(table: str, score: float, name: str) -> None:
    steps, priors = case_of(LENGTH, SKILLS, seed=3)
    spoilt = steps._replace(**{table: getattr(steps, table).at[0, 1].set(score).at[2, 0].set(3 * score)})
    counts = jnp.asarray(point_mass(3, 4), jnp.float32)
    finite = jax.tree.map(lambda leaf: jnp.maximum(leaf, -1e30), spoilt)
    paths = enumerate_all(finite, priors, LENGTH, 3)
    log_probs = np.array([path.log_prob for path in paths])
    expected = np.logaddexp.reduce(log_probs)
    arguments = spoilt, priors, free(LENGTH, SKILLS), counts
    best, found = best_segmentation(*arguments)
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=1e-5)
    assert np.isfinite(found.boundary_probs).all()
    np.testing.assert_allclose(np.sum(found.boundary_probs[1:LENGTH]), 2.0, rtol=1e-4)
    np.testing.assert_allclose(best.log_prob, log_probs.max(), rtol=1e-5)
    total, gradient = GRADIENTS[name](*arguments)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient[0]))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_segment_that_must_go_through_it_pays_for_it(name: str) -> None:
    steps, priors = case_of(LENGTH, 1, seed=3)
    spoilt = steps._replace(log_policy=steps.log_policy.at[2, 0].set(-5e4))
    counts = jnp.asarray(point_mass(1, 4), jnp.float32)
    (path,) = enumerate_all(spoilt, priors, LENGTH, 1)
    found, _ = GRADIENTS[name](spoilt, priors, free(LENGTH, 1), counts)
    np.testing.assert_allclose(found, path.log_prob, rtol=1e-6)
