"""The tasks in an agent's input, where they go, and its networks beside a plain twin."""

import functools
import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.data.spaces import Space
from compile_il.model.model import Model
from compile_il.networks.embeddings import Convolution
from compile_il.rl.agent import NO_TASK, Agent, AgentInput, GridEncoder, TaskEmbedding
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import next_tasks
from compile_il.rl.trainer import AgentTrainer
from compile_il.worlds.grid import GridWorld
from tests.rl.test_options import with_space

IMAGE = jax.random.bernoulli(jax.random.key(0), 0.3, (7, 6, 4)).astype(jnp.uint8)


def test_remaining_tasks_come_first() -> None:
    tasks = jnp.array([4, 2, 7])
    for index, expected in enumerate(([4, 2, 7], [2, 7, -1], [7, -1, -1], [-1, -1, -1])):
        np.testing.assert_array_equal(next_tasks(tasks, jnp.array(index), 3), expected)
        np.testing.assert_array_equal(next_tasks(tasks, jnp.array(index), 1), expected[:1])


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
    encoder = GridEncoder(4 + 3, 5, key=jax.random.key(2))
    task = jnp.array([0.5, -1.0, 2.0])
    channels = jnp.concatenate([IMAGE.astype(jnp.float32), jnp.broadcast_to(task, (7, 6, 3))], axis=-1)
    plain = plain_convolution(plain_convolution(np.asarray(channels), encoder.first), encoder.second).reshape(-1)
    np.testing.assert_allclose(encoder(IMAGE, task), plain, rtol=1e-4, atol=1e-5)


@functools.cache
def make() -> Agent:
    config = AgentConfig(hidden_dim=8, num_maps=3, embed_dim=2)
    new = functools.partial(Agent, config, observation_shape=IMAGE.shape, num_types=5, num_input_tasks=1, num_options=6)
    return eqx.filter_jit(new)(key=jax.random.key(3))


RUN = eqx.filter_jit(lambda agent, given: agent(given))


def plain_convolution(image: np.ndarray, layer: Convolution) -> np.ndarray:
    """3x3 without padding, one cell after the other, then ReLU."""
    height, width, _ = image.shape
    maps = np.zeros((height - 2, width - 2, layer.bias.shape[0]))
    for row in range(height - 2):
        for column in range(width - 2):
            patch = image[row : row + 3, column : column + 3].reshape(-1)
            maps[row, column] = patch @ np.asarray(layer.weight) + np.asarray(layer.bias)
    return np.maximum(maps, 0)


def plain_linear(vector: np.ndarray, layer: eqx.nn.Linear) -> np.ndarray:
    return np.asarray(layer.weight, np.float64) @ vector + np.asarray(layer.bias)


def plain_agent(agent: Agent, image: np.ndarray, kind: int, tasks: list[int]) -> tuple:
    """Logits and value: the appendix of the paper, word by word."""
    blank = np.zeros(agent.tasks.kinds.weight.shape[0])
    vectors = [
        [blank, blank] if task == NO_TASK else [agent.tasks.kinds.weight[:, kind], agent.tasks.objects.weight[:, task]]
        for task in tasks
    ]
    task = np.concatenate([np.asarray(part) for pair in vectors for part in pair])
    channels = np.concatenate([image, np.broadcast_to(task, (*image.shape[:2], len(task)))], axis=2)
    maps = plain_convolution(plain_convolution(channels, agent.grid_encoder.first), agent.grid_encoder.second)
    features = plain_linear(maps.reshape(-1), agent.encoder)
    features = (features - features.mean()) / np.sqrt(features.var() + 1e-5)
    features = features * np.asarray(agent.norm.weight) + np.asarray(agent.norm.bias)
    for layer in agent.hidden:
        features = np.maximum(plain_linear(features, layer), 0)
    last = np.concatenate([features, task])
    return plain_linear(last, agent.policy), plain_linear(last, agent.value)


