"""Options on the device beside a plain-Python twin that steps one environment: same returns, discounts and ends."""

import functools
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.config import Config
from compile_il.data.spaces import Space, blank_scaling
from compile_il.inference.engines import ENGINES
from compile_il.inference.records import Skills
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.model.model import Model
from compile_il.rl.agent import Agent
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import Decision, OptionEnv, StepResult, collect
from compile_il.rl.options import make_options
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.reacher import ReacherWorld
from tests.twins.grid_twin import TwinGrid
from tests.twins.options_twin import NUM_ACTIONS, run_options
from tests.worlds.rollout import to_twin

GAMMA, NUM_TICKS, NUM_ENVIRONMENTS, SIZE = 0.9, 40, 8, 6


@functools.cache
def untrained(size: int = SIZE, **settings: Any) -> Model:
    """Skills as they come out of the box, but for a bias: they act, and stop at about a third of all steps."""
    config = Config(num_skills=4, hidden_dim=8, num_maps=2, **settings).resolved()
    space = Space("grid", (size, size, 12), 0, NUM_ACTIONS, 0)

    scaling = blank_scaling(space)

    def last_bias(skills: Skills) -> jax.Array:
        head = skills.termination.head if isinstance(skills, RelaxedSkills) else skills.stopping
        return head.layers[-1].bias

    @eqx.filter_jit
    def make(levels: Any, key: jax.Array) -> Skills:
        skills = ENGINES[config.inference].make_skills(config.resolved(), space, scaling, key)

        def stop_logits(level: Any, skill: jax.Array) -> jax.Array:
            """While the skill runs on a level of its own."""

            def step(now: tuple, _: None) -> tuple[tuple, jax.Array]:
                state, memory = now
                action = skills.act(memory, skill)
                state = world.step(level, state, action).state
                memory = skills.observe(memory, action, world.observe(level, state))
                relaxed = isinstance(skills, RelaxedSkills)
                logit = skills.termination.head(memory.termination.encoding) if relaxed else memory.stop_logits[skill]
                return (state, memory), logit

            start = world.start(level)
            return jax.lax.scan(step, (start, skills.init(world.observe(level, start))), None, length=8)[1]

        logits = jax.vmap(lambda skill: jax.vmap(stop_logits, in_axes=(0, None))(levels, skill))(jnp.arange(4))
        middle = jnp.quantile(logits, 0.7, axis=(1, 2))
        bias = last_bias(skills)
        return eqx.tree_at(last_bias, skills, bias - (middle if bias.shape == (4,) else jnp.mean(middle)))

    world = GridWorld(size=size, num_objects=4)
    return Model(make(draw_levels(world, jax.random.key(5), 16), jax.random.key(3)), config, config, 3.0)


def act(world: GridWorld, model: Model | None, max_steps: int | None = None) -> tuple:
    """Some steps of an untrained agent: levels, decisions, outcomes and steps of each environment."""
    agent = "low-level" if model is None else "hierarchical"
    sizes = {"hidden_dim": 4, "num_maps": 1, "embed_dim": 2}
    config = AgentConfig(agent=agent, discount=GAMMA, max_skill_steps=max_steps, **sizes)
    options = make_options(config.agent, world, model)
    key = jax.random.key(0)
    levels = draw_levels(world, key, 16)
    shape = (world.size, world.size, world.num_types + 2)
    make = functools.partial(Agent, config, observation_shape=shape, num_types=10, num_input_tasks=1)
    env = OptionEnv(options, levels, world, config)

    @jax.jit
    def run(key: jax.Array) -> tuple:
        agent = make(num_options=options.num_options, key=jax.random.key(1))
        envs = jax.vmap(functools.partial(env.start, agent))(jax.random.split(key, NUM_ENVIRONMENTS))
        keys = jax.random.split(key, (NUM_ENVIRONMENTS, NUM_TICKS))
        _, steps = jax.vmap(functools.partial(env.unroll, agent))(envs, keys)
        gather = functools.partial(collect, num_decisions=NUM_TICKS)
        return *jax.vmap(gather)(envs.decision, steps), steps

    return levels, *jax.tree.map(np.asarray, run(key))


