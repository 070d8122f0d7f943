"""Agents that learn: runs that can be stopped and resumed, what is left of them, and how well they do."""

import dataclasses
import json
import os
import re
import signal
import sys
import types
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.cli import main
from compile_il.cli.learn import with_tasks
from compile_il.model.files import ModelError
from compile_il.rl.agent import AgentInput, GreedyAgent
from compile_il.rl.config import AgentConfig, AgentError
from compile_il.rl.environment import OptionEnv
from compile_il.rl.impala import learning_rates
from compile_il.rl.learn import learn, run_training
from compile_il.rl.options import make_options
from compile_il.rl.player import Player, load_player, run_episodes
from compile_il.rl.skill_env import SkillEnv
from compile_il.rl.trainer import AgentTrainer
from compile_il.training.runs import read_log
from compile_il.worlds.demonstrate import draw_levels
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.world import key_of
from tests.cli.typed import fails
from tests.rl.test_options import SIZE, untrained
from tests.rl.two_states import TwoStates

WORLD = GridWorld(size=SIZE, num_tasks=1, num_objects=4, max_steps=12)
SMALL = AgentConfig(
    num_iterations=4, num_environments=8, batch_size=4, num_ticks=4, num_levels=4, hidden_dim=8, num_maps=2, embed_dim=2
)


@pytest.fixture(scope="module")
def model() -> cil.Model:
    return untrained(inference="exact")


