"""Skills as actions of an environment: what they earn, when they stop, and what cannot work."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from compile_il.config import Config
from compile_il.data.demonstrations import Demonstrations
from compile_il.rl.config import AgentError
from compile_il.rl.skill_env import SkillEnv
from tests.inference.exact.small import model_for
from tests.rl.two_states import MODEL

STAY_OR_BACK, GO, ROUND_TRIP = 0, 1, 2


class TwoStatesEnv(gymnasium.Env):
    """The world of `two_states`, in plain Python."""

    def __init__(self, max_steps: int = 100):
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.max_steps = max_steps

    def _seen(self) -> np.ndarray:
        return np.eye(2, dtype=np.float32)[self.place]

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.num_steps = 0, 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        reward = (0.1 if self.place == 0 else 1.0) if action == 0 else 0.0
        self.place, self.num_steps = int(action != 0), self.num_steps + 1
        return self._seen(), reward, False, self.num_steps >= self.max_steps, {"place": self.place}


def test_a_skill_is_one_step_to_whoever_calls_it() -> None:
    env = SkillEnv(TwoStatesEnv(), MODEL, discount=0.5)
    assert env.action_space == spaces.Discrete(3)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(ROUND_TRIP)
    assert observation.tolist() == [1, 0]
    assert (reward, terminated, truncated) == (0.5, False, False)  # nothing, then 1 a step later
    assert info == {"place": 0, "num_steps": 2, "discount": 0.25, "total_reward": 1.0}
    _, reward, *_, info = env.step(STAY_OR_BACK)
    assert (reward, info["num_steps"], info["discount"]) == (0.1, 1, 0.5)
    env.step(GO)
    assert env.step(ROUND_TRIP)[4]["num_steps"] == 1  # it begins half way


def test_the_end_of_an_episode_stops_a_skill() -> None:
    env = SkillEnv(TwoStatesEnv(max_steps=1), MODEL)
    env.reset()
    _, reward, _, truncated, info = env.step(ROUND_TRIP)
    assert (reward, truncated, info["num_steps"]) == (0.0, True, 1)


def test_a_skill_may_be_stopped() -> None:
    env = SkillEnv(TwoStatesEnv(), MODEL, max_steps=1)
    env.reset()
    assert env.step(ROUND_TRIP)[4]["num_steps"] == 1


def test_observations_may_hold_more_than_the_model_sees() -> None:
    wrapped = gymnasium.wrappers.TransformObservation(
        TwoStatesEnv(), lambda seen: {"seen": seen, "task": 3}, spaces.Dict({"seen": spaces.Box(0, 1, (2,))})
    )
    env = SkillEnv(wrapped, MODEL, see=lambda observation: observation["seen"])
    env.reset()
    assert env.step(ROUND_TRIP)[0]["task"] == 3


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
def test_gymnasium_finds_nothing_wrong() -> None:
    check_env(SkillEnv(TwoStatesEnv(), MODEL), skip_render_check=True)


def test_there_may_be_skills_alone() -> None:
    env = SkillEnv(TwoStatesEnv(), MODEL, skills_only=True, discount=0.5)
    assert env.action_space == spaces.Discrete(1)
    env.reset()
    _, reward, *_, info = env.step(0)
    assert (reward, info["num_steps"]) == (0.5, 2)
    with pytest.raises(AgentError, match="There is no action 1: there are 0 of the environment, then 1 skills"):
        env.step(1)


class Drift(gymnasium.Env):
    """A point that goes where its action says."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-0.25, 0.25, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.taken = np.zeros(2, np.float32), []
        return self.place, {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.taken.append(action)
        self.place = self.place + action
        return self.place, 1.0, False, False, {}


def test_skills_act_in_continuous_spaces() -> None:
    """Action by action as the model says, within the bounds of the environment; no others can be chosen."""
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays([rng.normal(size=(9, 2))] * 3, [rng.normal(size=(8, 2))] * 3)
    model, env = model_for(demos), Drift()
    wrapped = SkillEnv(env, model, max_steps=4)
    assert wrapped.action_space == spaces.Discrete(model.config.num_skills)
    place, _ = wrapped.reset()
    *_, info = wrapped.step(1)
    assert len(env.taken) == info["num_steps"]
    clipped, running = False, model.begin(place, 1)
    for number, action in enumerate(env.taken, start=1):
        given = running.act()
        clipped |= bool((np.abs(given) > 0.25).any())
        np.testing.assert_array_equal(action, np.clip(given, -0.25, 0.25))
        place = place + action
        assert running.arrive(action, place) == (number == len(env.taken) < 4)
    assert clipped


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(AgentError, match="The environment has 8 actions, and the model's skills have 2 actions"):
        SkillEnv(gymnasium.make("CompILE/GridPickup-v0"), MODEL)
    with pytest.raises(AgentError, match="has actions of width 2, and the model's skills have 2 actions"):
        SkillEnv(gymnasium.make("CompILE/Reacher-v0"), MODEL)
    many = TwoStatesEnv()
    many.action_space = spaces.MultiBinary(2)
    with pytest.raises(AgentError, match=r"actions are MultiBinary\(2\): skills give discrete ones, .*, or vectors"):
        SkillEnv(many, MODEL)
    with pytest.raises(AgentError, match="codes of this model are vectors"):
        SkillEnv(TwoStatesEnv(), dataclasses.replace(MODEL, config=Config(inference="relaxed", codes="gaussian")))
    with pytest.raises(AgentError, match=r"discount is 1\.5"):
        SkillEnv(TwoStatesEnv(), MODEL, discount=1.5)
    with pytest.raises(AgentError, match="max_steps is 0"):
        SkillEnv(TwoStatesEnv(), MODEL, max_steps=0)
    with pytest.raises(AgentError, match=r"max_steps is 2\.5: use a whole number"):
        SkillEnv(TwoStatesEnv(), MODEL, max_steps=2.5)  # type: ignore[arg-type]
    with pytest.raises(AgentError, match="A model is needed, and this is a str"):
        SkillEnv(TwoStatesEnv(), "runs/pickup")  # type: ignore[arg-type]
    env = SkillEnv(TwoStatesEnv(), MODEL)
    with pytest.raises(AgentError, match="call reset"):
        env.step(0)
    env.reset()
    with pytest.raises(AgentError, match="There is no action 3: there are 2 of the environment, then 1 skills"):
        env.step(3)
    for strange in (0.7, np.array([0, 1]), -1):
        with pytest.raises(AgentError, match="There is no action"):
            env.step(strange)
    other = dataclasses.replace(MODEL, config=dataclasses.replace(MODEL.config))
    with pytest.raises(AgentError, match="does not show what the model was trained on"):
        SkillEnv(TwoStatesEnv(), other, see=lambda observation: observation[:1]).reset()
