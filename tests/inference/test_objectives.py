"""The networks as they are drawn, what they say of actions, and the losses and priors that settings ask for."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm, poisson

from compile_il.config import Config
from compile_il.data.batch import batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.spaces import Scaling, Space, scaling_of, space_of
from compile_il.inference.engines import ENGINES
from compile_il.inference.exact.engine import make_priors
from compile_il.inference.records import Loss
from compile_il.inference.relaxed.engine import temperature_at
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.networks.policies import ActionCoding, CodePolicy
from tests.inference.exact.small import new_skills, vector_demos

NOTHING = jnp.zeros((0,))


def test_a_code_keeps_its_spread_on_its_way_to_the_policy() -> None:
    space = Space("vector", (0,), num_symbols=0, num_actions=5, action_dim=0)
    scaling = Scaling(NOTHING, NOTHING, NOTHING, NOTHING, jnp.zeros((0, 0)), NOTHING)
    config = Config(inference="relaxed", codes="gaussian", hidden_dim=256, code_dim=64)
    skills = ENGINES[config.inference].make_skills(config.resolved(), space, scaling, jax.random.key(0))
    assert isinstance(skills, RelaxedSkills)
    assert isinstance(skills.policies, CodePolicy)
    codes = jax.random.normal(jax.random.key(1), (64, 64))
    read = jax.vmap(skills.policies.code_layer)(codes)
    np.testing.assert_allclose(read.std(axis=0).mean(), 1.0, atol=0.05)


@pytest.mark.parametrize("shape", [(2, 3), (3,)], ids=["of each skill", "of one policy"])
def test_the_density_of_continuous_actions(shape: tuple[int, ...]) -> None:
    """Of the standardised action: independent entries, each with its own deviation, which a floor holds up."""
    rng, floor = np.random.default_rng(0), 0.4
    mean, spread = np.array([1.0, -20.0, 0.1]), np.array([0.5, 8.0, 2.0])
    space = Space("vector", (0,), num_symbols=0, num_actions=0, action_dim=3)
    scaling = Scaling(NOTHING, NOTHING, *map(jnp.asarray, (mean, spread)), changes=jnp.zeros((0, 0)), largest=NOTHING)
    coding = ActionCoding(space, scaling, floor)
    outputs, log_sigma, action = rng.normal(size=shape), rng.normal(-0.5, 1.0, shape), rng.normal(mean, spread)
    assert (np.exp(log_sigma) < floor).any()
    assert (np.exp(log_sigma) > floor).any()
    sigma = np.maximum(np.exp(log_sigma), floor)
    expected = norm.logpdf((action - mean) / spread, outputs, sigma).sum(axis=-1)
    found = coding.log_prob(*map(jnp.asarray, (outputs, log_sigma, action)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    likeliest = coding.most_probable(jnp.asarray(outputs.reshape(-1, 3)[0]))
    np.testing.assert_allclose(likeliest, outputs.reshape(-1, 3)[0] * spread + mean, rtol=1e-5)


def test_a_column_of_actions_that_never_changes_says_nothing_and_is_given_back() -> None:
    """Whatever networks put out there, likelihoods are those of the other columns, and the action is exactly right."""
    rng = np.random.default_rng(0)
    observations, actions = [rng.normal(size=(9, 2))] * 3, [rng.normal(size=(8, 2))] * 3
    demos = Demonstrations.from_arrays(observations, actions)
    wide = Demonstrations.from_arrays(observations, [np.insert(each, 1, 0.3, axis=1) for each in actions])
    narrow_coding, coding = (ActionCoding(space_of(each), scaling_of(each), 0.5) for each in (demos, wide))
    outputs, log_sigma = jax.random.normal(jax.random.key(0), (2, 4, 3))
    others = jnp.array([0, 2])
    for given, wider in zip(demos.actions[0], wide.actions[0], strict=True):
        narrow_action, action = jnp.asarray(given), jnp.asarray(wider)
        expected = narrow_coding.log_prob(outputs[:, others], log_sigma[:, others], narrow_action)
        np.testing.assert_allclose(coding.log_prob(outputs, log_sigma, action), expected, rtol=1e-5)
        assert coding.vector(action)[1] == 0
        np.testing.assert_array_equal(coding.vector(action.at[1].set(7.0)), coding.vector(action))
    assert coding.most_probable(outputs[0])[1] == np.float32(0.3)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(
    "settings", [{}, {"inference": "relaxed"}, {"inference": "relaxed", "codes": "gaussian"}], ids=str
)
def test_policies_have_as_many_hidden_layers_as_asked(settings: dict[str, Any], num_layers: int) -> None:
    config, demos = Config(num_skills=2, hidden_dim=4, policy_layers=num_layers, **settings), vector_demos()
    policies = (
        ENGINES[config.inference]
        .make_skills(config.resolved(), space_of(demos), scaling_of(demos), jax.random.key(0))
        .policies
    )
    head = policies.head if isinstance(policies, CodePolicy) else policies.heads
    assert len(head.layers) == num_layers + 1


def test_losses_follow_the_temperature() -> None:
    """At each iteration they are those of a temperature that stays at that iteration's value."""
    demos = vector_demos()
    annealed = Config(inference="relaxed", num_segments=3, num_skills=3, hidden_dim=4, num_iterations=5).resolved()
    annealed = dataclasses.replace(annealed, temperature=2.0, final_temperature=0.1)
    skills = new_skills(demos, annealed)
    batch, keys = batch_of(demos.storage, 32, 9), jax.random.split(jax.random.key(1), len(demos))
    falling = eqx.filter_jit(ENGINES[annealed.inference].make_losses(annealed, 3.0))
    first, later = (np.asarray(falling(skills, batch, keys, jnp.array(i)).total) for i in (0, 3))
    assert (np.abs(later - first) > 1e-2).all()
    for i, found in ((0, first), (3, later)):
        value = float(temperature_at(annealed, jnp.array(i)))
        fixed = dataclasses.replace(annealed, temperature=value, final_temperature=None)
        expected = eqx.filter_jit(ENGINES[fixed.inference].make_losses(fixed, 3.0))(skills, batch, keys, jnp.array(0))
        np.testing.assert_allclose(found, expected.total, rtol=1e-5)


