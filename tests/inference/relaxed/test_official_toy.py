"""Our functions with the official toy code's parameters, inputs and noise give the official code's numbers.

`tests/data/official_toy.npz` holds what the public code (github.com/tkipf/compile) computes, in float64. All numbers
come from the functions that training calls. Where that code departs from the paper, what it does instead is put in or
added here:

- its end symbol is an input of its own, so that a sequence of 7 inputs has 6 steps and an end;
- its readout averages encodings, which then pass one hidden layer, where the paper averages logits of a linear layer:
  our linear layer is set to hand encodings on as they are;
- its prior is a Poisson evaluated one position too far. It is normalised, over the positions of the longest sequence of
  the batch rather than over those of each sequence, which are the same here;
- its KL of categorical codes omits the constant log K;
- its decoder reads a relaxed code as a vector, where ours mixes the policies of skills.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

from compile_il.config import Config
from compile_il.inference.relaxed.distributions import gaussian_code_losses, shift
from compile_il.inference.relaxed.objective import (
    CodeSample,
    LossTerms,
    categorical_code_losses,
    loss_terms,
    relaxed_codes,
)
from compile_il.inference.relaxed.recognition import Inference, Recognition, infer_all
from compile_il.inference.relaxed.supervision import Supervision
from tests.inference.relaxed.single import encode, no_supervision

DATA = np.load(Path(__file__).parents[2] / "data" / "official_toy.npz")
HIDDEN, LATENT, NUM_SEGMENTS, RATE, NUM_STEPS, NUM_SEQUENCES = 7, 4, 3, 3.0, 6, 2
LENGTHS = np.full(NUM_SEQUENCES, NUM_STEPS)
CONFIG = Config(inference="relaxed", num_segments=NUM_SEGMENTS, beta_codes=1.0, beta_boundaries=1.0)
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
    return eqx.tree_at(
        lambda m: (
            m.cell.weight_ih,
            m.cell.weight_hh,
            m.cell.bias,
            *(x for layer in m.boundary_head.layers for x in (layer.weight, layer.bias)),
            m.code_head.weight,
            m.code_head.bias,
        ),
        Recognition(HIDDEN, HIDDEN, HIDDEN, key=jax.random.key(0)),
        (
            p["lstm_cell.weight_ih"],
            p["lstm_cell.weight_hh"],
            p["lstm_cell.bias_ih"] + p["lstm_cell.bias_hh"],
            p["head_b_1.weight"],
            p["head_b_1.bias"],
            p["head_b_2.weight"],
            p["head_b_2.bias"],
            jnp.eye(HIDDEN),
            jnp.zeros(HIDDEN),
        ),
    )


def boundary_noise(kind: str) -> Any:
    """For each sequence and segment; the last boundary is known, and nothing is drawn for it."""
    first, second = (DATA[f"{kind}/gumbel{i}"] for i in ((0, 2) if kind == "concrete" else (0, 1)))
    return jnp.stack([first, second, np.zeros_like(first)], axis=1)


def code_noise(kind: str) -> Any:
    names = ("gumbel1", "gumbel3", "gumbel4") if kind == "concrete" else ("gauss0", "gauss1", "gauss2")
    return jnp.stack([DATA[f"{kind}/{name}"] for name in names], axis=1)


def unlabelled() -> Supervision:
    return jax.vmap(lambda length: no_supervision(length, NUM_SEGMENTS))(jnp.asarray(LENGTHS))


def embedded(p: dict[str, Any], kind: str) -> Any:
    return p["embed.weight"][DATA[f"{kind}/inputs"]]


def infer(p: dict[str, Any], kind: str) -> Inference:
    """The recognition model, but for the hidden layer that the official code has before the code logits."""
    rows = embedded(p, kind), jnp.asarray(LENGTHS), boundary_noise(kind), unlabelled().ends
    found = infer_all(recognition(p), *rows, temperature=1.0, readout="last")
    return found._replace(code_logits=hidden_layer(p, "head_z", found.code_logits))


def code_samples(found: Inference, kind: str) -> Any:
    if kind == "concrete":
        return jnp.exp(relaxed_codes(found.code_logits, code_noise(kind), unlabelled().codes, 1.0))
    mean, log_variance = jnp.split(found.code_logits, 2, axis=-1)
    return shift(mean, log_variance, code_noise(kind))


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
def test_every_number_of_the_recognition_model(kind: str) -> None:
    p = parameters(kind)
    found = infer(p, kind)
    encode_rows = jax.vmap(encode, in_axes=(None, 0, 0))
    samples = code_samples(found, kind)
    for i in range(NUM_SEGMENTS):
        seen = {
            "encodings": encode_rows(recognition(p).cell, embedded(p, kind), jnp.exp(found.log_masks[:, i])),
            "boundary_logits": found.boundary_logits[:, i],
            "boundary_sample": jnp.exp(found.log_boundaries[:, i]),
            "segment_probs": jnp.exp(found.log_segments[:, i]),
            "code_logits": found.code_logits[:, i],
            "code_sample": samples[:, i],
            "reconstruction_logits": jnp.repeat(hidden_layer(p, "decode", samples[:, i])[:, None], NUM_STEPS + 1, 1),
        }
        if i == NUM_SEGMENTS - 1:
            del seen["boundary_logits"]  # the last one ends with the sequence
        assert {name.split("/")[2] for name in DATA.files if name.startswith(f"{kind}/segment{i}/")} == set(seen)
        for name, value in seen.items():
            np.testing.assert_allclose(value, DATA[f"{kind}/segment{i}/{name}"], **TOLERANCE, err_msg=name)


def our_terms(p: dict[str, Any], kind: str, found: Inference) -> LossTerms:
    """Those of each sequence, with the official decoder."""
    logits, supervision = hidden_layer(p, "decode", code_samples(found, kind)), unlabelled()
    symbols = DATA[f"{kind}/inputs"][:, :NUM_STEPS]
    log_actions = jnp.take_along_axis(jax.nn.log_softmax(logits), symbols[:, None], axis=-1)
    if kind == "concrete":
        costs = jax.vmap(categorical_code_losses, in_axes=(0, 0, None))(
            found.code_logits, supervision.codes, CONFIG.beta_codes
        )
    else:
        moments = jnp.split(found.code_logits, 2, axis=-1)
        costs = jax.vmap(gaussian_code_losses, in_axes=(0, 0, 0, None))(*moments, supervision.codes, CONFIG.beta_codes)
    each = jax.vmap(functools.partial(loss_terms, config=CONFIG, rate=RATE))
    return each(found, CodeSample(log_actions, costs), supervision, jnp.asarray(LENGTHS))


def one_too_far(logits: Any) -> Any:
    """What the divergence of the first boundary gains by a prior ∝ λ^(t+1) / (t+1)!, which is ours times λ / (t+1)."""
    times = np.arange(NUM_STEPS + 1)
    ours, theirs = poisson.pmf(times, RATE).sum(), poisson.pmf(times + 1, RATE).sum()
    return jax.nn.softmax(logits) @ jnp.log((times + 1) / RATE) + np.log(theirs / ours)


def official_terms(p: dict[str, Any], kind: str) -> dict[str, Any]:
    """The official loss: means over sequences of our terms, with the departures named above."""
    found = infer(p, kind)
    ours = our_terms(p, kind, found)
    constant = NUM_SEGMENTS * jnp.log(LATENT) if kind == "concrete" else 0.0
    further = NUM_SEGMENTS * jax.vmap(one_too_far)(found.boundary_logits[:, 0])
    return {
        "nll": jnp.mean(ours.reconstruction),
        "kl_z": jnp.mean(ours.codes - constant),
        "kl_b": jnp.mean(ours.boundaries + further),
    }


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
def test_the_loss_terms(kind: str) -> None:
    terms = official_terms(parameters(kind), kind)
    for name, value in terms.items():
        np.testing.assert_allclose(value, DATA[f"{kind}/{name}"], **TOLERANCE, err_msg=name)


@pytest.mark.parametrize("kind", ["concrete", "gaussian"])
def test_gradients_reach_every_parameter(kind: str) -> None:
    """Through masks, readouts and the masked loss."""

    def loss(p: dict[str, Any]) -> Any:
        terms = official_terms(p, kind)
        return terms["nll"] + 0.1 * terms["kl_z"] + 0.1 * terms["kl_b"]

    value, gradient = jax.jit(jax.value_and_grad(loss))(parameters(kind))
    np.testing.assert_allclose(value, DATA[f"{kind}/loss"], **TOLERANCE)
    for name, found in gradient.items():
        np.testing.assert_allclose(found, DATA[f"{kind}/grad/{name}"], **TOLERANCE, err_msg=name)
        assert np.abs(found).max() > 0, name
