"""Skills in other libraries of reinforcement learning. Slow, with a large library: `pip install ".[test]"` first."""

import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation

import compile_il as cil
from compile_il.rl.skill_env import SkillEnv
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.gym import GridEnv, ShowTask

WORLD = {"kind": "visit", "size": 6, "num_tasks": 1, "num_objects": 2, "num_types": 2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ppo_of_stable_baselines3_learns_with_skills() -> None:
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    demos = GridWorld(**WORLD, max_steps=8)
    model = cil.fit(demos, num_segments=1, num_skills=4, num_iterations=300, progress=False)
    env = FlattenObservation(ShowTask(SkillEnv(GridEnv(**WORLD, max_steps=8), model)))
    agent = stable_baselines3.PPO(
        "MlpPolicy", env, n_steps=512, batch_size=128, learning_rate=1e-3, seed=0, device="cpu"
    )

    def success() -> float:
        solved = []
        for seed in range(100):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                action, _ = agent.predict(observation, deterministic=False)
                observation, _, terminated, truncated, info = env.step(int(action))
                over = terminated or truncated
            solved.append(info["success"])
        return float(np.mean(solved))

    before = success()
    agent.learn(16_384)
    after = success()
    print(f"solved {before:.0%} before, {after:.0%} after")
    assert after > before + 0.1
