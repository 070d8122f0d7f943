"""Memory of the compiled programs: recursions by rows never hold a number for each pair of start and end."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from compile_il.inference.exact.decode import best_boundaries, best_segmentation, sample_segmentation
from compile_il.inference.exact.segment_scores import Priors, point_mass
from compile_il.inference.records import StepScores
from tests.inference.exact.cases import GRADIENTS, LIKELIHOODS, no_constraints, of_steps

T, K, M = 5000, 32, 5
A_PAIR_EACH = T * T
"""Bytes of a table with one byte for each start and end, the smallest thing that must not be there."""
A_FEW_ROWS = 14 * 4 * T * (K + M)
"""Bytes of fourteen tables of T x (K + M) numbers: scores, running sums, forward and backward sums, gradients."""


def temporary_bytes(function: Callable[..., Any]) -> int:
    """What a program holds beside what it is given and what it gives; it is compiled and not run."""
    inputs = jax.eval_shape(
        lambda: (
            StepScores(*(jnp.zeros((T, K)),) * 3),
            Priors(jnp.zeros((K,)), jnp.zeros((T + 1,))),
            no_constraints(jnp.array(T), T, K),
            point_mass(M, M),
        )
    )
    analysis = jax.jit(function).lower(*inputs).compile().memory_analysis()
    if analysis is None:
        pytest.skip("this backend does not report the memory of its programs")
    return int(analysis.temp_size_in_bytes)


def sample(scores: Any) -> Any:
    return sample_segmentation(scores, jax.random.key(0))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(LIKELIHOODS["rows"], id="likelihood"),
        pytest.param(GRADIENTS["rows"], id="gradient"),
        pytest.param(of_steps(best_segmentation), id="best path"),
        pytest.param(of_steps(best_boundaries), id="best boundaries"),
        pytest.param(of_steps(sample), id="sample"),
    ],
)
def test_rows_are_held_one_at_a_time(function: Callable[..., Any]) -> None:
    assert 0 < temporary_bytes(function) < A_FEW_ROWS < A_PAIR_EACH


def test_dense_holds_every_start_end_and_skill() -> None:
    """The measure sees what it is there for."""
    assert temporary_bytes(LIKELIHOODS["dense"]) > 4 * K * A_PAIR_EACH
