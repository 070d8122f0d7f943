"""Small cases for the recursions, and the same answers by enumeration of every segmentation."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import binom, chi2

from compile_il.data.labels import UNKNOWN
from compile_il.inference.exact import decode, likelihood
from compile_il.inference.exact.constraints import Constraints, constraints_from_labels
from compile_il.inference.exact.decode import Posterior, Segmentation
from compile_il.inference.exact.segment_scores import Priors, point_mass, score_segments
from compile_il.inference.records import StepScores
from tests.twins.enumerate_segmentations import Path, log_sum, paths

MAX_STEPS, MAX_SEGMENTS, MAX_SKILLS = 7, 4, 3
"""Everything is padded to this, so that each function compiles once for each K."""
NO_SEGMENT_CODES = jnp.zeros((0,), jnp.int32)
ANY_COUNT = jnp.log(jnp.array([1e-30, 0.1, 0.4, 0.3, 0.2]))
"""A prior over the number of segments that does not know it."""
P_VALUE = 1e-6
"""Below this, samples are not what they should be. Seeds are fixed: a test that passes once always passes."""


def no_constraints(length: Array, num_steps: int, num_skills: int) -> Constraints:
    """Constraints of a demonstration without labels."""
    unknown = jnp.full((num_steps,), UNKNOWN)
    return constraints_from_labels(length, unknown, unknown, NO_SEGMENT_CODES, num_skills)


def of_steps(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of segment scores as one of what these are made from: steps, priors, constraints and log p(M)."""
    return lambda steps, priors, constraints, log_count, *more: function(
        score_segments(steps, priors, constraints, log_count), *more
    )


LIKELIHOODS = {
    "dense": jax.jit(of_steps(likelihood.dense_log_likelihood)),
    "rows": jax.jit(of_steps(likelihood.log_likelihood_by_rows)),
}
GRADIENTS = {name: jax.jit(jax.value_and_grad(each, argnums=(0, 1, 3))) for name, each in LIKELIHOODS.items()}
best_boundaries = jax.jit(of_steps(decode.best_boundaries))
best_segmentation = jax.jit(of_steps(decode.best_segmentation))


@functools.cache
def case(length: int, num_skills: int, seed: int = 0) -> tuple[StepScores, Priors]:
    """Random scores; padding holds numbers that would ruin everything if they were read."""
    rng = np.random.default_rng([length, num_skills, seed])
    logits = rng.normal(0, 2, (MAX_STEPS, num_skills))
    log_policy = rng.normal(-2, 2, (MAX_STEPS, num_skills))
    log_stop, log_go = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    for scores in (log_policy, log_stop, log_go):
        scores[length:] = 1e6
    log_skill = np.log(rng.dirichlet(np.ones(num_skills)))
    log_duration = rng.normal(0, 1, MAX_STEPS + 1)
    to_jax = functools.partial(jnp.asarray, dtype=jnp.float32)
    return StepScores(to_jax(log_policy), to_jax(log_stop), to_jax(log_go)), Priors(
        to_jax(log_skill), to_jax(log_duration)
    )


def free(length: int, num_skills: int) -> Constraints:
    """Nothing is known but the length."""
    return no_constraints(jnp.array(length), MAX_STEPS, num_skills)


def given(num_segments: int) -> Array:
    """A prior that knows the number of segments, of the very type of `ANY_COUNT`: another would compile again."""
    return jnp.asarray(point_mass(num_segments, MAX_SEGMENTS), jnp.float32)


def enumerate_all(steps: StepScores, priors: Priors, length: int, num_segments: int, **labels: Any) -> list[Path]:
    """Every segmentation into so many segments."""
    arrays = (np.asarray(x, np.float64) for x in (*steps, *priors))
    return list(paths(*arrays, length=length, num_segments=num_segments, **labels))


def enumerate_counts(steps: StepScores, priors: Priors, length: int, log_count: Any, **labels: Any) -> list[Path]:
    """Every segmentation into any number of segments, with the prior over their number."""
    return [
        path._replace(log_prob=path.log_prob + float(log_count[m]))
        for m in range(1, len(log_count))
        for path in enumerate_all(steps, priors, length, m, **labels)
    ]


class Marginals(NamedTuple):
    """Likelihood and posteriors, by adding up segmentations."""

    log_likelihood: float
    boundary_probs: np.ndarray
    skill_probs: np.ndarray
    count_probs: np.ndarray


def marginals(every: Sequence[Path], num_skills: int) -> Marginals:
    total = log_sum([path.log_prob for path in every])
    boundary_probs, skill_probs = np.zeros(MAX_STEPS), np.zeros((MAX_STEPS, num_skills))
    count_probs = np.zeros(MAX_SEGMENTS + 1)
    for path in every:
        weight = np.exp(path.log_prob - total)
        boundary_probs[list(path.ends[:-1])] += weight
        count_probs[len(path.ends)] += weight
        for start, end, k in zip((0, *path.ends[:-1]), path.ends, path.skills, strict=True):
            skill_probs[start:end, k] += weight
    return Marginals(total, boundary_probs, skill_probs, count_probs)


