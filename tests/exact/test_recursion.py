"""The recursion against full enumeration of boundaries and skills."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from compile_il.exact import decode, recursion
from compile_il.exact.known import Known, known_from_labels, nothing_known
from compile_il.exact.scores import Priors, StepScores
from compile_il.log_space import LOG_ZERO
from tests.twins.enumerate_segmentations import Path, log_sum, paths

MAX_STEPS, MAX_SEGMENTS, MAX_SKILLS = 7, 4, 3
"""Everything is padded to this, so that each function compiles once for each K."""
NO_SKETCH = jnp.zeros((0,), jnp.int32)

log_likelihood = jax.jit(recursion.log_likelihood)
posterior = jax.jit(recursion.posterior)
best_segmentation = jax.jit(decode.best_segmentation)
best_boundaries = jax.jit(decode.best_boundaries)
known_of = jax.jit(known_from_labels, static_argnums=4)


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


def enumerate_all(steps: StepScores, priors: Priors, length: int, num_segments: int, **labels: Any) -> list[Path]:
    arrays = (np.asarray(x, np.float64) for x in (*steps, *priors))
    return list(paths(*arrays, length=length, num_segments=num_segments, **labels))


def free(length: int, num_skills: int) -> Known:
    return nothing_known(jnp.array(length), MAX_STEPS, num_skills)


CASES = [
    (length, num_segments, num_skills)
    for length in range(1, MAX_STEPS + 1)
    for num_segments in range(1, min(length, MAX_SEGMENTS) + 1)
    for num_skills in range(1, MAX_SKILLS + 1)
]


@pytest.mark.parametrize(("length", "num_segments", "num_skills"), CASES)
def test_against_enumeration(length: int, num_segments: int, num_skills: int) -> None:
    steps, priors = case(length, num_skills)
    every = enumerate_all(steps, priors, length, num_segments)
    total = log_sum([path.log_prob for path in every])
    known, log_count = free(length, num_skills), recursion.exactly(num_segments, MAX_SEGMENTS)

    found = posterior(steps, priors, known, log_count)
    np.testing.assert_allclose(found.log_likelihood, total, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(log_likelihood(steps, priors, known, log_count), total, rtol=1e-5, atol=1e-4)
    boundary_probs, skill_probs = np.zeros(MAX_STEPS), np.zeros((MAX_STEPS, num_skills))
    for path in every:
        weight = np.exp(path.log_prob - total)
        boundary_probs[list(path.ends[:-1])] += weight
        for start, end, k in zip((0, *path.ends[:-1]), path.ends, path.skills, strict=True):
            skill_probs[start:end, k] += weight
    np.testing.assert_allclose(found.boundary_probs, boundary_probs, atol=1e-4)
    np.testing.assert_allclose(found.skill_probs, skill_probs, atol=1e-4)
    np.testing.assert_allclose(found.count_probs, np.arange(MAX_SEGMENTS + 1) == num_segments, atol=1e-4)

    best = max(every, key=lambda path: path.log_prob)
    viterbi = best_segmentation(steps, priors, known, log_count)
    assert int(viterbi.num_segments) == num_segments
    assert tuple(viterbi.ends[:num_segments].tolist()) == best.ends
    assert tuple(viterbi.skills[:num_segments].tolist()) == best.skills
    assert viterbi.skills[num_segments:].tolist() == [-1] * (MAX_SEGMENTS - num_segments)
    np.testing.assert_allclose(viterbi.log_prob, best.log_prob, rtol=1e-5, atol=1e-4)


def expected_hits(every: list[Path], ends: tuple[int, ...]) -> float:
    """How many boundaries of a segmentation are right, in the mean over all segmentations."""
    total = log_sum([path.log_prob for path in every])
    hits = (sum(a == b for a, b in zip(path.ends[:-1], ends[:-1], strict=True)) for path in every)
    return sum(np.exp(path.log_prob - total) * n for path, n in zip(every, hits, strict=True))


@pytest.mark.parametrize(("length", "num_segments"), [(7, 4), (7, 3), (6, 2), (4, 4)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_best_boundaries_are_right_most_often(length: int, num_segments: int, seed: int) -> None:
    steps, priors = case(length, 3, seed)
    flat = steps._replace(log_policy=steps.log_policy / 4)  # many paths that are about as good
    every = enumerate_all(flat, priors, length, num_segments)
    found = best_boundaries(flat, priors, free(length, 3), recursion.exactly(num_segments, MAX_SEGMENTS))
    ends, skills = (tuple(entry[:num_segments].tolist()) for entry in (found.ends, found.skills))
    hits = {path.ends: expected_hits(every, path.ends) for path in every}
    np.testing.assert_allclose(hits[ends], max(hits.values()), atol=1e-5)
    same_ends = [path for path in every if path.ends == ends]
    best = max(same_ends, key=lambda path: path.log_prob)
    assert skills == best.skills
    np.testing.assert_allclose(found.log_prob, best.log_prob, rtol=1e-5, atol=1e-4)


def test_best_boundaries_are_not_always_those_of_the_best_path() -> None:
    differ = 0
    for seed in range(30):
        steps, priors = case(7, 3, seed)
        arguments = steps._replace(log_policy=steps.log_policy / 4), priors, free(7, 3)
        ends = [
            find(*arguments, recursion.exactly(4, 4)).ends.tolist() for find in (best_boundaries, best_segmentation)
        ]
        differ += ends[0] != ends[1]
    assert 0 < differ < 30


def test_best_boundaries_of_the_most_probable_number_of_segments() -> None:
    for seed in range(10):
        steps, priors = case(7, 3, seed)
        log_count = jnp.log(jnp.array([1e-30, 0.1, 0.4, 0.3, 0.2]))
        counts = posterior(steps, priors, free(7, 3), log_count).count_probs
        found = best_boundaries(steps, priors, free(7, 3), log_count)
        assert int(found.num_segments) == int(jnp.argmax(counts))
        same = best_boundaries(steps, priors, free(7, 3), recursion.exactly(found.num_segments, MAX_SEGMENTS))
        np.testing.assert_array_equal(found.ends, same.ends)


def test_best_boundaries_are_possible_together() -> None:
    """Each boundary of its own is likely; a longest segment forbids most combinations."""
    for seed in range(10):
        steps, priors = case(7, 3, seed)
        short = priors._replace(log_duration=priors.log_duration[:3])
        found = best_boundaries(steps, short, free(7, 3), recursion.exactly(4, MAX_SEGMENTS))
        assert max(np.diff([0, *found.ends.tolist()])) <= 2


def test_too_many_segments_are_impossible() -> None:
    steps, priors = case(2, 2)
    assert log_likelihood(steps, priors, free(2, 2), recursion.exactly(3, MAX_SEGMENTS)) < LOG_ZERO / 2


@pytest.mark.parametrize("length", [3, 5, 7])
def test_unknown_count_is_the_sum_over_counts(length: int) -> None:
    steps, priors = case(length, 2)
    prior = np.log(np.array([1e-30, 0.1, 0.4, 0.3, 0.2]))
    every = [
        path._replace(log_prob=path.log_prob + prior[m])
        for m in range(1, min(length, MAX_SEGMENTS) + 1)
        for path in enumerate_all(steps, priors, length, m)
    ]
    total = log_sum([path.log_prob for path in every])
    log_count = jnp.asarray(prior, jnp.float32)
    found = posterior(steps, priors, free(length, 2), log_count)
    np.testing.assert_allclose(found.log_likelihood, total, rtol=1e-5, atol=1e-4)
    counts = np.zeros(MAX_SEGMENTS + 1)
    for path in every:
        counts[len(path.ends)] += np.exp(path.log_prob - total)
    np.testing.assert_allclose(found.count_probs, counts, atol=1e-4)
    best = max(every, key=lambda path: path.log_prob)
    viterbi = best_segmentation(steps, priors, free(length, 2), log_count)
    assert tuple(viterbi.ends[: int(viterbi.num_segments)].tolist()) == best.ends
    assert int(viterbi.num_segments) == len(best.ends)


def test_samples_come_as_often_as_the_posterior_says() -> None:
    length, num_skills, num_samples = 5, 2, 20_000
    steps, priors = case(length, num_skills)
    prior = np.log(np.array([1e-30, 0.2, 0.5, 0.3]))
    every = {
        (path.ends, path.skills): path.log_prob + prior[m]
        for m in (1, 2, 3)
        for path in enumerate_all(steps, priors, length, m)
    }
    total = log_sum(list(every.values()))
    sample = jax.jit(
        jax.vmap(
            lambda key: decode.sample_segmentation(
                key, steps, priors, free(length, num_skills), jnp.asarray(prior, jnp.float32)
            )
        )
    )
    drawn = jax.tree.map(np.asarray, sample(jax.random.split(jax.random.key(0), num_samples)))
    counted: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for n, ends, skills, log_prob in zip(*drawn, strict=True):
        path = tuple(ends[:n].tolist()), tuple(skills[:n].tolist())
        counted[path] = counted.get(path, 0) + 1
        np.testing.assert_allclose(log_prob, every[path], rtol=1e-4, atol=1e-3)
    for path, log_prob in every.items():
        share = np.exp(log_prob - total)
        spread = np.sqrt(share * (1 - share) * num_samples) + 1
        assert abs(counted.get(path, 0) - share * num_samples) < 5 * spread


label_lists = st.lists(st.sampled_from([-1, -1, -1, 0, 1]), min_size=MAX_STEPS, max_size=MAX_STEPS)
code_lists = st.lists(st.sampled_from([-1, -1, -1, 0, 1]), min_size=MAX_STEPS, max_size=MAX_STEPS)


@given(st.integers(1, MAX_STEPS), st.integers(1, MAX_SEGMENTS), label_lists, code_lists)
@settings(deadline=None, max_examples=150)
def test_labels_leave_the_paths_that_agree_with_them(
    length: int, num_segments: int, boundaries: list[int], codes: list[int]
) -> None:
    steps, priors = case(length, 2)
    labels = {"boundary_labels": np.array(boundaries), "code_labels": np.array(codes)}
    agreeing = enumerate_all(steps, priors, length, num_segments, **labels) if num_segments <= length else []
    known = known_of(jnp.array(length), jnp.array(boundaries), jnp.array(codes), NO_SKETCH, 2)
    log_count = recursion.exactly(num_segments, MAX_SEGMENTS)
    constrained = float(log_likelihood(steps, priors, known, log_count))
    if agreeing:
        np.testing.assert_allclose(constrained, log_sum([p.log_prob for p in agreeing]), rtol=1e-5, atol=1e-4)
        assert constrained <= float(log_likelihood(steps, priors, free(length, 2), log_count)) + 1e-4
        viterbi = best_segmentation(steps, priors, known, log_count)
        best = max(agreeing, key=lambda path: path.log_prob)
        assert tuple(viterbi.ends[:num_segments].tolist()) == best.ends
        assert tuple(viterbi.skills[:num_segments].tolist()) == best.skills
        often = best_boundaries(steps, priors, known, log_count)
        assert tuple(often.ends[:num_segments].tolist()) in {path.ends for path in agreeing}
    else:
        assert constrained < LOG_ZERO / 2


def test_all_labels_give_the_supervised_likelihood() -> None:
    length, steps_priors = 6, case(6, 3)
    steps, priors = steps_priors
    boundaries, codes = np.array([0, 0, 1, 0, 1, 0, -1]), np.array([2, 2, 0, 0, 1, 1, -1])
    known = known_of(jnp.array(length), jnp.array(boundaries), jnp.array(codes), NO_SKETCH, 3)
    expected = 0.0
    for t, k in enumerate(codes[:length]):
        last = t + 1 == length or boundaries[t + 1] == 1
        expected += float(steps.log_policy[t, k] + (steps.log_stop if last else steps.log_go)[t, k])
    expected += float(priors.log_skill[jnp.array([2, 0, 1])].sum() + 3 * priors.log_duration[2])
    found = log_likelihood(steps, priors, known, recursion.exactly(3, MAX_SEGMENTS))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_gradients_against_finite_differences() -> None:
    steps, priors = case(6, 2)
    known, log_count = free(6, 2), recursion.exactly(3, MAX_SEGMENTS)
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), (steps, priors))
        likelihood = jax.jit(lambda s, p: recursion.log_likelihood(s, p, known, log_count.astype(jnp.float64)))
        check_grads(likelihood, doubled, order=1)


def test_longest_segment_bands_the_recursion() -> None:
    steps, priors = case(7, 2)
    short = priors._replace(log_duration=priors.log_duration[:4])
    every = enumerate_all(steps, short, 7, 3)
    assert 0 < len(every) < len(enumerate_all(steps, priors, 7, 3))
    found = log_likelihood(steps, short, free(7, 2), recursion.exactly(3, MAX_SEGMENTS))
    np.testing.assert_allclose(found, log_sum([p.log_prob for p in every]), rtol=1e-5, atol=1e-4)
