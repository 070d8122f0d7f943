"""The loss of training, with weights of one and samples that are not relaxed, is an upper bound of -log p(a | s).

That holds of the prior on soft lengths, where boundaries are in order. M times the first boundary's divergence is an
approximation of the paper's and no bound.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.nn import one_hot
from scipy.special import gammaln, log_softmax, logsumexp

from compile_il.inference.records import LOG_ZERO
from compile_il.inference.relaxed.recognition import Inference
from tests.inference.relaxed.single import unlabelled_terms

T, M, K, RATE = 5, 3, 2, 3.0
CUTS = [(b1, b2) for b1 in range(T + 1) for b2 in range(b1, T + 1)]
"""Inner boundaries in order; segments may be empty."""
CODES = list(itertools.product(range(K), repeat=M))


class Recogniser(NamedTuple):
    """q(b_1) q(b_2 | b_1) Π q(z_i | b), as logits."""

    first: np.ndarray
    second: np.ndarray
    """One row for each b_1; no mass before it."""
    codes: dict[tuple[int, int], np.ndarray]


def log_length(duration: int) -> float:
    """Of a Poisson that is normalised over 0 .. T."""
    d = np.arange(T + 1)
    every = d * np.log(RATE) - gammaln(d + 1)
    return float(every[duration] - logsumexp(every))


def log_segments(log_policy: np.ndarray, cut: tuple[int, int]) -> np.ndarray:
    """log p(a of segment i, z_i = k), for each i and k; whoever is empty explains nothing."""
    edges = (0, *cut, T)
    return np.array([log_policy[b:e].sum(axis=0) for b, e in itertools.pairwise(edges)]) - np.log(K)


def log_joint(log_policy: np.ndarray, cut: tuple[int, int]) -> float:
    """log p(a, b | s); the last boundary is known, and has no prior."""
    b1, b2 = cut
    return log_length(b1) + log_length(b2 - b1) + float(logsumexp(log_segments(log_policy, cut), axis=1).sum())


def posterior_of(log_policy: np.ndarray) -> Recogniser:
    """The one that knows."""
    table = np.full((T + 1, T + 1), LOG_ZERO)
    for cut in CUTS:
        table[cut] = log_joint(log_policy, cut)
    return Recogniser(logsumexp(table, axis=1), table, {cut: log_segments(log_policy, cut) for cut in CUTS})


def drawn(rng: np.random.Generator) -> Recogniser:
    """One that does not."""
    second = np.where(np.tri(T + 1, k=-1).astype(bool), LOG_ZERO, rng.normal(0, 2, (T + 1, T + 1)))
    return Recogniser(rng.normal(0, 2, T + 1), second, {cut: rng.normal(0, 2, (M, K)) for cut in CUTS})


@jax.jit
@jax.vmap
def loss(logits: Any, ends: Any, codes: Any, code_logits: Any, log_policy: Any) -> Any:
    """What training adds up for one sample."""
    times = jnp.arange(T + 1)
    starts = jnp.append(0, ends[:-1])
    inside = (times >= starts[:, None]) & (times < ends[:, None])
    hard = jnp.where(one_hot(ends, T + 1) > 0, 0.0, LOG_ZERO)
    segments = jnp.where(inside, 0.0, LOG_ZERO)
    found = Inference(logits, hard, jnp.zeros((M, T + 1)), segments, code_logits)
    log_codes = jnp.where(one_hot(codes, K) > 0, 0.0, LOG_ZERO)
    return sum(unlabelled_terms(found, log_codes, log_policy, jnp.array(T), rate=RATE, boundary_term="lengths"))


def expected_loss(q: Recogniser, log_policy: np.ndarray) -> float:
    """Over all that can be drawn."""
    first, second = log_softmax(q.first), log_softmax(q.second, axis=1)
    weights, samples = [], []
    for (b1, b2), codes in itertools.product(CUTS, CODES):
        code_logits = q.codes[b1, b2]
        said = log_softmax(code_logits, axis=1)[range(M), codes].sum()
        weights.append(np.exp(first[b1] + second[b1, b2] + said))
        logits = np.stack([q.first, q.second[b1], np.zeros(T + 1)])
        samples.append((logits, np.array([b1, b2, T]), np.array(codes), code_logits, log_policy))
    assert sum(weights) == pytest.approx(1.0)
    return float(np.dot(weights, loss(*map(np.stack, zip(*samples, strict=True)))))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_loss_is_a_bound_that_the_posterior_reaches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log_policy = log_softmax(rng.normal(0, 2, (T, K, 3)), axis=-1)[..., 0]
    exact = -float(logsumexp([log_joint(log_policy, cut) for cut in CUTS]))
    assert expected_loss(posterior_of(log_policy), log_policy) == pytest.approx(exact, rel=1e-4)
    assert expected_loss(drawn(rng), log_policy) > exact
