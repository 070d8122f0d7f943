"""The JAX reacher and dm_control's model under MuJoCo: the same actions, the same path of the fingertip."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("dm_control", reason="needs the extra: pip install 'compile-il[mujoco]'")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

import mujoco  # noqa: E402

import compile_il  # noqa: E402, F401 (registers the environments)
from compile_il.worlds.drawing import fingertips  # noqa: E402

FINGERTIP_TOLERANCE = 2e-4
"""Metres, over a whole episode. A target is 0.05 wide, and an arm at full speed moves its tip 0.04 in one step."""


def play(name: str, actions: np.ndarray, seed: int) -> tuple[np.ndarray, list[tuple[float, bool, bool]]]:
    env = gymnasium.make(name, max_steps=len(actions)).unwrapped
    observation, _ = env.reset(seed=seed)
    frames, outcomes = [observation], []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        frames.append(observation)
        outcomes.append((reward, terminated, truncated))
        if terminated or truncated:
            break
    return np.stack(frames), outcomes


@pytest.mark.parametrize("seed", range(8))
def test_same_fingertip_path(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Speeds that jump at every step, the hardest case for a servo, some beyond reach of a smooth controller.
    actions = rng.uniform(-3, 3, (100, 2)).astype(np.float32)
    ours, our_outcomes = play("CompILE/Reacher-v0", actions, seed)
    theirs, their_outcomes = play("CompILE/ReacherMujoco-v0", actions, seed)
    assert len(ours) == len(theirs) > 50
    gap = np.linalg.norm(fingertips(ours) - fingertips(theirs), axis=1)
    assert gap.max() < FINGERTIP_TOLERANCE
    assert our_outcomes == their_outcomes
    assert np.ptp(fingertips(ours), axis=0).max() > 0.05, "the arm did not move: nothing was compared"


def test_expert_solves_the_mujoco_reacher() -> None:
    env = gymnasium.make("CompILE/ReacherMujoco-v0", num_tasks=3).unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        for _ in range(100):
            _, _, terminated, truncated, info = env.step(env.expert_action())
            if terminated or truncated:
                break
        assert info["success"]


def test_mujoco_draws() -> None:
    env = gymnasium.make("CompILE/ReacherMujoco-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    try:
        image = env.render()
    except (mujoco.FatalError, ImportError, RuntimeError) as error:
        if not any(word in str(error) for word in ("OpenGL", "EGL", "GLFW")):
            raise
        pytest.skip(f"no off-screen renderer on this machine: {error}")
    assert image.shape == (480, 480, 3)
    assert image.std() > 10