def test_the_terms_of_a_loss_have_names() -> None:
    """A weight of zero takes away the term of that name and leaves the others; together they are the loss."""
    demos = vector_demos()
    config = Config(inference="relaxed", num_segments=3, num_skills=3, hidden_dim=4).resolved()
    skills = new_skills(demos, config)
    batch, keys = batch_of(demos.storage, 32, 9), jax.random.split(jax.random.key(1), len(demos))

    def loss(**weights: float) -> Loss:
        losses = ENGINES[config.inference].make_losses(dataclasses.replace(config, **weights), 3.0)
        found: Loss = eqx.filter_jit(losses)(skills, batch, keys, jnp.array(0))
        return found

    whole = loss()
    assert set(whole.terms) == {"reconstruction", "codes", "boundaries", "termination"}
    np.testing.assert_allclose(whole.total, sum(whole.terms.values()), rtol=1e-6)
    for weight, gone in (("beta_codes", "codes"), ("beta_boundaries", "boundaries")):
        fewer = loss(**{weight: 0.0}).terms
        for name, values in whole.terms.items():
            np.testing.assert_allclose(fewer[name], np.zeros(len(demos)) if name == gone else values, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "weight"), [({"inference": "relaxed"}, 1.0), ({"inference": "exact", "duration_weight": 0.5}, 0.5)]
)
def test_the_prior_over_lengths(settings: dict[str, Any], weight: float) -> None:
    """A Poisson of at least one step: with weight 1 for relaxed models, and for exact ones with the weight they set."""
    config, demos = Config(num_skills=3, hidden_dim=4, **settings).resolved(), vector_demos()
    skills = new_skills(demos, config)
    priors = make_priors(config, skills, 2.5, 9)
    expected = weight * (poisson.logpmf(np.arange(1, 10), 2.5) - np.log(poisson.sf(0, 2.5)))
    np.testing.assert_allclose(priors.log_duration[1:], expected, rtol=1e-5)
    np.testing.assert_allclose(priors.log_skill, -np.log(3) * np.ones(3), rtol=1e-6)
