"""V-trace with a discount for each decision beside a plain double loop, and losses that padding cannot change."""

import functools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.rl.agent import NO_TASK, Agent, AgentInput
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import Outcomes, Trajectory
from compile_il.rl.impala import clip_advantages, impala_losses, vtrace

RNG = np.random.default_rng(0)
RLAX = np.load(Path(__file__).parents[1] / "data" / "rlax_vtrace.npz")


def plain_vtrace(values: np.ndarray, rewards: np.ndarray, discounts: np.ndarray, weights: np.ndarray) -> tuple:
    """v_n = V_n + sum over t >= n of (prod of c_i discount_i for n <= i < t) delta_t, as it is printed."""
    rho = np.minimum(weights, 1.0)
    targets = list(values)
    for n in range(len(rewards)):
        for t in range(n, len(rewards)):
            trace = 1.0
            for i in range(n, t):
                trace *= rho[i] * discounts[i]
            targets[n] += trace * rho[t] * (rewards[t] + discounts[t] * values[t + 1] - values[t])
    advantages = [rho[n] * (rewards[n] + discounts[n] * targets[n + 1] - values[n]) for n in range(len(rewards))]
    return np.array(targets[:-1]), np.array(advantages)


def draw(num: int) -> tuple[np.ndarray, ...]:
    lengths = RNG.integers(1, 9, num)
    discounts = np.where(RNG.random(num) < 0.2, 0.0, 0.9**lengths)
    return RNG.normal(size=num + 1), RNG.normal(size=num), discounts, np.exp(RNG.normal(size=num))


@pytest.mark.parametrize("num", [1, 2, 17])
def test_vtrace_is_the_double_loop(num: int) -> None:
    given = draw(num)
    found = vtrace(*(jnp.asarray(array, jnp.float32) for array in given))
    targets, advantages = plain_vtrace(*given)
    np.testing.assert_allclose(found.values, targets, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(found.advantages, advantages, rtol=2e-5, atol=1e-5)


def test_vtrace_is_that_of_rlax() -> None:
    """`rlax_vtrace.npz` is what `vtrace_td_error_and_advantage` of rlax 0.1.9 gives for random numbers, in float32.

    Its errors are v_n - V(s_n). Sixteen trajectories of twelve decisions; a fifth of the discounts are 0, others 0.99
    to the power of 1 to 11.
    """
    names = ("values", "rewards", "discounts", "weights")
    found = jax.vmap(vtrace)(*(jnp.asarray(RLAX[name]) for name in names))
    np.testing.assert_allclose(found.values - RLAX["values"][:, :-1], RLAX["errors"], atol=2e-6)
    np.testing.assert_allclose(found.advantages, RLAX["advantages"], atol=2e-6)


def test_on_policy_it_is_the_discounted_return() -> None:
    values, rewards, discounts, _ = draw(6)
    found = vtrace(*(jnp.asarray(array, jnp.float32) for array in (values, rewards, discounts, np.ones(6))))
    back = values[-1]
    for n in reversed(range(6)):
        back = rewards[n] + discounts[n] * back
        np.testing.assert_allclose(found.values[n], back, rtol=1e-5, atol=1e-5)


def test_nothing_crosses_the_end_of_an_episode() -> None:
    values, rewards, discounts, weights = draw(8)
    discounts[3] = 0.0
    first = vtrace(*(jnp.asarray(array, jnp.float32) for array in (values, rewards, discounts, weights)))
    values[4:], rewards[4:], weights[4:] = 7.0, -5.0, 3.0
    second = vtrace(*(jnp.asarray(array, jnp.float32) for array in (values, rewards, discounts, weights)))
    np.testing.assert_array_equal(first.values[:4], second.values[:4])
    np.testing.assert_array_equal(first.advantages[:4], second.advantages[:4])


def test_what_has_moved_far_is_pushed_no_further() -> None:
    advantages, weights = jnp.array([-1.0, -1.0, -1.0, 2.0, 2.0, 2.0]), jnp.array([0.79, 0.81, 1.3, 0.7, 1.19, 1.21])
    np.testing.assert_array_equal(clip_advantages(advantages, weights, 0.2), [0, -1, -1, 2, 2, 0])
    np.testing.assert_array_equal(clip_advantages(advantages, weights, None), advantages)


CONFIG = AgentConfig(hidden_dim=6, embed_dim=3)
MAKE = functools.partial(Agent, CONFIG, observation_shape=(4,), num_types=3, num_input_tasks=2, num_options=5)


@pytest.fixture(scope="module")
def agent() -> Agent:
    return eqx.filter_jit(MAKE)(key=jax.random.key(0))


def trajectory(num: int, num_valid: int) -> Trajectory:
    rewards, discounts = draw(num)[1:3]
    return Trajectory(
        inputs=AgentInput(
            jnp.asarray(RNG.normal(size=(num + 1, 4)), jnp.float32),
            jnp.zeros(num + 1, jnp.int32),
            jnp.asarray(RNG.integers(NO_TASK, 3, (num + 1, 2))),
        ),
        options=jnp.asarray(RNG.integers(0, 5, num)),
        log_probs=jnp.asarray(-RNG.random(num), jnp.float32),
        outcomes=Outcomes(
            jnp.asarray(rewards, jnp.float32), jnp.asarray(discounts, jnp.float32), jnp.arange(num) < num_valid
        ),
    )


def test_a_trajectory_ends_with_its_last_outcome(agent: Agent) -> None:
    """What is padded behind changes neither losses nor gradients; the decision after the last outcome is its value."""
    whole = trajectory(4, 4)
    padding = trajectory(3, 0)
    padded = jax.tree.map(lambda a, b: jnp.concatenate([a, b[: b.shape[0]]]), whole, padding)
    # Of N + 1 inputs the padding brings one too many.
    padded = padded._replace(inputs=jax.tree.map(lambda leaf: leaf[:8], padded.inputs))

    def total(agent: Agent, given: Trajectory) -> jax.Array:
        losses = impala_losses(agent, given)
        return losses.policy + 0.5 * losses.baseline - 0.01 * losses.entropy

    run = eqx.filter_jit(lambda agent, given: (impala_losses(agent, given), eqx.filter_grad(total)(agent, given)))
    for left, right in zip(jax.tree.leaves(run(agent, whole)), jax.tree.leaves(run(agent, padded)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_the_losses_are_those_of_the_paper(agent: Agent) -> None:
    given = trajectory(5, 5)
    outputs = jax.jit(jax.vmap(agent))(given.inputs)
    log_probs = np.asarray(jax.nn.log_softmax(outputs.logits[:-1]))
    chosen = log_probs[np.arange(5), given.options]
    outcomes = (np.asarray(outputs.value), np.asarray(given.outcomes.rewards), np.asarray(given.outcomes.discounts))
    targets, advantages = plain_vtrace(*outcomes, np.exp(chosen - np.asarray(given.log_probs)))
    found = eqx.filter_jit(impala_losses)(agent, given)
    np.testing.assert_allclose(found.policy, -np.sum(advantages * chosen), rtol=1e-4)
    np.testing.assert_allclose(found.baseline, 0.5 * np.sum((targets - outcomes[0][:-1]) ** 2), rtol=1e-4)
    np.testing.assert_allclose(found.entropy, -np.sum(np.exp(log_probs) * log_probs), rtol=1e-4)
    assert found.num_decisions == 5
