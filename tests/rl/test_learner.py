"""The learner beside an update written out: V-trace by a double loop, plain means of the losses, Adam in NumPy."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.rl.agent import NO_TASK, Agent, AgentInput
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import Outcomes, Trajectory
from compile_il.rl.impala import Learner
from tests.rl.test_impala import plain_vtrace

NUM, NUM_OPTIONS = 4, 5
RATE, LAST_RATE, BASELINE_COST, MAX_CHANGE = 0.01, 0.001, 0.7, 0.6
CONFIG = AgentConfig(
    num_iterations=2, num_environments=3, batch_size=3, num_ticks=NUM, hidden_dim=6, num_maps=2, embed_dim=3,
    learning_rate=RATE, final_learning_rate=LAST_RATE, baseline_cost=BASELINE_COST, max_change=MAX_CHANGE,
)  # fmt: skip
SHAPES = {"observation_shape": (4,), "num_types": 3, "num_input_tasks": 2, "num_options": NUM_OPTIONS}


def made_up(num_valid: list[int], seed: int) -> Trajectory:
    """Trajectories of which some decisions have no outcome; what is filled in behind is wild."""
    rng, num = np.random.default_rng(seed), len(num_valid)
    valid = np.arange(NUM) < np.array(num_valid)[:, None]
    discounts = np.where(rng.random((num, NUM)) < 0.2, 0.0, 0.9 ** rng.integers(1, 9, (num, NUM)))
    given = Trajectory(
        inputs=AgentInput(
            rng.normal(size=(num, NUM + 1, 4)).astype(np.float32),
            rng.integers(0, 2, (num, NUM + 1)),
            rng.integers(NO_TASK, 3, (num, NUM + 1, 2)),
        ),
        options=rng.integers(0, NUM_OPTIONS, (num, NUM)),
        # Some more probable than they are to the agent that learns, some less.
        log_probs=-rng.uniform(0, 4, (num, NUM)).astype(np.float32),
        outcomes=Outcomes(
            np.where(valid, rng.normal(size=(num, NUM)), 50.0).astype(np.float32), discounts.astype(np.float32), valid
        ),
    )
    return jax.tree.map(jnp.asarray, given)


class Plain(NamedTuple):
    """Losses of a batch, means over the valid decisions."""

    policy: Any
    baseline: Any
    entropy: Any

    def total(self, entropy_cost: float) -> Any:
        return self.policy + BASELINE_COST * self.baseline - entropy_cost * self.entropy


def plain_targets(values: np.ndarray, log_probs: np.ndarray, batch: Trajectory) -> list[tuple]:
    """V-trace of the valid decisions of each trajectory, and of nothing else."""
    found = []
    for row in range(values.shape[0]):
        num = int(batch.outcomes.valid[row].sum())
        chosen = log_probs[row, np.arange(num), np.asarray(batch.options[row, :num])]
        weights = np.exp(chosen - np.asarray(batch.log_probs[row, :num]))
        outcomes = (np.asarray(batch.outcomes.rewards[row, :num]), np.asarray(batch.outcomes.discounts[row, :num]))
        better, advantages = plain_vtrace(values[row, : num + 1], *outcomes, weights)
        found.append((better, [plain_clipped(*pair) for pair in zip(advantages, weights, strict=True)]))
    return found


def plain_clipped(advantage: float, weight: float) -> float:
    """Schulman et al. (2017), figure 1: where the clipped objective is flat."""
    if advantage > 0:
        return advantage if weight <= 1 + MAX_CHANGE else 0.0
    return advantage if weight >= 1 - MAX_CHANGE else 0.0


def plain_losses(values: Any, log_probs: Any, options: Any, targets: list[tuple]) -> Plain:
    """One decision after the other."""
    policy, baseline, entropy, count = 0.0, 0.0, 0.0, 0
    for row, (better, advantages) in enumerate(targets):
        for n in range(len(better)):
            policy += -advantages[n] * log_probs[row, n, options[row, n]]
            baseline += 0.5 * (better[n] - values[row, n]) ** 2
            entropy += -sum(jnp.exp(log_probs[row, n, o]) * log_probs[row, n, o] for o in range(NUM_OPTIONS))
            count += 1
    return Plain(policy / count, baseline / count, entropy / count)


class PlainAdam:
    """Kingma and Ba (2015), algorithm 1."""

    def __init__(self, weights: list[np.ndarray]):
        self.weights = weights
        self.means, self.squares = ([np.zeros(leaf.shape) for leaf in weights] for _ in range(2))
        self.num_steps = 0

    def step(self, gradient: list[np.ndarray], rate: float) -> None:
        self.num_steps += 1
        for i, slope in enumerate(gradient):
            self.means[i] = 0.9 * self.means[i] + 0.1 * slope
            self.squares[i] = 0.999 * self.squares[i] + 0.001 * slope**2
            mean, square = self.means[i] / (1 - 0.9**self.num_steps), self.squares[i] / (1 - 0.999**self.num_steps)
            self.weights[i] = self.weights[i] - rate * mean / (np.sqrt(square) + 1e-8)


def test_an_update_is_a_step_of_adam_on_the_losses_of_the_valid_decisions() -> None:
    learner = Learner(CONFIG, SHAPES)
    learned = eqx.filter_jit(learner.start)(jax.random.key(0))
    leaves, treedef = jax.tree.flatten(learned.params)
    adam = PlainAdam([np.asarray(leaf, np.float64) for leaf in leaves])

    @jax.jit
    def look(params: Any, inputs: AgentInput) -> tuple:
        outputs = jax.vmap(jax.vmap(learner.agent(params)))(inputs)
        return outputs.value, jax.nn.log_softmax(outputs.logits)

    update = jax.jit(learner.update)
    # Adam does not see a constant factor: the share of decisions that are valid has to change for it to count.
    for number, (num_valid, entropy_cost) in enumerate([([4, 2, 0], 0.3), ([1, 1, 0], 0.2)]):
        batch = made_up(num_valid, seed=number)
        params = jax.tree.unflatten(treedef, [jnp.asarray(leaf, jnp.float32) for leaf in adam.weights])
        seen, backwards = jax.vjp(functools.partial(look, inputs=batch.inputs), params)
        targets = plain_targets(*map(np.asarray, seen), batch)
        losses = functools.partial(plain_losses, options=np.asarray(batch.options), targets=targets)
        slopes = jax.jit(jax.grad(lambda seen, of=losses, cost=entropy_cost: of(*seen).total(cost)))(seen)
        gradient = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(backwards(slopes))]
        adam.step(gradient, rate=RATE * (LAST_RATE / RATE) ** (number / 2))

        learned, found = update(learned, batch, entropy_cost)
        np.testing.assert_allclose(found[:3], losses(*map(np.asarray, seen)), rtol=1e-4)
        assert found.num_decisions == sum(num_valid)
        for weight, leaf in zip(adam.weights, jax.tree.leaves(learned.params), strict=True):
            np.testing.assert_allclose(leaf, weight, atol=1e-5)


@pytest.mark.parametrize(("max_change", "low", "high"), [(None, 0.0, 0.05), (0.2, 0.3, 0.8)])
def test_the_same_trajectories_do_not_make_an_agent_give_up_what_it_chose(
    max_change: float | None, low: float, high: float
) -> None:
    """Where the baseline is too high every choice looks bad, most of all the one that was made most often."""
    config = dataclasses.replace(CONFIG, max_change=max_change, baseline_cost=0.0, learning_rate=1e-3)
    learner = Learner(config, SHAPES)
    learned = eqx.filter_jit(learner.start)(jax.random.key(0))

    def prefer(params: Any) -> Any:  # the first option, everywhere, and expect 1
        biases = jnp.array([4.0, 0.0, 0.0, 0.0, 0.0]), jnp.ones(1)
        heads = [params.policy.weight, params.value.weight, params.policy.bias, params.value.bias]
        blank = [jnp.zeros_like(head) for head in heads[:2]]
        return eqx.tree_at(
            lambda p: [p.policy.weight, p.value.weight, p.policy.bias, p.value.bias], params, [*blank, *biases]
        )

    learned = learned._replace(params=prefer(learned.params))
    batch = made_up([NUM, NUM, NUM], seed=0)
    log_probs = np.asarray(jax.nn.log_softmax(jnp.array([4.0, 0.0, 0.0, 0.0, 0.0])))
    options = np.zeros((3, NUM), int)
    options[0, 0] = 1  # as rare as it is
    nothing = Outcomes(jnp.zeros((3, NUM)), jnp.zeros((3, NUM)), jnp.ones((3, NUM), bool))
    batch = batch._replace(options=jnp.asarray(options), log_probs=jnp.asarray(log_probs[options]), outcomes=nothing)
    update = jax.jit(learner.update)
    for _ in range(300):
        learned, _ = update(learned, batch, 0.0)
    outputs = jax.jit(jax.vmap(jax.vmap(learner.agent(learned.params))))(batch.inputs)
    ratio = jax.nn.softmax(outputs.logits)[:, :NUM, 0] / np.exp(log_probs[0])
    assert low < float(jnp.mean(ratio)) < high


def test_networks_compute_in_half_precision_where_that_is_asked_for() -> None:
    """What is learned stays in single precision."""
    shapes = SHAPES | {"observation_shape": (5, 5, 2)}
    image, task = jnp.zeros((5, 5, 2), jnp.uint8), (jnp.array(0), jnp.array([1, NO_TASK]))

    def features(agent: Agent) -> jax.Array:
        """What the last layer is given."""
        features = agent.norm(agent.encoder(agent.grid_encoder(image, agent.tasks(*task))))
        for layer in agent.hidden:
            features = layer(features)
        return features

    for half, expected in ((False, jnp.float32), (True, jnp.bfloat16)):
        learner = Learner(dataclasses.replace(CONFIG, half_precision=half), shapes)
        learned = jax.eval_shape(learner.start, jax.random.key(0))
        assert {leaf.dtype for leaf in jax.tree.leaves(learned.params)} == {jnp.dtype(jnp.float32)}
        agent = eqx.filter_eval_shape(learner.agent, learned.params)
        assert eqx.filter_eval_shape(features, agent).dtype == expected
        assert agent.policy.weight.dtype == agent.value.weight.dtype == jnp.float32