def assert_posterior(found: Posterior, every: Sequence[Path]) -> None:
    expected = marginals(every, 1 + max(max(path.skills) for path in every))
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-5, atol=1e-4)
    for name in ("boundary_probs", "count_probs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-4, err_msg=name)


def assert_likelihood(name: str, arguments: Sequence[Any], every: Sequence[Path]) -> None:
    """The log-likelihood, and its gradients: probabilities of each step's skill and of each number of segments."""
    found, (steps, _, counts) = GRADIENTS[name](*arguments)
    expected = marginals(every, steps.log_policy.shape[1])
    np.testing.assert_allclose(found, expected.log_likelihood, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(steps.log_policy, expected.skill_probs, atol=1e-4)
    np.testing.assert_allclose(counts, expected.count_probs, atol=1e-4)


def assert_best(found: Segmentation, every: Sequence[Path]) -> None:
    """The most probable of these segmentations, and nothing beyond its end."""
    best = max(every, key=lambda path: path.log_prob)
    n, largest = len(best.ends), len(found.ends)
    assert int(found.num_segments) == n
    assert tuple(found.ends[:n].tolist()) == best.ends
    assert tuple(found.skills[:n].tolist()) == best.skills
    assert found.skills[n:].tolist() == [-1] * (largest - n)
    np.testing.assert_allclose(found.log_prob, best.log_prob, rtol=1e-5, atol=1e-4)


def expected_hits(every: Sequence[Path]) -> dict[tuple[int, ...], float]:
    """For all boundaries of one number of segments, how many of them are right in the mean over all segmentations."""
    total = log_sum([path.log_prob for path in every])
    probs: dict[tuple[int, ...], float] = {}
    for path in every:
        probs[path.ends] = probs.get(path.ends, 0.0) + float(np.exp(path.log_prob - total))
    return {
        ends: sum(p * sum(a == b for a, b in zip(ends[:-1], others[:-1], strict=True)) for others, p in probs.items())
        for ends in probs
    }


def assert_most_hits(found: Segmentation, every: Sequence[Path]) -> None:
    """No other boundaries are right more often, and each segment has its most probable skill."""
    n, hits = int(found.num_segments), expected_hits(every)
    ends = tuple(found.ends[:n].tolist())
    np.testing.assert_allclose(hits[ends], max(hits.values()), atol=1e-5)
    assert_best(found, [path for path in every if path.ends == ends])


def assert_frequencies(drawn: Segmentation, every: Sequence[Path]) -> None:
    """Draws, along a first axis, come as often as their probabilities say."""
    log_probs = {(path.ends, path.skills): path.log_prob for path in every}
    total = log_sum(list(log_probs.values()))
    drawn = jax.tree.map(np.asarray, drawn)
    rows, index, counts = np.unique(
        np.column_stack([drawn.num_segments, drawn.ends, drawn.skills]), axis=0, return_index=True, return_counts=True
    )
    counted, largest = {}, drawn.ends.shape[1]
    for (n, *row), first, num in zip(rows.tolist(), index, counts.tolist(), strict=True):
        path = tuple(row[:n]), tuple(row[largest : largest + n])
        np.testing.assert_allclose(drawn.log_prob[first], log_probs[path], rtol=1e-4, atol=1e-3)
        counted[path] = num
    assert len(counted) == len(rows), "beyond its last segment a draw holds something that changes"
    num_draws = len(drawn.num_segments)
    expected = np.array([np.exp(p - total) * num_draws for p in log_probs.values()])
    observed = np.array([counted.get(path, 0) for path in log_probs])
    p_value = chi_square(observed, expected)
    assert p_value > P_VALUE, f"{p_value:.1e}"


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The probability of counts that are at least as far from what is expected.

    Twice the smaller one of two: of how often rare things came at all, by the binomial distribution, and of how often
    each of the others did, by the approximation of Pearson's, which holds for those.
    """
    rare, total = expected < 5, expected.sum()
    p_rare = binom.sf(observed[rare].sum() - 1, observed.sum(), expected[rare].sum() / total)
    seen, wanted = observed[~rare], expected[~rare]
    if rare.any() and expected[rare].sum() >= 5:
        seen, wanted = np.append(seen, observed[rare].sum()), np.append(wanted, expected[rare].sum())
    wanted = wanted * seen.sum() / wanted.sum()
    p_others = chi2.sf(np.sum((seen - wanted) ** 2 / wanted), len(wanted) - 1) if len(wanted) > 1 else 1.0
    return float(min(1.0, 2 * p_rare, 2 * p_others))
