"""The package's networks as the twin takes them: parameters as arrays, and what its embeddings and heads say.

Embeddings and the heads of policies are the package's own; what is made of their numbers is left to the twin.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from compile_il.data.demonstrations import Demonstrations
from compile_il.inference.relaxed.recognition import Recognition
from compile_il.inference.relaxed.skills import RelaxedSkills, Termination
from compile_il.networks.policies import SkillPolicies
from tests.twins import relaxed_twin as twin


def plain(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(layer.weight, np.float64).reshape(-1, layer.weight.shape[-1]), np.ravel(layer.bias)


def lstm_of(cell: eqx.nn.LSTMCell) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(leaf, np.float64) for leaf in (cell.weight_ih, cell.weight_hh, cell.bias))


def recognition_of(network: Recognition) -> twin.TwinParameters:
    linear = (*network.boundary_head.layers, network.code_head, network.attention_head)
    return twin.TwinParameters(*lstm_of(network.cell), *(part for layer in linear for part in plain(layer)))


def termination_of(network: Termination) -> twin.TwinTermination:
    return twin.TwinTermination(*lstm_of(network.encoder.memory), [plain(layer) for layer in network.head.layers])


def action_vectors(demos: Demonstrations, i: int) -> np.ndarray:
    """One-hot, or in spreads of all the data from their mean."""
    if demos.num_actions:
        return np.eye(demos.num_actions)[demos.actions[i]]
    return twin.standardised(np.asarray(demos.actions[i]), np.concatenate([np.asarray(a) for a in demos.actions]))


def recognition_inputs(skills: RelaxedSkills, observations: Any, vectors: np.ndarray) -> np.ndarray:
    """LayerNorm of state and action, the latter nothing at the end."""
    rows = []
    for t, observation in enumerate(observations):
        embedded = skills.embedding(jnp.asarray(observation))
        last = t == len(observations) - 1
        done = jnp.zeros_like(embedded) if last else skills.action_layer(jnp.asarray(vectors[t], jnp.float32))
        rows.append(skills.norm(jnp.concatenate([embedded, done])))
    return np.array(rows, np.float64)


def seen_by_policies(
    skills: RelaxedSkills, observations: Any, vectors: np.ndarray, mask: np.ndarray | None = None
) -> np.ndarray:
    """What policies go by at each time: frames as they are embedded or, where they forget, what a segment remembers."""
    encoder = skills.policies.encoder
    embedded = np.array([encoder.embedding(jnp.asarray(observation)) for observation in observations], np.float64)
    if not encoder.forgetful:
        return embedded
    assert encoder.memory is not None, "only policies that remember can forget"
    assert mask is not None, "what is remembered depends on the segment"
    return twin.remembered(twin.TwinMemory(*lstm_of(encoder.memory)), embedded, vectors, mask, len(vectors))


def action_prob(skills: RelaxedSkills, seen: np.ndarray, vector: np.ndarray, code: Any, sigma_floor: float) -> float:
    """π(a | what is seen, z), where z is a skill or, of Gaussian codes, a vector."""
    policies = skills.policies
    embedded = jnp.asarray(seen, jnp.float32)
    if isinstance(policies, SkillPolicies):
        outputs, log_sigma = policies.outputs(embedded)[code], policies.log_sigma[code]
    else:
        outputs, log_sigma = policies.outputs(embedded, jnp.asarray(code, jnp.float32)), policies.log_sigma
    outputs = np.asarray(outputs, np.float64)
    if policies.encoder.actions.num_actions:
        return float(twin.softmax(outputs) @ vector)
    return twin.gaussian_density(vector, outputs, np.asarray(log_sigma, np.float64), sigma_floor)


def policy_table(
    skills: RelaxedSkills,
    observations: Any,
    vectors: np.ndarray,
    sigma_floor: float,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """π_k(a_t | s_t) of each step and skill."""
    seen, codes = seen_by_policies(skills, observations, vectors, mask), range(skills.num_skills)
    return np.array(
        [
            [action_prob(skills, now, vector, k, sigma_floor) for k in codes]
            for now, vector in zip(seen[:-1], vectors, strict=True)
        ]
    )
