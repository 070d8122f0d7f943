"""The recursion by rows equals the dense one, and takes long demonstrations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.inference.exact.constraints import Constraints, constraints_from_labels
from compile_il.inference.exact.segment_scores import Priors, point_mass
from compile_il.inference.records import LOG_ZERO, StepScores
from tests.inference.exact.cases import (
    ANY_COUNT,
    GRADIENTS,
    LIKELIHOODS,
    MAX_STEPS,
    NO_SEGMENT_CODES,
    best_segmentation,
    case,
    given,
    no_constraints,
)

NUM_SKILLS = 3
LABELS = {
    "none": ([-1] * 7, [-1] * 7),
    "boundaries": ([-1, -1, 1, 0, -1, -1, -1], [-1] * 7),
    "codes": ([-1] * 7, [-1, 0, -1, 2, -1, -1, -1]),
}

dense_gradient, rows_gradient = GRADIENTS["dense"], GRADIENTS["rows"]


def known_of(length: int, name: str) -> Constraints:
    boundaries, codes = LABELS[name]
    return constraints_from_labels(
        jnp.array(length), jnp.array(boundaries), jnp.array(codes), NO_SEGMENT_CODES, NUM_SKILLS
    )


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("count", [3, None])
@pytest.mark.parametrize("length", [4, 6, 7])
def test_equals_dense(length: int, count: int | None, labels: str) -> None:
    steps, priors = case(length, NUM_SKILLS)
    known = known_of(length, labels)
    log_count = ANY_COUNT if count is None else given(count)
    arguments = steps, priors, known, log_count
    (expected, dense), (found, by_rows) = dense_gradient(*arguments), rows_gradient(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(jax.tree.leaves(by_rows), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(("length", "longest"), [(7, 1), (7, 3), (5, 3), (7, 6), (6, 6)])
def test_longest_segment(length: int, longest: int, labels: str) -> None:
    """A window of `longest` times in place of whole rows."""
    steps, priors = case(length, NUM_SKILLS)
    short = priors._replace(log_duration=priors.log_duration[: longest + 1])
    log_count = point_mass(length, MAX_STEPS) if longest == 1 else ANY_COUNT
    arguments = steps, short, known_of(length, labels), log_count
    (expected, dense), (found, by_rows) = dense_gradient(*arguments), rows_gradient(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if expected < LOG_ZERO / 2:
        return
    for a, b in zip(jax.tree.leaves(by_rows), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_batches_and_scaled_losses() -> None:
    """Under `vmap`, and with an upstream gradient that is not one."""
    cases = [case(n, NUM_SKILLS)[0] for n in (4, 7)]
    steps = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)
    known = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(known_of(n, "none") for n in (4, 7)))
    priors = case(7, NUM_SKILLS)[1]

    def gradient(name: str) -> StepScores:
        each = jax.vmap(LIKELIHOODS[name], in_axes=(0, None, 0, None))
        weights = jnp.array([-0.5, 3.0])
        return jax.jit(jax.grad(lambda steps: jnp.sum(weights * each(steps, priors, known, ANY_COUNT))))(steps)

    for a, b in zip(gradient("rows"), gradient("dense"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_impossible_stays_finite() -> None:
    steps, priors = case(4, NUM_SKILLS)
    boundaries = jnp.array([-1, 1, 1, 1, -1, -1, -1])
    known = constraints_from_labels(jnp.array(4), boundaries, jnp.full((MAX_STEPS,), -1), NO_SEGMENT_CODES, NUM_SKILLS)
    found, gradient = rows_gradient(steps, priors, known, given(2))
    assert found < LOG_ZERO / 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def long_case(num_steps: int, num_skills: int) -> tuple[StepScores, Priors]:
    """Five stretches of equal length, in each of which one skill explains the actions and stops at the end."""
    rng = np.random.default_rng(0)
    skill = np.arange(num_steps) * 5 // num_steps
    log_policy = rng.normal(-2, 0.1, (num_steps, num_skills))
    log_policy[np.arange(num_steps), skill] += 1
    logits = np.full((num_steps, num_skills), -6.0)
    logits[np.append(np.flatnonzero(np.diff(skill)), num_steps - 1)] = 6
    arrays = log_policy, -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    priors = Priors(jnp.full((num_skills,), -jnp.log(num_skills)), jnp.zeros((num_steps + 1,)))
    return StepScores(*(jnp.asarray(x, jnp.float32) for x in arrays)), priors


def run_long(num_steps: int, num_skills: int) -> None:
    steps, priors = long_case(num_steps, num_skills)
    known = no_constraints(jnp.array(num_steps), num_steps, num_skills)
    log_count = point_mass(5, 5)
    best, after = best_segmentation(steps, priors, known, log_count)
    assert best.ends.tolist() == [num_steps * i // 5 for i in range(1, 6)]
    assert best.skills.tolist() == [0, 1, 2, 3, 4]
    gradient = rows_gradient(steps, priors, known, log_count)[1][0]
    np.testing.assert_allclose(gradient.log_policy.sum(axis=1), 1, atol=2e-3)
    np.testing.assert_allclose(after.boundary_probs.sum(), 4, rtol=1e-3)
    assert after.log_likelihood >= best.log_prob


def test_a_thousand_steps() -> None:
    run_long(1000, 8)


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_five_thousand_steps() -> None:
    run_long(5000, 32)