@pytest.mark.parametrize(
    ("settings", "kind", "reward", "max_steps"),
    [
        ({"inference": "exact", "recurrent": True}, "visit", "dense", None),
        ({"inference": "relaxed"}, "pickup", "sparse", None),
        ({"inference": "exact", "recurrent": True}, "visit", "dense", 3),
    ],
)
def test_outcomes_are_the_twins(settings: dict, kind: str, reward: str, max_steps: int | None) -> None:
    world = GridWorld(kind=kind, reward=reward, size=SIZE, num_tasks=1, num_objects=4, max_steps=15)
    model = untrained(**settings)
    levels, decisions, outcomes, steps = act(world, model, max_steps)
    ends, num_long = [], 0
    for i in range(NUM_ENVIRONMENTS):
        count = int(outcomes.valid[i].sum())
        assert outcomes.valid[i, :count].all()
        n, episode_rewards = 0, []
        while n < count:
            index = int(decisions.level_index[i, n])
            twin = TwinGrid(to_twin(levels, index), kind=kind, max_steps=world.max_steps, reward=reward)
            assert decisions.state.num_steps[i, n] == 0
            chosen = [int(option) for option in decisions.option[i, n:count]]
            for found in run_options(twin, model.begin(twin.observation(), 0), chosen, GAMMA, max_steps):
                np.testing.assert_allclose(outcomes.rewards[i, n], found.reward, rtol=1e-5)
                np.testing.assert_allclose(outcomes.discounts[i, n], found.discount, rtol=1e-5)
                assert max_steps is None or found.num_steps <= max_steps
                num_long += found.num_steps > 1 and not found.over
                n += 1
                if not found.over:
                    # The next decision is made where this option has led.
                    assert divmod(int(decisions.state.player[i, n]), SIZE) == twin.player
                    assert decisions.state.task_index[i, n] == twin.task_index
                    assert decisions.level_index[i, n] == index
            if twin.terminated or twin.truncated:
                ends.append("cut" if twin.truncated else "done" if twin.success else "failed")
                episode_rewards.append(twin.task_index if reward == "dense" else float(twin.success))
        over = steps.over[i]
        np.testing.assert_allclose(steps.episode_reward[i][over], episode_rewards)
        np.testing.assert_array_equal(steps.success[i][over], [end == "done" for end in ends[-len(episode_rewards) :]])
    # What the twin should be asked about was there: skills that stopped by themselves, and ends of several kinds.
    assert num_long > 5
    assert set(ends) >= ({"cut", "done"} if kind == "visit" else {"done", "failed"})
    inside = (outcomes.rewards > 0) & (outcomes.rewards < 1) & outcomes.valid
    assert inside.any() or kind == "pickup", "a reward after an option's first step"


def test_without_skills_every_step_is_a_decision() -> None:
    world = GridWorld(kind="visit", size=SIZE, num_tasks=2, num_objects=4, max_steps=15)
    _, _, outcomes, steps = act(world, None)
    assert steps.ended.all()
    assert outcomes.valid.all()
    np.testing.assert_allclose(outcomes.discounts, np.where(steps.over, 0.0, GAMMA), rtol=1e-6)


def test_of_too_many_decisions_the_first_are_kept() -> None:
    ended = jnp.array([True, False, True, False, False, True, True])
    at = jnp.arange(7)
    before = Decision(jnp.array(10), State(jnp.array(10)), jnp.array(10), jnp.array(10.0))
    steps = StepResult(ended, at + 0.5, at + 0.1, Decision(at, State(at), at, at + 0.2), ended, ended, at + 0.0)
    decisions, outcomes = collect(before, steps, 3)
    np.testing.assert_array_equal(decisions.option, [10, 0, 2, 5])
    np.testing.assert_array_equal(decisions.state.place, [10, 0, 2, 5])
    np.testing.assert_allclose(outcomes.rewards, [0.5, 2.5, 5.5])
    assert outcomes.valid.all()
    decisions, outcomes = collect(before, steps, 6)
    np.testing.assert_array_equal(decisions.option[:5], [10, 0, 2, 5, 6])
    np.testing.assert_array_equal(outcomes.valid, [True] * 4 + [False] * 2)


class State(NamedTuple):
    place: jax.Array


def with_space(space: Space, **settings: Any) -> Model:
    """All that is looked at before skills are used."""
    config = Config(**settings)
    return Model(SimpleNamespace(space=space, num_skills=4), config, config.resolved(), 3.0)


GRID = Space("grid", (SIZE, SIZE, 12), 0, NUM_ACTIONS, 0)


class TestErrors:
    world = GridWorld(size=SIZE, num_objects=4)

    @pytest.mark.parametrize(
        ("agent", "model", "message"),
        [
            ("hierarchical", None, "needs skills: give a model"),
            ("bc", None, "needs skills: give a model"),
            ("low-level", with_space(GRID), "has no skills: leave the model out"),
            (
                "hierarchical",
                with_space(Space("grid", (7, 7, 12), 0, 8, 0)),
                "another world: on observations 7x7x12 with 8 actions.*6x6x12",
            ),
            (
                "hierarchical",
                with_space(GRID, inference="relaxed", codes="gaussian"),
                "codes of this model are vectors",
            ),
            ("bc", with_space(GRID), "skills of whole demonstrations.*num_segments=1"),
        ],
    )
    def test_skills_that_do_not_fit(self, agent: str, model: Model | None, message: str) -> None:
        with pytest.raises(AgentError, match=message):
            make_options(agent, self.world, model)

    def test_skills_of_the_reacher(self) -> None:
        model = with_space(Space("vector", (32,), 0, 0, 2))
        with pytest.raises(AgentError, match="another world: on observations 32 with continuous actions"):
            make_options("hierarchical", self.world, model)

    def test_a_world_of_continuous_actions(self) -> None:
        with pytest.raises(AgentError, match=r"continuous.*use a grid world"):
            make_options("low-level", ReacherWorld(), None)
