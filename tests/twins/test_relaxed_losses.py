"""The loss that training minimises, as a whole, beside the twin's: padding, labels and the termination policy included.

Embeddings and policies are the package's own; all that follows them is the twin's.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.batches import batch_of
from compile_il.config import Config
from compile_il.objectives import make_losses, new_skills
from compile_il.policies import CodePolicy
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.sources import scaling_of, space_of
from tests.twins import relaxed_twin as twin

NUM_ACTIONS, HIDDEN, MAX_LENGTH, TEMPERATURE, RATE = 3, 6, 10, 0.7, 3.0
LENGTHS = (5, 8, 3, 6)
UNTOLD, ENDS, CODES, BOTH = range(4)
"""What is told of each demonstration, where labels are told at all."""
TOLD_ENDS = {ENDS: [3, 5], BOTH: [2, 4]}
TOLD_CODES = {CODES: [1, 0, 3], BOTH: [2, 2, 1]}
CONFIG = Config(
    inference="relaxed",
    num_segments=3,
    num_skills=4,
    code_dim=4,
    hidden_dim=HIDDEN,
    temperature=TEMPERATURE,
    beta_codes=0.2,
    beta_boundaries=0.3,
).settled()


def demonstrations() -> cil.Demonstrations:
    rng = np.random.default_rng(3)
    observations = [rng.normal(size=(length + 1, 4)).astype(np.float32) for length in LENGTHS]
    actions = [rng.integers(0, NUM_ACTIONS, length) for length in LENGTHS]
    return cil.Demonstrations.from_arrays(observations, actions, num_actions=NUM_ACTIONS)


def with_labels(demos: cil.Demonstrations) -> cil.Demonstrations:
    boundaries = [np.full(length, -1) for length in LENGTHS]
    for demo, ends in TOLD_ENDS.items():
        boundaries[demo] = np.isin(np.arange(LENGTHS[demo]), ends).astype(int)
    codes = [np.array(TOLD_CODES.get(demo, []), int) for demo in range(len(LENGTHS))]
    return demos.with_labels(boundaries=boundaries, segment_codes=codes)


def plain(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(layer.weight, np.float64).reshape(-1, layer.weight.shape[-1]), np.ravel(layer.bias)


def lstm_of(cell: eqx.nn.LSTMCell) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(leaf, np.float64) for leaf in (cell.weight_ih, cell.weight_hh, cell.bias))


def recognition_inputs(skills: RelaxedSkills, observations: Any, vectors: np.ndarray) -> np.ndarray:
    """LayerNorm of state and action, the latter nothing at the end."""
    rows = []
    for t, observation in enumerate(observations):
        last = t == len(observations) - 1
        done = jnp.zeros(HIDDEN) if last else skills.action_layer(jnp.asarray(vectors[t], jnp.float32))
        rows.append(skills.norm(jnp.concatenate([skills.embedding(jnp.asarray(observation)), done])))
    return np.array(rows, np.float64)


def twin_loss(skills: RelaxedSkills, demos: cil.Demonstrations, i: int, key: Any, config: Config, told: bool) -> float:
    recognition, length = skills.recognition, LENGTHS[i]
    observations, actions = demos.observations[i], demos.actions[i]
    vectors = np.eye(NUM_ACTIONS)[actions]
    linear = (*recognition.boundary_head.layers, recognition.code_head, recognition.attention_head)
    p = twin.TwinParameters(*lstm_of(recognition.cell), *(part for layer in linear for part in plain(layer)))
    boundary_key, code_key = jax.random.split(key)
    gumbel = np.asarray(jax.random.gumbel(boundary_key, (3, MAX_LENGTH + 1)))[:, : length + 1]
    ends, codes = (TOLD_ENDS.get(i), TOLD_CODES.get(i)) if told else (None, None)
    inputs = recognition_inputs(skills, observations, vectors)
    found = twin.infer(p, inputs, length, gumbel, temperature=TEMPERATURE, readout=config.readout, told_ends=ends)
    gaussian = isinstance(skills.policies, CodePolicy)
    code_loss = gaussian_loss if gaussian else categorical_loss
    total = code_loss(skills, observations[:-1], actions, found, code_key, codes, config)
    if ends is None:
        total += config.beta_boundaries * twin.boundary_cost(found, RATE, length, config.boundary_term)
    else:
        total -= sum(np.log(twin.softmax(found.boundary_logits[m])[ends[m]]) for m in range(2))
    most_probable = [int(np.argmax(logits)) for logits in found.boundary_logits[:2]]
    termination = skills.termination
    stops = twin.TwinTermination(*lstm_of(termination.cell), [plain(layer) for layer in termination.head.layers])
    arrived = np.array([termination.embedding(jnp.asarray(seen)) for seen in observations], np.float64)
    total += twin.termination_loss(stops, arrived, vectors, found.masks, [*(ends or most_probable), length], length)
    return total


def categorical_loss(
    skills: RelaxedSkills, seen: Any, actions: Any, found: Any, key: Any, codes: list[int] | None, config: Config
) -> float:
    """Reconstruction by a mixture, and what codes cost."""
    gumbel = np.asarray(jax.random.gumbel(key, found.code_logits.shape))
    if codes is None:
        samples = [twin.concrete(z, g, TEMPERATURE) for z, g in zip(found.code_logits, gumbel, strict=True)]
        cost = config.beta_codes * sum(twin.code_kl(logits) for logits in found.code_logits)
    else:
        samples = list(np.eye(found.code_logits.shape[1])[codes])
        cost = -sum(np.log(twin.softmax(found.code_logits[m])[code]) for m, code in enumerate(codes))
    policies = skills.policies
    policy = [
        np.exp(policies.log_probs(policies.eyes.embedding(jnp.asarray(state)), jnp.asarray(action)))
        for state, action in zip(seen, actions, strict=True)
    ]
    return cost + twin.reconstruction(found.segment_probs, np.array(samples), np.array(policy), len(actions))


def gaussian_loss(
    skills: RelaxedSkills, seen: Any, actions: Any, found: Any, key: Any, codes: list[int] | None, config: Config
) -> float:
    """Reconstruction by one policy that reads the code, and what codes cost."""
    mean, log_variance = np.split(found.code_logits, 2, axis=1)
    noise = np.asarray(jax.random.normal(key, mean.shape))
    told = np.eye(mean.shape[1])[codes] if codes is not None else None
    samples = mean + np.exp(log_variance / 2) * noise if told is None else told
    if told is None:
        total = config.beta_codes * 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
    else:
        total = 0.5 * np.sum((mean - told) ** 2)
    for t, (state, action) in enumerate(zip(seen, actions, strict=True)):
        embedded = skills.policies.eyes.embedding(jnp.asarray(state))
        for m, sample in enumerate(samples):
            log_prob = skills.policies.log_prob(embedded, jnp.asarray(action), jnp.asarray(sample, jnp.float32))
            total -= found.segment_probs[m][t] * float(log_prob)
    return float(total)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"readout": "last", "boundary_term": "first"},
        {"readout": "attentive", "boundary_term": "lengths"},
        {"readout": "last", "boundary_term": "first", "codes": "gaussian"},
    ],
)
def test_the_whole_loss(settings: dict[str, Any], told: bool) -> None:
    config, demos = dataclasses.replace(CONFIG, **settings), demonstrations()
    demos = with_labels(demos) if told else demos
    skills = new_skills(config, space_of(demos), scaling_of(demos), jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), len(LENGTHS))
    batch = batch_of(demos, sum(LENGTHS) + 12, MAX_LENGTH)
    found = eqx.filter_jit(make_losses(config, RATE, MAX_LENGTH))(skills, batch, keys, jnp.array(0))
    expected = [twin_loss(skills, demos, i, keys[i], config, told) for i in range(len(LENGTHS))]
    np.testing.assert_allclose(found, expected, rtol=2e-6)
