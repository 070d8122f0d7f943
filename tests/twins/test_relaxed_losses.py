"""The loss that training minimises, as a whole, beside the twin's: padding, labels and the termination policy included.

Embeddings and the heads of policies are the package's own; all that follows them is the twin's, the densities of
actions included.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.config import Config
from compile_il.data.batch import batch_of
from compile_il.inference.engines import ENGINES
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.networks.policies import CodePolicy
from tests.inference.exact.small import new_skills
from tests.twins import relaxed_twin as twin
from tests.twins.read_networks import (
    action_prob,
    action_vectors,
    policy_table,
    recognition_inputs,
    recognition_of,
    seen_by_policies,
    termination_of,
)

NUM_ACTIONS, HIDDEN, MAX_LENGTH, TEMPERATURE, RATE, FLOOR = 3, 6, 10, 0.7, 3.0, 0.3
LENGTHS = (5, 8, 3, 6)
UNLABELLED, ENDS, CODES, BOTH = range(4)
"""Which labels each demonstration has, where labels are used."""
LABEL_ENDS = {ENDS: [3, 5], BOTH: [2, 4]}
LABEL_CODES = {CODES: [1, 0, 3], BOTH: [2, 2, 1]}
CONFIG = Config(
    inference="relaxed",
    num_segments=3,
    num_skills=4,
    hidden_dim=HIDDEN,
    sigma_floor=FLOOR,
    temperature=TEMPERATURE,
    beta_codes=0.2,
    beta_boundaries=0.3,
).resolved()
GAUSSIAN = {"codes": "gaussian", "code_dim": 4}


def demonstrations(continuous: bool) -> cil.Demonstrations:
    """Continuous actions have entries of different means and spreads."""
    rng = np.random.default_rng(3)
    observations = [rng.normal(size=(length + 1, 4)).astype(np.float32) for length in LENGTHS]
    if continuous:
        return cil.Demonstrations.from_arrays(
            observations, [rng.normal([2.0, -30.0], [0.5, 7.0], (length, 2)) for length in LENGTHS]
        )
    actions = [rng.integers(0, NUM_ACTIONS, length) for length in LENGTHS]
    return cil.Demonstrations.from_arrays(observations, actions, num_actions=NUM_ACTIONS)


def networks(demos: cil.Demonstrations, config: Config, seed: int = 0) -> RelaxedSkills:
    """As they are drawn, but with deviations of actions on either side of the floor."""
    skills = new_skills(demos, config, seed)
    assert isinstance(skills, RelaxedSkills)
    log_sigma = np.log(FLOOR) + np.random.default_rng(4).normal(0.2, 1.0, skills.policies.log_sigma.shape)
    return eqx.tree_at(lambda s: s.policies.log_sigma, skills, jnp.asarray(log_sigma, jnp.float32))


def with_labels(demos: cil.Demonstrations) -> cil.Demonstrations:
    boundaries = [np.full(length, -1) for length in LENGTHS]
    for demo, ends in LABEL_ENDS.items():
        boundaries[demo] = np.isin(np.arange(LENGTHS[demo]), ends).astype(int)
    codes = [np.array(LABEL_CODES.get(demo, []), int) for demo in range(len(LENGTHS))]
    return demos.with_labels(boundaries=boundaries, segment_codes=codes)


def twin_loss(
    skills: RelaxedSkills, demos: cil.Demonstrations, i: int, key: Any, config: Config, labelled: bool
) -> float:
    length, observations, vectors = LENGTHS[i], demos.observations[i], action_vectors(demos, i)
    p = recognition_of(skills.recognition)
    boundary_key, code_key = jax.random.split(key)
    gumbel = np.asarray(jax.random.gumbel(boundary_key, (3, MAX_LENGTH + 1)))[:, : length + 1]
    ends, codes = (LABEL_ENDS.get(i), LABEL_CODES.get(i)) if labelled else (None, None)
    inputs = recognition_inputs(skills, observations, vectors)
    found = twin.infer(p, inputs, length, gumbel, temperature=TEMPERATURE, readout=config.readout, label_ends=ends)
    gaussian = isinstance(skills.policies, CodePolicy)
    code_loss = gaussian_loss if gaussian else categorical_loss
    total = code_loss(skills, observations, vectors, found, code_key, codes, config)
    if ends is None:
        total += config.beta_boundaries * twin.boundary_cost(found, RATE, length, config.boundary_term)
    else:
        total -= sum(np.log(twin.softmax(found.boundary_logits[m])[ends[m]]) for m in range(2))
    most_probable = [int(np.argmax(logits)) for logits in found.boundary_logits[:2]]
    stops, seen = termination_of(skills.termination), skills.termination.encoder.embedding
    arrived = np.array([seen(jnp.asarray(observation)) for observation in observations], np.float64)
    total += twin.termination_loss(stops, arrived, vectors, found.masks, [*(ends or most_probable), length], length)
    return total


def categorical_loss(
    skills: RelaxedSkills, seen: Any, vectors: Any, found: Any, key: Any, codes: list[int] | None, config: Config
) -> float:
    """Reconstruction by a mixture, and what codes cost."""
    gumbel = np.asarray(jax.random.gumbel(key, found.code_logits.shape))
    if codes is None:
        samples = [twin.concrete(z, g, TEMPERATURE) for z, g in zip(found.code_logits, gumbel, strict=True)]
        cost = config.beta_codes * sum(twin.code_kl(logits) for logits in found.code_logits)
    else:
        samples = list(np.eye(found.code_logits.shape[1])[codes])
        cost = -sum(np.log(twin.softmax(found.code_logits[m])[code]) for m, code in enumerate(codes))
    policies = [policy_table(skills, seen, vectors, FLOOR, mask) for mask in found.masks]
    return cost + twin.reconstruction(found.segment_probs, np.array(samples), policies, len(vectors))


def gaussian_loss(
    skills: RelaxedSkills, seen: Any, vectors: Any, found: Any, key: Any, codes: list[int] | None, config: Config
) -> float:
    """Reconstruction by one policy that reads the code, and what codes cost."""
    mean, log_variance = np.split(found.code_logits, 2, axis=1)
    noise_key, label_key = jax.random.split(key)
    samples = mean + np.exp(log_variance / 2) * np.asarray(jax.random.normal(noise_key, mean.shape))
    if codes is None:
        total = config.beta_codes * sum(map(twin.gaussian_code_kl, mean, log_variance))
    else:
        label = np.sqrt(mean.shape[1]) * np.eye(mean.shape[1])[codes]
        samples = label if jax.random.uniform(label_key) < 0.5 else samples
        total = sum(map(twin.gaussian_code_kl, mean - label, log_variance))
    for m, sample in enumerate(samples):
        views = seen_by_policies(skills, seen, vectors, found.masks[m])
        for t, vector in enumerate(vectors):
            total -= found.segment_probs[m][t] * np.log(action_prob(skills, views[t], vector, sample, FLOOR))
    return float(total)


@pytest.mark.parametrize(
    ("settings", "continuous", "labelled"),
    [
        ({"readout": "last", "boundary_term": "first"}, False, False),
        ({"readout": "attentive", "boundary_term": "lengths"}, False, True),
        ({"readout": "last", "boundary_term": "first", **GAUSSIAN}, False, False),
        ({"readout": "last", "boundary_term": "first"}, True, True),
        ({"readout": "attentive", "boundary_term": "lengths", **GAUSSIAN}, True, True),
        ({"recurrent": True, "forgetful": True}, False, True),
        ({"recurrent": True, "forgetful": True, **GAUSSIAN}, True, False),
    ],
)
def test_the_whole_loss(settings: dict[str, Any], continuous: bool, labelled: bool) -> None:
    config, demos = dataclasses.replace(CONFIG, **settings), demonstrations(continuous)
    demos = with_labels(demos) if labelled else demos
    skills = networks(demos, config)
    keys = jax.random.split(jax.random.key(1), len(LENGTHS))
    batch = batch_of(demos.storage, sum(LENGTHS) + 12, MAX_LENGTH)
    found = eqx.filter_jit(ENGINES[config.inference].make_losses(config, RATE))(skills, batch, keys, jnp.array(0)).total
    expected = [twin_loss(skills, demos, i, keys[i], config, labelled) for i in range(len(LENGTHS))]
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize("continuous", [False, True])
def test_one_segment_with_a_gaussian_code_is_a_plain_vae(continuous: bool) -> None:
    """One vector for the whole demonstration, read after its last step: the paper's VAE-BC, but for its stop."""
    config, demos = dataclasses.replace(CONFIG, num_segments=1, **GAUSSIAN), demonstrations(continuous)
    skills = networks(demos, config)
    keys = jax.random.split(jax.random.key(1), len(LENGTHS))
    batch = batch_of(demos.storage, sum(LENGTHS) + 12, MAX_LENGTH)
    found = eqx.filter_jit(ENGINES[config.inference].make_losses(config, RATE))(skills, batch, keys, jnp.array(0)).terms
    p = recognition_of(skills.recognition)
    for i, length in enumerate(LENGTHS):
        observations, vectors, everything = demos.observations[i], action_vectors(demos, i), np.ones(length + 1)
        last = twin.lstm_pass(p, recognition_inputs(skills, observations, vectors)[:length], everything[:-1])[-1]
        mean, log_variance = np.split(twin.affine(p.code_weight, p.code_bias, last), 2)
        noise = jax.random.normal(jax.random.split(jax.random.split(keys[i])[1])[0], (1, len(mean)))[0]
        code = mean + np.exp(log_variance / 2) * np.asarray(noise)
        views = seen_by_policies(skills, observations, vectors, everything)
        probs = [action_prob(skills, views[t], vector, code, FLOOR) for t, vector in enumerate(vectors)]
        kl = np.sum(np.exp(log_variance) + mean**2 - 1 - log_variance) / 2
        np.testing.assert_allclose(found["reconstruction"][i], -np.sum(np.log(probs)), rtol=1e-5)
        np.testing.assert_allclose(found["codes"][i], config.beta_codes * kl, rtol=1e-5)
        assert found["boundaries"][i] == 0
