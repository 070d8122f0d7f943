"""Likelihoods and decoders against full enumeration, for every length, number of segments and skills up to 7, 4, 3."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from jaxtyping import Array

from compile_il.inference.exact.constraints import Constraints
from compile_il.inference.exact.decode import sample_segmentation
from compile_il.inference.records import LOG_ZERO
from tests.inference.exact.cases import (
    ANY_COUNT,
    GRADIENTS,
    LIKELIHOODS,
    MAX_SEGMENTS,
    MAX_SKILLS,
    MAX_STEPS,
    P_VALUE,
    assert_best,
    assert_frequencies,
    assert_likelihood,
    assert_most_hits,
    assert_posterior,
    best_boundaries,
    best_segmentation,
    case,
    chi_square,
    enumerate_all,
    enumerate_counts,
    free,
    given,
    of_steps,
)
from tests.twins.enumerate_segmentations import Path

NUM_DRAWS = 20_000
CASES = [
    (length, num_segments, num_skills)
    for length in range(1, MAX_STEPS + 1)
    for num_segments in range(1, MAX_SEGMENTS + 1)
    for num_skills in range(1, MAX_SKILLS + 1)
]
POSSIBLE = [(length, num_segments, k) for length, num_segments, k in CASES if num_segments <= length]


DRAW = jax.jit(lambda keys, *arguments: jax.vmap(lambda key: of_steps(sample_segmentation)(*arguments, key)[0])(keys))


@functools.cache
def every(length: int, num_segments: int, num_skills: int) -> list[Path]:
    return enumerate_all(*case(length, num_skills), length, num_segments)


def keys_of(*numbers: int) -> Array:
    return jax.random.split(functools.reduce(jax.random.fold_in, numbers, jax.random.key(0)), NUM_DRAWS)


@pytest.mark.parametrize(("length", "num_segments", "num_skills"), POSSIBLE)
def test_given_the_number_of_segments(length: int, num_segments: int, num_skills: int) -> None:
    paths = every(length, num_segments, num_skills)
    arguments = *case(length, num_skills), free(length, num_skills), given(num_segments)
    for name in LIKELIHOODS:
        assert_likelihood(name, arguments, paths)
    (path, after), (boundaries, same) = best_segmentation(*arguments), best_boundaries(*arguments)
    assert_posterior(after, paths)
    assert_posterior(same, paths)
    assert_best(path, paths)
    assert_most_hits(boundaries, paths)
    assert_frequencies(DRAW(keys_of(length, num_segments, num_skills), *arguments), paths)


@pytest.mark.parametrize("num_skills", range(1, MAX_SKILLS + 1))
@pytest.mark.parametrize("length", range(1, MAX_STEPS + 1))
def test_any_number_of_segments(length: int, num_skills: int) -> None:
    steps, priors = case(length, num_skills)
    paths = enumerate_counts(steps, priors, length, ANY_COUNT)
    arguments = steps, priors, free(length, num_skills), ANY_COUNT
    for name in LIKELIHOODS:
        assert_likelihood(name, arguments, paths)
    assert_best(best_segmentation(*arguments)[0], paths)
    boundaries, after = best_boundaries(*arguments)
    assert_posterior(after, paths)
    likeliest = int(jnp.argmax(after.count_probs))
    assert_most_hits(boundaries, [path for path in paths if len(path.ends) == likeliest])
    assert_frequencies(DRAW(keys_of(length, num_skills), *arguments), paths)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize(
    ("length", "num_segments", "num_skills"), [impossible for impossible in CASES if impossible not in POSSIBLE]
)
def test_too_many_segments_are_impossible(length: int, num_segments: int, num_skills: int, name: str) -> None:
    arguments = *case(length, num_skills), free(length, num_skills), given(num_segments)
    assert GRADIENTS[name](*arguments)[0] < LOG_ZERO / 2


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize(
    ("length", "num_segments", "num_skills"),
    [(1, 1, 1), (7, 4, 1), (2, 2, 2), (6, 3, 2), (7, None, 2), (5, 1, 3), (7, 4, 3), (4, None, 3)],
)
def test_gradients_against_finite_differences(
    length: int, num_segments: int | None, num_skills: int, name: str
) -> None:
    log_count = ANY_COUNT if num_segments is None else given(num_segments)
    known = free(length, num_skills)
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (*case(length, num_skills), log_count))
        check_grads(functools.partial(_likelihood, name, known), doubled, order=1, modes=["rev"])


def _likelihood(name: str, known: Constraints, steps: Any, priors: Any, log_count: Any) -> Any:
    return LIKELIHOODS[name](steps, priors, known, log_count)


def test_the_test_of_frequencies_notices_small_mistakes() -> None:
    """What it would say of draws from probabilities that are a tenth off."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(30))
    drawn = rng.multinomial(NUM_DRAWS, probs)
    assert chi_square(drawn, NUM_DRAWS * probs) > 0.01
    tilted = probs * rng.choice([0.9, 1.1], 30)
    assert chi_square(drawn, NUM_DRAWS * tilted / tilted.sum()) < P_VALUE
    assert chi_square(np.array([NUM_DRAWS - 40, 20, 20]), np.array([NUM_DRAWS - 0.2, 0.1, 0.1])) < P_VALUE
    assert chi_square(np.array([NUM_DRAWS]), np.array([float(NUM_DRAWS)])) == 1