def same(left: Player, right: Player) -> None:
    for a, b in zip(jax.tree.leaves(left.agent), jax.tree.leaves(right.agent), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def two_seeds(model: cil.Model) -> AgentTrainer:
    return AgentTrainer(dataclasses.replace(SMALL, num_seeds=2), WORLD, model)


def test_a_run_leaves_log_checkpoints_agent_and_skills(two_seeds: AgentTrainer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    _, player = run_training(two_seeds, folder, progress=False)
    names = {".lock", "run.json", "log.jsonl", "tensorboard", "checkpoints", "agent", "skills"}
    assert {path.name for path in folder.iterdir()} == names
    rows = read_log(folder)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    assert rows[-1]["steps"] == 4 * 8 * 4
    assert [row["seed"] for row in rows[-1]["by_seed"]] == [0, 1]
    for name in ("entropy", "skill_share"):
        each = [[row[name] for row in at["by_seed"]] for at in rows]
        np.testing.assert_allclose([at[name] for at in rows], np.mean(each, axis=1), rtol=1e-6)
    read = load_player(folder)
    same(player, read)
    assert (read.world, read.config) == (WORLD, two_seeds.config)
    assert read.evaluate(num_levels=4) == player.evaluate(num_levels=4)
    with pytest.raises(ModelError, match="holds the run of an agent"):
        cil.load(folder)


def test_agents_come_in_the_order_of_their_seeds(two_seeds: AgentTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is kept: their curves do too."""
    solved = iter([0.25, 0.75])
    monkeypatch.setattr(Player, "evaluate", lambda self, **_: types.SimpleNamespace(success=next(solved)))
    state = two_seeds.start()
    for iteration in range(SMALL.num_iterations):
        state, _ = two_seeds.step(state, iteration)
    players, best = run_training(two_seeds, None, progress=False)
    assert best is players[1]
    for player, expected in zip(players, two_seeds.players(state), strict=True):
        same(player, expected)


def test_an_iteration_with_skills_is_compiled_once(model: cil.Model) -> None:
    for skills in (model, untrained(inference="relaxed")):
        training = AgentTrainer(SMALL, WORLD, skills)
        state, _ = training.step(training.start(), 0)
        training.step(state, 1)
        assert training._step._cache_size() == 1


def test_an_interruption_changes_nothing(model: cil.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the agent nor its log: the row in which the run was stopped is of all of its iterations."""
    monkeypatch.setattr(sys.modules["compile_il.rl.learn"], "NUM_ROWS", 1)
    whole = learn(WORLD, model, config=SMALL, out=tmp_path / "whole", progress=False)
    step, steps = AgentTrainer.step, []

    def interrupted(self: AgentTrainer, state: Any, iteration: int) -> Any:
        steps.append(iteration)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, state, iteration)

    monkeypatch.setattr(AgentTrainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match="after iteration 2 of 4; all is saved, and can be used"):
        learn(WORLD, model, config=SMALL, out=tmp_path / "run", progress=False)
    assert load_player(tmp_path / "run").config.num_iterations == 2, "the agent as it was then"
    same(whole, learn(WORLD, model, config=SMALL, out=tmp_path / "run", resume=True, progress=False))
    assert steps == [0, 1, 2, 3]
    (undisturbed,), (resumed,) = read_log(tmp_path / "whole"), read_log(tmp_path / "run")
    for row in (undisturbed, resumed):
        for part in (row, *row["by_seed"]):
            assert part.pop("seconds") > 0
            assert part.pop("steps_per_second") > 0
    assert undisturbed == resumed


def test_a_run_is_resumed_with_what_it_was_started_with(model: cil.Model, tmp_path: Path) -> None:
    learn(WORLD, None, config=SMALL, agent="low-level", num_iterations=1, out=tmp_path, progress=False)
    again: dict[str, Any] = {"config": SMALL, "out": tmp_path, "resume": True, "progress": False}
    with pytest.raises(ValueError, match=r"started with discount=0\.99, and this has discount=0\.5"):
        learn(WORLD, None, agent="low-level", discount=0.5, **again)
    with pytest.raises(ValueError, match=r"with no skills and .* and this is .* with skills"):
        learn(WORLD, model, **again)
    with pytest.raises(ValueError, match=r"max_steps=12.* and this is .*max_steps=13"):
        learn(dataclasses.replace(WORLD, max_steps=13), None, agent="low-level", **again)
    more = learn(WORLD, None, agent="low-level", num_iterations=2, **{**again, "config": SMALL})
    assert more.config.num_iterations == 2


@pytest.mark.parametrize(
    ("world", "settings", "message"),
    [
        ("symbols", {}, "has no tasks to act on"),
        ("reacher", {"agent": "low-level"}, "continuous"),
        (WORLD, {"agents": "bc"}, "no setting agents: did you mean agent"),
        (WORLD, {"first_entropy_cost": -1.0}, "use a number of at least 0"),
        (WORLD, {"resume": True}, "nothing to resume"),
        (WORLD, {"config": {"agent": "bc"}}, r"config is a dict: pass AgentConfig.*as \*\*settings"),
    ],
)
def test_what_cannot_be_learned_is_refused(world: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn(world, **settings)


def test_skills_of_another_world_are_refused(model: cil.Model, tmp_path: Path) -> None:
    visiting = dataclasses.replace(model, world="grid-visit")
    with pytest.raises(AgentError, match="trained in grid-visit, and this is grid-pickup"):
        SkillEnv(gymnasium.make("CompILE/GridPickup-v0"), visiting)
    with pytest.raises(AgentError, match="trained in grid-visit, and this is grid-pickup"):
        learn(WORLD, visiting, config=SMALL)
    read = cil.load(visiting.save(tmp_path / "model"))
    assert read.world == "grid-visit"


def test_agents_of_other_worlds_are_kept_without_them(tmp_path: Path) -> None:
    player = learn(TwoStates(max_steps=3), config=SMALL, agent="low-level", progress=False)
    player.save(tmp_path / "agent")
    read = load_player(tmp_path / "agent")
    assert read.world is None
    for seen in np.eye(2, dtype=np.float32):
        assert read.choose(seen) == player.choose(seen)
    with pytest.raises(AgentError, match=r"tasks are \[1\]: give object types from 0 to 0"):
        read.choose(np.zeros(2), [1])
    with pytest.raises(AgentError, match=r"play it there, with choose\(observation\)"):
        read.evaluate()
    with pytest.raises(AgentError, match="num_levels is 0: use a whole number, at least 1"):
        player.evaluate(num_levels=0)
    with pytest.raises(AgentError, match="an environment of your own: wrap that one, with SkillEnv"):
        read.make_env()


@pytest.mark.parametrize("agent", ["hierarchical", "low-level"])
def test_an_agent_can_be_played_in_gymnasium(model: cil.Model, agent: Any) -> None:
    """With the very options it has learned with, and given the task as it was given then."""
    skills = model if agent == "hierarchical" else None
    settings = {"num_iterations": 1, "max_skill_steps": 3, "discount": 0.9}
    player = learn(WORLD, skills, config=SMALL, agent=agent, progress=False, **settings)
    env, played = player.make_env(), []
    levels = draw_levels(WORLD, key_of(5), 4)
    for number in range(4):
        observation, info = env.reset(options={"level": jax.tree.map(lambda leaf, n=number: leaf[n], levels)})
        rewards, decisions, over = 0.0, 0, False
        while not over:
            option = player.choose(observation, info["tasks"][info["task_index"] :])
            observation, reward, terminated, truncated, info = env.step(option)
            rewards += info["total_reward"] if skills else float(reward)
            decisions, over = decisions + 1, terminated or truncated
        played.append((info["success"], rewards, decisions))
    found = player.evaluate(num_levels=4, seed=5, sample=False)
    np.testing.assert_allclose((found.success, found.reward, found.num_decisions), np.mean(played, axis=0), rtol=1e-6)
    assert player.make_env("ansi").render_mode == "ansi"
    for tasks in ([], [-1], [1.5], ["a"], [[1]], [99]):
        with pytest.raises(AgentError, match="give object types from 0 to 9, at least one"):
            player.choose(observation, tasks)


def test_entropy_weighs_less_and_less() -> None:
    config = dataclasses.replace(SMALL, num_iterations=10, entropy_cost=0.1, first_entropy_cost=0.5, agent="low-level")
    cost = AgentTrainer(config, TwoStates()).learner.entropy_cost
    np.testing.assert_allclose([cost(n) for n in (0, 1, 5, 9)], [0.5, 0.42, 0.1, 0.1], rtol=1e-6)
    constant = AgentTrainer(dataclasses.replace(config, first_entropy_cost=None), TwoStates()).learner.entropy_cost
    np.testing.assert_allclose([constant(0), constant(9)], 0.1, rtol=1e-6)


def test_the_learning_rate_falls() -> None:
    config = dataclasses.replace(SMALL, num_iterations=10, learning_rate=0.1, final_learning_rate=0.001)
    rate = learning_rates(config)
    np.testing.assert_allclose([rate(n) for n in (0, 10, 20)], [0.1, 0.01, 0.001], rtol=1e-5)
    np.testing.assert_allclose(rate(30), 0.001, rtol=1e-5)
    assert learning_rates(dataclasses.replace(config, final_learning_rate=None)) == 0.1
    with pytest.raises(AgentError, match="above learning_rate, 1e-05: use a smaller one, or None"):
        AgentConfig(learning_rate=1e-5)


def test_what_is_drawn_is_drawn_with_the_agents_probabilities() -> None:
    """In the world of two states, where a policy that has learned nothing does either with the same probability."""
    world = TwoStates(max_steps=200)
    config = dataclasses.replace(SMALL, agent="low-level")
    player = AgentTrainer(config, world).players(AgentTrainer(config, world).start())[0]
    level = world.level(jax.random.key(0))
    inputs = AgentInput(world.observe(level, world.start(level)), jnp.array(0), level.tasks)
    agent = eqx.tree_at(
        lambda agent: agent.policy, player.agent, replace_fn=lambda layer: jax.tree.map(jnp.zeros_like, layer)
    )
    np.testing.assert_allclose(agent(inputs).logits, 0)
    fair = dataclasses.replace(player, agent=agent)
    # The first of equal ones stays where it is, for 0.1 a step. Drawn ones stay at 0, go, come back and stay at 1.
    np.testing.assert_allclose(fair.evaluate(num_levels=8, sample=False).reward, 20.0, rtol=1e-4)
    drawn = fair.evaluate(num_levels=64).reward
    np.testing.assert_allclose(drawn, 200 * (0.25 * 0.1 + 0.25 * 1.0), rtol=0.05)


def test_options_can_be_drawn_one_by_one() -> None:
    world = TwoStates()
    config = dataclasses.replace(SMALL, agent="low-level")
    player = AgentTrainer(config, world).players(AgentTrainer(config, world).start())[0]
    policy = jax.tree.map(jnp.zeros_like, player.agent.policy)
    policy = eqx.tree_at(lambda layer: layer.bias, policy, jnp.log(jnp.array([0.2, 0.8])))
    player = dataclasses.replace(player, agent=eqx.tree_at(lambda agent: agent.policy, player.agent, policy))
    level = world.level(jax.random.key(0))
    seen, rng = np.asarray(world.observe(level, world.start(level))), np.random.default_rng(0)
    assert player.choose(seen) == 1
    drawn = [player.choose(seen, rng=rng) for _ in range(400)]
    np.testing.assert_allclose(np.mean(drawn), 0.8, atol=0.06)


def test_playing_is_what_a_plain_loop_does(model: cil.Model) -> None:
    player = learn(WORLD, model, config=SMALL, num_iterations=1, progress=False)
    options = make_options("hierarchical", WORLD, model)
    levels = draw_levels(WORLD, key_of(1), 6)
    games = run_episodes(OptionEnv(options, levels, WORLD, SMALL), GreedyAgent(player.agent), jax.random.key(0))
    choose, observe, step = (
        eqx.filter_jit(GreedyAgent(player.agent).choose),
        jax.jit(WORLD.observe),
        jax.jit(WORLD.step),
    )
    for number in range(6):
        level = jax.tree.map(lambda leaf, n=number: leaf[n], levels)
        state, over, rewards, decisions, skills = WORLD.start(level), False, [], 0, 0
        memory = options.init(observe(level, state))
        while not over:
            task = level.tasks[state.task_index][None]
            option = choose(AgentInput(observe(level, state), jnp.array(1), task), jax.random.key(0)).option
            decisions, skills, done = decisions + 1, skills + bool(option >= options.num_actions), False
            while not (done or over):
                action = options.act(memory, option)
                after = step(level, state, action)
                state, over = after.state, bool(after.terminated | after.truncated)
                rewards.append(float(after.reward))
                memory = options.observe(memory, action, observe(level, state))
                done = bool(options.done(memory, option))
            memory = options.switch_skill(memory, observe(level, state))
        found = jax.tree.map(lambda leaf, n=number: leaf[n].item(), games)
        success = int(state.task_index) == WORLD.num_tasks
        assert found == (success, sum(rewards), len(rewards), decisions, skills)


def test_from_the_command_line(
    model: cil.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A world of the paper's size would take long to compile for nothing.
    monkeypatch.setattr(cil, "make_world", lambda name, **options: dataclasses.replace(WORLD, **options))
    monkeypatch.setattr(AgentConfig, "num_environments", SMALL.num_environments)
    model.save(tmp_path / "model")
    sizes = [f"--{name.replace('_', '-')}={getattr(SMALL, name)}" for name in ("num_environments", "batch_size")]
    sizes += ["--num-iterations=1", "--num-ticks=4", "--num-levels=4", "--hidden-dim=8", "--num-maps=2"]
    command = ["rl", "--world", "grid-pickup", "--num-tasks", "1", "--max-steps", "12", *sizes]
    main([*command, "--skills", str(tmp_path / "model"), "--out", str(tmp_path / "run")])
    said, noted = capsys.readouterr()
    assert ("There is no accelerator" in noted) == (jax.default_backend() == "cpu")
    assert "of 1,024 unseen levels solved" in said
    assert "limit its steps with --max-skill-steps" in said
    assert "tensorboard --logdir" in said
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["agent"] == "hierarchical"
    assert "needs skills" in fails([*command, "--out", str(tmp_path / "other")], capsys)
    assert "holds a run" in fails([*command, "--agent", "low-level", "--out", str(tmp_path / "run")], capsys)
    play = ["play", str(tmp_path / "run"), "--num-levels", "4", "--out", str(tmp_path / "played.json")]
    main([*play, "--watch", "1", "--seed", "7"])
    said = " ".join(capsys.readouterr().out.split())
    assert re.search("Level 7: [A-J] ######", said)
    assert said.count("all done") == 1
    figures = json.loads((tmp_path / "played.json").read_text())["figures"]
    player = load_player(tmp_path / "run")
    assert figures["most probable"] == player.evaluate(num_levels=4, seed=7, sample=False)._asdict()
    assert f"{figures['drawn']['num_steps']:.1f}" in said
    assert "exists" in fails(play, capsys)
    assert "use 0 or more" in fails([*play, "--overwrite", "--watch", "-1"], capsys)
    assert "holds no agent" in fails(["play", str(tmp_path / "model")], capsys)
    longer = with_tasks(dataclasses.replace(player, world=WORLD), 5).world
    assert isinstance(longer, GridWorld)
    assert (longer.num_tasks, longer.num_objects) == (5, 5)
