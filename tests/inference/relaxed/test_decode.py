"""Test-time segmentation against cutting with scissors, and against the relaxed model where it has no doubts."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.inference.relaxed.decode import HardSegments, cut_segments
from compile_il.inference.relaxed.recognition import Recognition, read_attentively
from tests.inference.relaxed.single import encode, no_supervision
from tests.inference.relaxed.test_inference import INPUTS, LENGTH, NETWORK, TIMES, run

# Logits over a temperature near zero are large: unoptimised programs round them so that log q is off by 1e-3.
pytestmark = pytest.mark.usefixtures("optimised")


@eqx.filter_jit
def find(network: Recognition, inputs: Any, length: Any, num_segments: int, readout: str = "last") -> HardSegments:
    return cut_segments(network, inputs, length, no_supervision(length, num_segments), readout)


def cut_with_scissors(network: Recognition, inputs: jax.Array, length: int, num_segments: int, readout: str) -> tuple:
    """The remainder is a demonstration of its own."""
    begin, ends, codes = 0, [], []
    for i in range(num_segments):
        rest = inputs[begin : length + 1]
        encodings = encode(network.cell, rest, jnp.ones(len(rest)))
        logits = network.boundary_logits(encodings, jnp.array(len(rest) - 1))
        size = len(rest) - 1 if i == num_segments - 1 else int(jnp.argmax(logits))
        scores = jax.vmap(network.attention_head)(encodings)
        inside = jnp.where(jnp.arange(len(rest)) < size, 0.0, -1e30)
        last = jnp.arange(len(rest)) == size - 1
        weights = last if readout == "last" else read_attentively(scores, inside, jnp.array(len(rest) - 1))
        codes.append(weights @ jax.vmap(network.code_head)(encodings))
        begin += size
        ends.append(begin)
        if begin == length:
            break
    return ends, codes


@pytest.mark.parametrize("readout", ["last", "attentive"])
@pytest.mark.parametrize("num_segments", [1, 2, 4])
def test_against_scissors(num_segments: int, readout: str) -> None:
    for seed in range(3):
        network = Recognition(INPUTS.shape[1], 5, 4, key=jax.random.key(seed))
        ends, codes = cut_with_scissors(network, INPUTS, LENGTH, num_segments, readout)
        found = find(network, INPUTS, jnp.array(LENGTH), num_segments, readout)
        assert found.ends[: len(ends)].tolist() == ends
        assert found.ends[len(ends) :].tolist() == [LENGTH] * (num_segments - len(ends))
        np.testing.assert_allclose(found.code_logits[: len(codes)], np.stack(codes), rtol=1e-5, atol=1e-6)


def test_the_relaxed_model_without_noise_or_doubt_says_the_same() -> None:
    """Where its boundaries are in order: at test time they are by construction."""
    agreed = 0
    for seed in range(120):
        network = Recognition(INPUTS.shape[1], 5, 4, key=jax.random.key(seed))
        soft = run(network, 3 * INPUTS, jnp.array(LENGTH), jnp.zeros((3, TIMES)), 1e-5, "last")
        ends = np.argmax(soft.log_boundaries, axis=1)
        if np.all(np.diff([0, *ends]) > 0):
            hard = find(network, 3 * INPUTS, jnp.array(LENGTH), 3)
            np.testing.assert_array_equal(hard.ends, ends)
            np.testing.assert_allclose(hard.code_logits, soft.code_logits, rtol=1e-4, atol=1e-5)
            agreed += 1
    assert agreed > 2


def test_longer_than_ever_seen() -> None:
    long = jnp.tile(INPUTS, (6, 1))
    found = find(NETWORK, long, jnp.array(len(long) - 1), 12)
    ends = np.asarray(found.ends)
    assert ends[-1] == len(long) - 1
    assert (np.diff(ends) >= 0).all()
