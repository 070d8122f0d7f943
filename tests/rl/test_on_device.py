"""Acting and learning in one program: values that are known, the same curve from the same seed, and resuming."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.config import Config
from compile_il.rl.agent import TASK_KINDS, AgentInput, GreedyAgent
from compile_il.rl.config import AgentConfig
from compile_il.rl.environment import Trajectory, collect, make_trajectory
from compile_il.rl.impala import ImpalaLosses, LearnerState
from compile_il.rl.player import run_episodes
from compile_il.rl.trainer import AgentTrainer
from compile_il.training.checkpoints import Checkpoint, Checkpoints
from compile_il.worlds.grid import GridWorld
from tests.rl.test_options import SIZE, untrained
from tests.rl.two_states import MODEL, TwoStates

GAMMA = 0.7
BEST = np.array([GAMMA, 1.0]) / (1 - GAMMA**2)
SMALL = AgentConfig(
    num_environments=32, batch_size=16, num_ticks=8, num_levels=4, hidden_dim=8, num_maps=2, embed_dim=2, num_seeds=2
)


@pytest.mark.parametrize(("agent", "model"), [("low-level", None), ("hierarchical", MODEL)])
def test_a_known_value_is_learned(agent: str, model: object) -> None:
    config = dataclasses.replace(
        SMALL, agent=agent, discount=GAMMA, learning_rate=0.01, hidden_dim=16, num_seeds=1, seed=1
    )
    training = AgentTrainer(config, TwoStates(), model)
    state = training.start()
    for iteration in range(150):
        state, statistics = training.step(state, iteration)
    learned = training.learner.agent(jax.tree.map(lambda leaf: leaf[0], state.learner.params))
    found = jax.vmap(lambda seen: learned(AgentInput(seen, jnp.array(0), jnp.zeros(1, jnp.int32))))(jnp.eye(2))
    # Who has learned to call the skill decides nothing in state 1 any more.
    decides_in = slice(None) if model is None else slice(1)
    np.testing.assert_allclose(found.value[decides_in], BEST[decides_in], atol=0.06)
    best = np.asarray(jnp.argmax(found.logits, axis=1))
    assert best[0] in (1, 2), "to go to state 1, or the skill that does"
    assert best[1] in (0, 2)
    assert (statistics.num_steps == 32 * 8).all()
    assert (statistics.num_episodes == 0).all()


def run(training: AgentTrainer, first: int, last: int, state: object = None) -> tuple:
    state = training.start() if state is None else state
    curve = []
    for iteration in range(first, last):
        state, statistics = training.step(state, iteration)
        curve.append(statistics)
    return state, curve


@pytest.fixture(scope="module")
def training() -> AgentTrainer:
    return AgentTrainer(SMALL, TwoStates(max_steps=10), MODEL)


def assert_same(left: object, right: object) -> None:
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_seed_gives_the_same_curve(training: AgentTrainer) -> None:
    again = AgentTrainer(SMALL, TwoStates(max_steps=10), MODEL)
    first, second = run(training, 0, 3), run(again, 0, 3)
    assert_same(first, second)
    assert again._step._cache_size() == 1, "an iteration was compiled more than once"
    # Seeds differ from each other, in what they learn and in what they meet.
    rewards = np.array([statistics.total_reward for statistics in first[1]])
    assert (rewards[:, 0] != rewards[:, 1]).any()


def test_a_run_that_was_interrupted_ends_the_same(training: AgentTrainer, tmp_path: Path) -> None:
    whole, curve = run(training, 0, 4)
    half, before = run(training, 0, 2)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Checkpoint(half, 2, 1.0))
    read = checkpoints.latest(training.start())
    resumed, after = run(training, read.iteration, 4, read.state)
    assert_same(whole, resumed)
    assert_same(curve, before + after)


def test_statistics_count(training: AgentTrainer) -> None:
    _, curve = run(training, 0, 5)
    for statistics in curve:
        assert (statistics.num_steps == 32 * 8).all()
        # No option takes more than two steps, and some of them are skills.
        assert (statistics.num_decisions <= statistics.num_steps).all()
        assert (statistics.num_decisions >= statistics.num_steps / 2).all()
        assert (statistics.num_skills > 0).all()
        assert (statistics.num_skills < statistics.num_decisions).all()
        assert np.isfinite(statistics.entropy).all()
    # Episodes of ten steps: 40 ticks are four in each environment, however options are cut by their ends.
    total = jax.tree.map(lambda *leaves: sum(leaves), *curve)
    assert (total.num_episodes == 4 * 32).all()
    assert (total.num_successes == 0).all()
    mean_reward = total.total_reward / total.num_episodes
    assert ((mean_reward > 0.5) & (mean_reward <= 5)).all()


def test_all_trajectories_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, and with the entropy's cost of the iteration."""
    config = dataclasses.replace(SMALL, num_iterations=4, first_entropy_cost=0.5, entropy_cost=0.1)
    training = AgentTrainer(config, TwoStates(max_steps=10), MODEL)

    def update(learned: LearnerState, batch: Trajectory, entropy_cost: jax.Array) -> tuple[LearnerState, ImpalaLosses]:
        """Learns nothing, and says what it was given."""
        valid = batch.outcomes.valid
        ends = jnp.sum(valid & (batch.outcomes.discounts == 0))
        return learned, ImpalaLosses(entropy_cost, 1.0 * jnp.sum(valid), 1.0 * ends, 1.0 * jnp.sum(valid))

    monkeypatch.setattr(training.learner, "update", update)
    _, curve = run(training, 0, 3)
    np.testing.assert_allclose([given.policy_loss for given in curve], [[0.5] * 2, [0.3] * 2, [0.1] * 2], rtol=1e-6)
    for given in curve:
        # Means over the two batches of an iteration.
        np.testing.assert_array_equal(2 * given.baseline_loss, given.num_decisions)
        np.testing.assert_array_equal(2 * given.entropy, given.num_episodes)
    assert sum(given.num_episodes.sum() for given in curve) > 0