def test_the_network_is_its_plain_twin() -> None:
    # Biases that begin as zeros, and weights that begin as ones, would hide that they are left out.
    rng = np.random.default_rng(0)
    shaken = jax.tree.map(lambda leaf: leaf + 0.3 * jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), make())
    found = []
    for kind, task in ((0, 3), (1, 3), (1, 0), (1, NO_TASK)):
        outputs = RUN(shaken, AgentInput(IMAGE, jnp.array(kind), jnp.array([task])))
        logits, value = plain_agent(shaken, np.asarray(IMAGE, np.float64), kind, [task])
        np.testing.assert_allclose(outputs.logits, logits, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(outputs.value, value[0], rtol=1e-5, atol=1e-5)
        found.append(float(outputs.value))
    assert len(set(found)) == 4, "what is to be done, and with what, makes a difference"


def test_sizes_are_those_of_the_paper() -> None:
    """32 maps, 128 units, 16 numbers for each embedding; eight actions, then the skills."""
    model = with_space(Space("grid", (10, 10, 12), 0, 8, 0))

    def shapes_of(agent: Any, model: Model | None) -> Any:
        learner = AgentTrainer(AgentConfig(agent=agent, num_levels=1), GridWorld(), model).learner
        return eqx.filter_eval_shape(lambda key: learner.agent(learner.start(key).params), jax.random.key(0))

    agent = shapes_of("hierarchical", model)
    assert agent.tasks.kinds.weight.shape == (16, 2)
    assert agent.tasks.objects.weight.shape == (16, 10)
    assert agent.grid_encoder.first.weight.shape == (3 * 3 * (12 + 2 * 16), 32)
    assert agent.grid_encoder.second.weight.shape == (3 * 3 * 32, 32)
    assert agent.encoder.weight.shape == (128, 6 * 6 * 32)
    assert [layer.weight.shape for layer in agent.hidden] == [(128, 128)] * 2
    assert agent.policy.weight.shape == (8 + 4, 128 + 2 * 16)
    assert agent.value.weight.shape == (1, 128 + 2 * 16)
    assert shapes_of("low-level", None).policy.out_features == 8


def test_the_task_is_beside_the_last_hidden_layer() -> None:
    agent = make()
    # With all features switched off, what is left is what the task adds to the last layer.
    silenced = eqx.tree_at(lambda agent: agent.hidden[1], agent, jax.tree.map(jnp.zeros_like, agent.hidden[1]))
    given = AgentInput(IMAGE, jnp.array(0), jnp.array([3]))
    expected = agent.policy.weight[:, 8:] @ agent.tasks(given.kind, given.tasks) + agent.policy.bias
    np.testing.assert_allclose(RUN(silenced, given).logits, expected, rtol=1e-5)


def test_choices_follow_the_policy() -> None:
    agent, given = make(), AgentInput(IMAGE, jnp.array(1), jnp.array([0]))
    keys = jax.random.split(jax.random.key(4), 4000)
    found = jax.jit(jax.vmap(lambda key: agent.choose(given, key)))(keys)
    log_probs = np.asarray(jax.nn.log_softmax(RUN(agent, given).logits))
    np.testing.assert_allclose(np.bincount(found.option, minlength=6) / 4000, np.exp(log_probs), atol=0.03)
    np.testing.assert_allclose(found.log_prob, log_probs[np.asarray(found.option)], rtol=1e-5)


def test_half_precision_keeps_the_last_layer() -> None:
    agent, given = make(), AgentInput(IMAGE, jnp.array(1), jnp.array([0]))
    whole, half = RUN(agent, given), RUN(agent.in_half_precision(), given)
    assert half.logits.dtype == half.value.dtype == jnp.float32
    np.testing.assert_allclose(half.logits, whole.logits, atol=0.03)


def test_observations_that_are_neither_grid_nor_vector() -> None:
    with pytest.raises(AgentError, match=r"shape \(4, 4, 3\): an agent needs grids of at least 5x5"):
        Agent(
            AgentConfig(),
            observation_shape=(4, 4, 3),
            num_types=2,
            num_input_tasks=1,
            num_options=2,
            key=jax.random.key(0),
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": "hierarchic"}, "agent is 'hierarchic': use 'hierarchical' or 'low-level' or 'bc'"),
        ({"num_environments": 100}, "make num_environments a multiple of batch_size"),
        ({"num_ticks": 32, "num_decisions": 40}, "num_decisions is 40, and 32 steps"),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"num_ticks": 0}, "num_ticks is 0: use a whole number of at least 1"),
        ({"num_ticks": 2.5}, "num_ticks is 2.5: use a whole number"),
        ({"half_precision": "no"}, "half_precision is .no.: use True or False"),
        ({"seed": 2**70}, "use a whole number from 0 to 4294967295"),
        ({"learning_rate": 0}, "learning_rate is 0: use a number above 0"),
        ({"entropy_cost": -1.0}, "entropy_cost is -1.0: use a number of at least 0"),
        ({"final_learning_rate": 0}, "final_learning_rate is 0: use a number above 0"),
        ({"max_change": -0.2}, "max_change is -0.2: use a number of at least 0"),
        ({"max_skill_steps": 0}, "max_skill_steps is 0: use a whole number of at least 1"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast': use a number"),
        ({"discount": 0.0}, "discount is 0.0: use a number above 0 and up to 1"),
    ],
)
def test_settings_that_cannot_work(settings: dict, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        AgentConfig(**settings)


def test_settings_survive_json() -> None:
    config = AgentConfig(agent="bc", num_decisions=7)
    assert AgentConfig().changed(config.to_json()) == config
    config = AgentConfig(num_levels=np.int64(4), max_skill_steps=np.int32(3), learning_rate=np.float32(0.5))
    assert AgentConfig().changed(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(AgentError, match="There is no setting colour"):
        AgentConfig().changed(config.to_json() | {"colour": 1})
