"""What an agent is told of its tasks, and where that goes."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.hierarchy.agents import NO_TASK, Agent, GridFront, Situation, TaskEmbedding, remaining_tasks
from compile_il.hierarchy.settings import AgentConfig, HierarchyError

IMAGE = jax.random.bernoulli(jax.random.key(0), 0.3, (7, 6, 4)).astype(jnp.uint8)


def test_remaining_tasks_come_first() -> None:
    tasks = jnp.array([4, 2, 7])
    for index, expected in enumerate(([4, 2, 7], [2, 7, -1], [7, -1, -1], [-1, -1, -1])):
        np.testing.assert_array_equal(remaining_tasks(tasks, jnp.array(index), 3), expected)
        np.testing.assert_array_equal(remaining_tasks(tasks, jnp.array(index), 1), expected[:1])


def test_what_is_fulfilled_is_zeros() -> None:
    embedding = TaskEmbedding(5, 3, key=jax.random.key(1))
    both = embedding(jnp.array(1), jnp.array([2, NO_TASK]))
    assert both.shape == (12,)
    np.testing.assert_array_equal(both[:6], embedding(jnp.array(1), jnp.array([2])))
    np.testing.assert_array_equal(both[6:], 0.0)
    np.testing.assert_array_equal(both[:3], embedding.kinds.weight[:, 1])
    np.testing.assert_array_equal(both[3:6], embedding.objects.weight[:, 2])


def test_the_task_is_in_the_channels() -> None:
    """The quick way to convolve constant channels gives what the plain one does."""
    front = GridFront(4 + 3, 5, key=jax.random.key(2))
    task = jnp.array([0.5, -1.0, 2.0])
    channels = jnp.concatenate([IMAGE.astype(jnp.float32), jnp.broadcast_to(task, (7, 6, 3))], axis=-1)
    plain = jax.nn.relu(front.second(jax.nn.relu(front.first(channels)))).reshape(-1)
    np.testing.assert_allclose(front(IMAGE, task), plain, rtol=1e-4, atol=1e-5)


@functools.cache
def make() -> Agent:
    config = AgentConfig(hidden_dim=8, num_maps=3, embed_dim=2)
    new = functools.partial(Agent, config, observation_shape=IMAGE.shape, num_types=5, num_told=1, num_options=6)
    return eqx.filter_jit(new)(key=jax.random.key(3))


RUN = eqx.filter_jit(lambda agent, given: agent(given))


def test_the_task_is_beside_the_last_hidden_layer() -> None:
    agent = make()
    # With all features switched off, what is left is what the task adds to the last layer.
    silenced = eqx.tree_at(lambda agent: agent.hidden[1], agent, jax.tree.map(jnp.zeros_like, agent.hidden[1]))
    given = Situation(IMAGE, jnp.array(0), jnp.array([3]))
    expected = agent.policy.weight[:, 8:] @ agent.tasks(given.kind, given.tasks) + agent.policy.bias
    np.testing.assert_allclose(RUN(silenced, given).logits, expected, rtol=1e-5)


def test_choices_follow_the_policy() -> None:
    agent, given = make(), Situation(IMAGE, jnp.array(1), jnp.array([0]))
    keys = jax.random.split(jax.random.key(4), 4000)
    found = jax.jit(jax.vmap(lambda key: agent.choose(given, key)))(keys)
    log_probs = np.asarray(jax.nn.log_softmax(RUN(agent, given).logits))
    np.testing.assert_allclose(np.bincount(found.option, minlength=6) / 4000, np.exp(log_probs), atol=0.03)
    np.testing.assert_allclose(found.log_prob, log_probs[np.asarray(found.option)], rtol=1e-5)


def test_half_precision_keeps_the_last_layer() -> None:
    agent, given = make(), Situation(IMAGE, jnp.array(1), jnp.array([0]))
    whole, half = RUN(agent, given), RUN(agent.in_half_precision(), given)
    assert half.logits.dtype == half.value.dtype == jnp.float32
    np.testing.assert_allclose(half.logits, whole.logits, atol=0.03)


def test_observations_that_are_neither_grid_nor_vector() -> None:
    with pytest.raises(HierarchyError, match=r"shape \(4, 4, 3\): an agent reads grids of at least 5x5"):
        Agent(AgentConfig(), observation_shape=(4, 4, 3), num_types=2, num_told=1, num_options=2, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": "hierarchic"}, "There is no agent 'hierarchic': use 'hierarchical', .*Did you mean 'hierarchical'"),
        ({"num_environments": 100}, "make num_environments a multiple of batch_size"),
        ({"num_ticks": 32, "num_decisions": 40}, "num_decisions is 40, and 32 steps"),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"num_ticks": 0}, "num_ticks is 0: use at least 1"),
        ({"num_ticks": 2.5}, "num_ticks is 2.5: use a whole number"),
        ({"learning_rate": 0}, "learning_rate is 0: use a positive number"),
        ({"entropy_cost": -1.0}, "entropy_cost is -1.0: use at least 0"),
        ({"final_learning_rate": 0}, "final_learning_rate is 0: use a positive number"),
        ({"max_skill_steps": 0}, "max_skill_steps is 0: use at least 1"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast': use a number"),
    ],
)
def test_settings_that_cannot_work(settings: dict, message: str) -> None:
    with pytest.raises(HierarchyError, match=message):
        AgentConfig(**settings)


def test_settings_survive_json() -> None:
    config = AgentConfig(agent="bc", num_decisions=7)
    assert AgentConfig.from_json(config.to_json()) == config
    with pytest.raises(HierarchyError, match=r"Unknown settings \['colour'\]"):
        AgentConfig.from_json(config.to_json() | {"colour": 1})
