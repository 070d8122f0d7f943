"""The recognition model and its loss: against a loop in NumPy, and in the limits where they are known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.inference.relaxed.distributions import categorical_kl, relax
from compile_il.inference.relaxed.objective import mixed_log_policy, reconstruction
from compile_il.inference.relaxed.recognition import Inference, Recognition
from tests.inference.relaxed.single import encode, infer, unlabelled_terms

# Logits over a temperature near zero are large: unoptimised programs round them so that log q is off by 1e-3.
pytestmark = pytest.mark.usefixtures("optimised")

TIMES, INPUT, HIDDEN, SKILLS = 8, 3, 5, 4
RNG = np.random.default_rng(0)
INPUTS = jnp.asarray(RNG.normal(size=(TIMES, INPUT)), jnp.float32)
LOG_POLICY = jax.nn.log_softmax(jnp.asarray(RNG.normal(size=(TIMES - 1, SKILLS)), jnp.float32)) - 1
NETWORK = Recognition(INPUT, HIDDEN, SKILLS, key=jax.random.key(1))
LENGTH = 6


@eqx.filter_jit
def run(network: Recognition, inputs: Any, length: Any, gumbel: Any, temperature: Any, readout: str) -> Inference:
    return infer(network, inputs, length, gumbel, temperature=temperature, readout=readout)


def infer_in_numpy(length: int, gumbel: np.ndarray, temperature: float, readout: str) -> list[dict[str, np.ndarray]]:
    """The same, step by step, with probabilities instead of their logs."""
    cell, head, codes = NETWORK.cell, NETWORK.boundary_head.layers, NETWORK.code_head
    weights = [np.asarray(w, np.float64) for w in (cell.weight_ih, cell.weight_hh, cell.bias)]
    open_, found = np.ones(TIMES), []

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    for i in range(len(gumbel)):
        hidden, memory, encodings = np.zeros(HIDDEN), np.zeros(HIDDEN), []
        for t in range(TIMES):
            gates = weights[0] @ np.asarray(INPUTS[t], np.float64) + weights[1] @ hidden + weights[2]
            i_, f, g, o = np.split(gates, 4)
            memory = (sigmoid(f) * memory + sigmoid(i_) * np.tanh(g)) * 1.0
            hidden = sigmoid(o) * np.tanh(memory)
            hidden, memory = open_[t] * hidden, open_[t] * memory
            encodings.append(hidden)
        h = np.array(encodings)
        first = np.maximum(h @ np.asarray(head[0].weight).T + np.asarray(head[0].bias), 0)
        logits = (first @ np.asarray(head[1].weight).T + np.asarray(head[1].bias)).reshape(TIMES)
        scaled = np.where(
            (np.arange(TIMES) > 0) & (np.arange(TIMES) <= length), (logits + gumbel[i]) / temperature, -np.inf
        )
        boundary = np.exp(scaled - scaled[1 : length + 1].max())
        boundary /= boundary.sum()
        if i == len(gumbel) - 1:
            boundary = (np.arange(TIMES) == length).astype(float)
        segment = open_ * (1 - np.cumsum(boundary)).clip(0)
        if readout == "last":
            read = np.append(boundary[1:], 0.0)
        else:
            scores = (
                h @ np.asarray(NETWORK.attention_head.weight).T + np.asarray(NETWORK.attention_head.bias)
            ).reshape(TIMES)
            read = np.exp(scores) * segment
            read /= read.sum()
        code = read @ (h @ np.asarray(codes.weight).T + np.asarray(codes.bias))
        found.append({"boundary": boundary, "segment": segment, "code_logits": code})
        open_ = open_ * np.cumsum(boundary)
    return found


@pytest.mark.parametrize("readout", ["last", "attentive"])
@pytest.mark.parametrize("length", [LENGTH, TIMES - 1])
def test_against_a_loop_in_numpy(length: int, readout: str) -> None:
    gumbel = RNG.gumbel(size=(3, TIMES))
    ours = run(NETWORK, INPUTS, jnp.array(length), jnp.asarray(gumbel, jnp.float32), 0.7, readout)
    for i, expected in enumerate(infer_in_numpy(length, gumbel, 0.7, readout)):
        np.testing.assert_allclose(np.exp(ours.log_boundaries[i]), expected["boundary"], atol=1e-5)
        np.testing.assert_allclose(np.exp(ours.log_segments[i]), expected["segment"], atol=1e-5)
        np.testing.assert_allclose(ours.code_logits[i], expected["code_logits"], atol=1e-5)


def test_padding_changes_nothing() -> None:
    gumbel = jax.random.gumbel(jax.random.key(3), (3, TIMES))
    other = INPUTS.at[LENGTH + 1 :].set(1e3)
    a, b = (run(NETWORK, x, jnp.array(LENGTH), gumbel, 1.0, "last") for x in (INPUTS, other))
    np.testing.assert_array_equal(a.log_boundaries, b.log_boundaries)
    np.testing.assert_array_equal(a.code_logits, b.code_logits)
    losses = []
    for policy in (LOG_POLICY, LOG_POLICY.at[LENGTH:].set(-1e6)):
        losses.append(unlabelled_terms(a, jax.nn.log_softmax(a.code_logits), policy, jnp.array(LENGTH)))
    np.testing.assert_array_equal(*map(np.array, losses))


def test_hard_boundaries_restart_the_network() -> None:
    """With temperatures that leave no doubt, each segment is read as if it stood alone."""
    gumbel = jax.random.gumbel(jax.random.key(5), (3, TIMES))
    found = run(NETWORK, INPUTS, jnp.array(LENGTH), gumbel, 1e-4, "last")
    ends = np.argmax(found.log_boundaries, axis=1)
    begin = 0
    for i, end in enumerate(ends):
        if end > begin:
            alone = encode(NETWORK.cell, INPUTS[begin:], jnp.ones(TIMES - begin))
            expected = NETWORK.code_head(alone[end - begin - 1])
            np.testing.assert_allclose(found.code_logits[i], expected, rtol=1e-4, atol=1e-4)
        begin = max(begin, end)


def test_one_segment_is_a_plain_autoencoder() -> None:
    """No boundary is sampled, nothing is masked, the code is read at the last step."""
    found = run(NETWORK, INPUTS, jnp.array(LENGTH), jax.random.gumbel(jax.random.key(0), (1, TIMES)), 1.0, "last")
    encodings = encode(NETWORK.cell, INPUTS, jnp.ones(TIMES))
    logits = NETWORK.code_head(encodings[LENGTH - 1])
    np.testing.assert_allclose(found.code_logits[0], logits, rtol=1e-5, atol=1e-6)
    log_codes = relax(logits, jnp.zeros(SKILLS), 1.0)[None]
    terms = unlabelled_terms(found, log_codes, LOG_POLICY, jnp.array(LENGTH))
    mixed = np.log(np.exp(np.asarray(LOG_POLICY)[:LENGTH]) @ np.exp(np.asarray(log_codes[0])))
    np.testing.assert_allclose(terms.reconstruction, -mixed.sum(), rtol=1e-5)
    np.testing.assert_allclose(terms.codes, categorical_kl(logits), rtol=1e-5)
    assert float(terms.boundaries) == 0


def test_certain_codes_and_boundaries_give_the_supervised_loss() -> None:
    boundaries, codes = (2, 5, LENGTH), (1, 3, 0)
    starts = (0, *boundaries[:-1])
    log_segments = np.full((3, TIMES), -1e30, np.float32)
    for i, (begin, end) in enumerate(zip(starts, boundaries, strict=True)):
        log_segments[i, begin:end] = 0
    log_codes = jnp.where(jax.nn.one_hot(jnp.array(codes), SKILLS) > 0, 0.0, -1e30)
    found = reconstruction(jnp.asarray(log_segments), mixed_log_policy(log_codes, LOG_POLICY), jnp.array(LENGTH))
    expected = -sum(
        float(LOG_POLICY[t, k]) for b, e, k in zip(starts, boundaries, codes, strict=True) for t in range(b, e)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_gradients_reach_the_boundary_head_by_each_way() -> None:
    gumbel = jax.random.gumbel(jax.random.key(7), (3, TIMES))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(network: Recognition, weights: Any) -> Any:
        found = infer(network, INPUTS, jnp.array(LENGTH), gumbel, temperature=1.0)
        log_codes = jax.nn.log_softmax(found.code_logits)
        terms = unlabelled_terms(found, log_codes, LOG_POLICY, jnp.array(LENGTH), boundary_term="first")
        return weights @ jnp.array(terms)

    for part in np.eye(3, dtype=np.float32):
        of_head = gradient(NETWORK, jnp.asarray(part)).boundary_head
        sizes = [float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(eqx.filter(of_head, eqx.is_array))]
        assert all(np.isfinite(sizes))
        assert max(sizes) > 1e-6
