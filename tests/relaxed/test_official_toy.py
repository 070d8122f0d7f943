"""Our functions with the official toy code's parameters, inputs and noise give the official code's numbers.

`tests/data/official_toy.npz` holds what the public code (github.com/tkipf/compile) computes, in float64. Where that
code departs from the paper, the departure is written out here, around our functions:

- its end symbol is an input of its own, so that a sequence of 7 inputs has 6 steps and an end;
- its readout averages encodings, which then pass one hidden layer, where the paper averages logits of a linear layer;
- its prior is a Poisson evaluated one position too far, and not renormalised to the sequence's length;
- its KL of categorical codes omits the constant log K.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.lstm import encode
from compile_il.relaxed.masks import end_of, soft_segments
from compile_il.relaxed.prior import log_poisson
from compile_il.relaxed.recognition import Recognition, read_last
from compile_il.relaxed.samples import categorical_kl, gaussian_kl, relax, shift

DATA = np.load(Path(__file__).parents[1] / "data" / "official_toy.npz")
HIDDEN, LATENT, NUM_SEGMENTS, RATE, NUM_STEPS = 7, 4, 3, 3.0, 6
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def parameters(kind: str) -> dict[str, Any]:
    prefix = f"{kind}/param/"
    return {name.removeprefix(prefix): jnp.asarray(DATA[name]) for name in DATA.files if name.startswith(prefix)}


def hidden_layer(p: dict[str, Any], name: str, x: Any) -> Any:
    hidden = jax.nn.relu(x @ p[f"{name}_1.weight"].T + p[f"{name}_1.bias"])
    return hidden @ p[f"{name}_2.weight"].T + p[f"{name}_2.bias"]


def recognition(p: dict[str, Any]) -> Recognition:
    """Our module with the official parameters; PyTorch has two biases where we have their sum."""
    ours = Recognition(HIDDEN, HIDDEN, LATENT, key=jax.random.key(0))
    return eqx.tree_at(
        lambda m: (
            m.cell.weight_ih,
            m.cell.weight_hh,
            m.cell.bias,
            *(x for layer in m.boundary_head.layers for x in (layer.weight, layer.bias)),
        ),
        ours,
        (
            p["lstm_cell.weight_ih"],
            p["lstm_cell.weight_hh"],
            p["lstm_cell.bias_ih"] + p["lstm_cell.bias_hh"],
            p["head_b_1.weight"],
            p["head_b_1.bias"],
            p["head_b_2.weight"],
            p["head_b_2.bias"],
        ),
    )


def noise(kind: str, name: str, sequence: int) -> Any:
    return jnp.asarray(DATA[f"{kind}/{name}"][sequence])


def infer(p: dict[str, Any], kind: str, sequence: int) -> list[dict[str, Any]]:
    """The recognition model, segment by segment, with the noise in the order in which it was drawn."""
    model, symbols, length = recognition(p), DATA[f"{kind}/inputs"][sequence], jnp.array(NUM_STEPS)
    inputs = p["embed.weight"][symbols]
    gumbels = [noise(kind, f"gumbel{i}", sequence) for i in range(5 if kind == "concrete" else 2)]
    boundaries: list[Any] = []
    segments: list[dict[str, Any]] = []
    for i in range(NUM_SEGMENTS):
        log_open = soft_segments(jnp.asarray(boundaries).reshape(i, NUM_STEPS + 1), length).log_open[i]
        seen: dict[str, Any] = {"encodings": encode(model.cell, inputs, jnp.exp(log_open))}
        if i < NUM_SEGMENTS - 1:
            seen["boundary_logits"] = model.boundary_logits(seen["encodings"], length)
            boundaries.append(relax(seen["boundary_logits"], gumbels.pop(0), 1.0))
        last = boundaries[i] if i < NUM_SEGMENTS - 1 else end_of(length, NUM_STEPS + 1)
        seen["boundary_sample"] = jnp.exp(last)
        seen["code_logits"] = hidden_layer(p, "head_z", read_last(last) @ seen["encodings"])
        if kind == "concrete":
            seen["code_sample"] = jnp.exp(relax(seen["code_logits"], gumbels.pop(0), 1.0))
        else:
            mean, log_variance = jnp.split(seen["code_logits"], 2)
            seen["code_sample"] = shift(mean, log_variance, noise(kind, f"gauss{i}", sequence))
        seen["reconstruction_logits"] = jnp.broadcast_to(
            hidden_layer(p, "decode", seen["code_sample"]), (NUM_STEPS + 1, 6)
        )
        segments.append(seen)
    probs = jnp.exp(soft_segments(jnp.asarray(boundaries), length).log_probs)
    return [seen | {"segment_probs": probs[i]} for i, seen in enumerate(segments)]


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
@pytest.mark.parametrize("sequence", [0, 1])
def test_every_number_of_the_recognition_model(kind: str, sequence: int) -> None:
    for i, seen in enumerate(infer(parameters(kind), kind, sequence)):
        names = {name.split("/")[2] for name in DATA.files if name.startswith(f"{kind}/segment{i}/")}
        assert names == set(seen)
        for name in names:
            expected = DATA[f"{kind}/segment{i}/{name}"][sequence]
            np.testing.assert_allclose(seen[name], expected, **TOLERANCE, err_msg=name)


def loss_terms(p: dict[str, Any], kind: str) -> dict[str, Any]:
    """The official loss: means over sequences of reconstruction and KLs, with the departures named above."""
    terms = {"nll": 0.0, "kl_z": 0.0, "kl_b": 0.0}
    for sequence in range(2):
        symbols = DATA[f"{kind}/inputs"][sequence][:NUM_STEPS]
        segments = infer(p, kind, sequence)
        for seen in segments:
            log_probs = jax.nn.log_softmax(seen["reconstruction_logits"])[jnp.arange(NUM_STEPS), symbols]
            terms["nll"] -= jnp.sum(seen["segment_probs"][:NUM_STEPS] * log_probs) / 2
            if kind == "concrete":
                terms["kl_z"] += (categorical_kl(seen["code_logits"]) - jnp.log(LATENT)) / 2
            else:
                terms["kl_z"] += gaussian_kl(*jnp.split(seen["code_logits"], 2)) / 2
        log_q = jax.nn.log_softmax(segments[0]["boundary_logits"])
        log_p = log_poisson(jnp.arange(1.0, NUM_STEPS + 2), RATE)  # one position too far
        log_p = jax.nn.log_softmax(log_p)
        terms["kl_b"] += NUM_SEGMENTS * jnp.sum(jnp.exp(log_q) * jnp.where(log_q > -1e29, log_q - log_p, 0.0)) / 2
    return terms


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
def test_the_loss_terms(kind: str) -> None:
    terms = loss_terms(parameters(kind), kind)
    for name, value in terms.items():
        np.testing.assert_allclose(value, DATA[f"{kind}/{name}"], **TOLERANCE, err_msg=name)


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
def test_gradients_reach_every_parameter(kind: str) -> None:
    """Through masks, readouts and the masked loss."""

    def loss(p: dict[str, Any]) -> Any:
        terms = loss_terms(p, kind)
        return terms["nll"] + 0.1 * terms["kl_z"] + 0.1 * terms["kl_b"]

    value, gradient = jax.jit(jax.value_and_grad(loss))(parameters(kind))
    np.testing.assert_allclose(value, DATA[f"{kind}/loss"], **TOLERANCE)
    for name, found in gradient.items():
        np.testing.assert_allclose(found, DATA[f"{kind}/grad/{name}"], **TOLERANCE, err_msg=name)
        assert np.abs(found).max() > 0, name