def test_what_was_seen_is_drawn_again(training: AgentTrainer) -> None:
    """The policy that acted finds its own choices as probable when it learns from them."""
    config = training.config
    state, _ = run(training, 0, 2)
    learner, envs = jax.tree.map(lambda leaf: leaf[0], (state.learner, state.envs))

    @jax.jit
    def act_and_look(params: Any, envs: Any) -> tuple:
        agent = training.learner.agent(params)
        # The options that run now were chosen by older parameters: let them end first.
        for key in jax.random.split(jax.random.key(0), 2):
            keys = jax.random.split(key, (config.num_environments, config.num_ticks))
            before = envs.decision
            envs, steps = jax.vmap(functools.partial(training.env.unroll, agent))(envs, keys)
        found = jax.vmap(functools.partial(collect, num_decisions=config.num_ticks))(before, steps)
        trajectories = jax.vmap(functools.partial(make_trajectory, training.env))(*found)
        logits = jax.vmap(jax.vmap(agent))(trajectories.inputs).logits[:, :-1]
        return trajectories, jax.nn.log_softmax(logits)

    trajectories, log_probs = jax.tree.map(np.asarray, act_and_look(learner.params, envs))
    chosen = np.take_along_axis(log_probs, trajectories.options[..., None], axis=-1)[..., 0]
    valid = trajectories.outcomes.valid
    np.testing.assert_allclose(chosen[valid], trajectories.log_probs[valid], atol=1e-5)


def test_the_agent_of_whole_demonstrations_reads_all_tasks() -> None:
    config = dataclasses.replace(SMALL, agent="bc", num_seeds=1)
    settings = Config(num_skills=1, num_segments=1)
    model = dataclasses.replace(MODEL, config=settings, resolved=settings)
    state, curve = run(AgentTrainer(config, TwoStates(num_tasks=3), model), 0, 1)
    assert state.learner.params.policy.in_features == 8 + 3 * 2 * 2
    assert np.isfinite(curve[0].policy_loss).all()


def test_a_grid_in_half_precision_takes_a_step() -> None:
    world = GridWorld(size=SIZE, num_tasks=2, num_objects=4, max_steps=10)
    config = dataclasses.replace(SMALL, half_precision=True, num_ticks=2, num_decisions=1, num_seeds=1)
    _, curve = run(AgentTrainer(config, world, untrained(inference="exact", recurrent=True)), 0, 1)
    assert np.isfinite(curve[0].policy_loss).all()
    assert (curve[0].num_steps == 2 * 32).all()


@pytest.mark.parametrize(("max_skill_steps", "expected"), [(None, 5), (1, 10)])
def test_skills_are_stopped_while_learning_and_afterwards(max_skill_steps: int | None, expected: int) -> None:
    """Going round takes two steps, and ten are an episode."""
    config = dataclasses.replace(SMALL, max_skill_steps=max_skill_steps, num_seeds=1)
    training = AgentTrainer(config, TwoStates(max_steps=10), MODEL)
    player = training.players(training.start())[0]
    # An agent that calls nothing but the skill.
    policy = jax.tree.map(jnp.zeros_like, player.agent.policy)
    always = eqx.tree_at(lambda layer: layer.bias, policy, jnp.array([0.0, 0.0, 1.0]))
    player = dataclasses.replace(player, agent=eqx.tree_at(lambda agent: agent.policy, player.agent, always))
    games = run_episodes(training.env, GreedyAgent(player.agent), jax.random.key(0))
    assert (games.num_steps == 10).all()
    assert (games.num_skills == expected).all()
    played = player.evaluate(num_levels=config.num_levels, sample=False)
    assert (played.num_steps, played.num_decisions, played.skill_share) == (10, expected, 1)


@pytest.mark.parametrize(("kind", "expected"), [("visit", 0), ("pickup", 1)])
def test_the_agent_reads_the_kind_of_task(kind: Any, expected: int) -> None:
    world = GridWorld(kind=kind, size=SIZE, num_tasks=2, num_objects=4)
    env = AgentTrainer(dataclasses.replace(SMALL, agent="low-level"), world).env
    level = jax.tree.map(lambda leaf: leaf[1], env.levels)
    state = world.start(level)._replace(task_index=jnp.array(1))
    found = eqx.filter_jit(env.agent_input)(jnp.array(1), state)
    assert TASK_KINDS[expected] == kind
    assert found.kind == expected
    np.testing.assert_array_equal(found.tasks, level.tasks[1:])
    np.testing.assert_array_equal(found.observation, jax.jit(world.observe)(level, state))
