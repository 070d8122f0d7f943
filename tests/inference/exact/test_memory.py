"""How much memory the compiled programs ask for: streaming never holds a number for each pair of start and end."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from compile_il.inference.exact.constraints import no_constraints
from compile_il.inference.exact.engine import DENSE, STREAMING
from compile_il.inference.exact.recursion import point_mass
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.records import StepScores

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
        pytest.skip("this backend does not tell what its programs need")
    return int(analysis.temp_size_in_bytes)


def sample(*arguments: Any) -> Any:
    return STREAMING.sample_segmentation(jax.random.key(0), *arguments)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(STREAMING.log_likelihood, id="likelihood"),
        pytest.param(jax.grad(STREAMING.log_likelihood, argnums=(0, 1, 3)), id="gradient"),
        pytest.param(STREAMING.posterior, id="posterior"),
        pytest.param(STREAMING.best_segmentation, id="best path"),
        pytest.param(STREAMING.best_boundaries, id="best boundaries"),
        pytest.param(sample, id="sample"),
    ],
)
def test_streaming_holds_rows_only(function: Callable[..., Any]) -> None:
    assert 0 < temporary_bytes(function) < A_FEW_ROWS < A_PAIR_EACH


def test_dense_holds_every_start_end_and_skill() -> None:
    """The measure sees what it is there for."""
    assert temporary_bytes(DENSE.log_likelihood) > 4 * K * A_PAIR_EACH
