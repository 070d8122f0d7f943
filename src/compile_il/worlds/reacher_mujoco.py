"""Steps the reacher on dm_control's own model, and renders it, with MuJoCo (extra `mujoco`).

The task's rules are `ReacherWorld.arrive`, the same as in the JAX world; only how the arm moves is MuJoCo's. The model
is dm_control's two-link reacher with velocity servos in place of torque motors (the paper's actions are angular
velocities), without joint limits and damping, and with one sphere for each target in place of the single one.
"""

import functools
import os
import sys
from typing import Any
from xml.etree import ElementTree

import jax
import numpy as np
from numpy.typing import NDArray

from compile_il.worlds.drawing import COLORS
from compile_il.worlds.gym import ReacherEnv
from compile_il.worlds.reacher import MAX_SPEED, TARGET_RADIUS, TIME_STEP, ReacherWorld

if sys.platform == "linux" and "DISPLAY" not in os.environ:
    # Without a screen, MuJoCo's first choice of renderer warns and then fails; this one draws off screen.
    os.environ.setdefault("MUJOCO_GL", "egl")

try:
    from dm_control import mujoco
    from dm_control.suite import reacher as suite_reacher
except ImportError as error:
    raise ImportError("The MuJoCo reacher needs an extra: pip install 'compile-il[mujoco]'.") from error

PHYSICS_STEP = 0.002
SERVO_GAIN = 100.0
"""Torque per rad/s of speed error: the arm takes up a speed within microseconds, as in the paper's velocity control."""
IMAGE_SIZE = 480
_HIDDEN_DEPTH = -1.0
_FADED = 0.18


def build_physics(num_types: int) -> Any:
    """Builds dm_control's reacher with velocity servos and one coloured target for each type."""
    xml, assets = suite_reacher.get_model_and_assets()
    root = ElementTree.fromstring(xml)
    option = _child(root, "option")
    option.set("timestep", str(PHYSICS_STEP))
    option.set("integrator", "implicitfast")
    defaults = _child(root, "default")
    defaults.remove(_child(defaults, "motor"))
    _child(defaults, "joint").set("damping", "0")
    for joint in root.iter("joint"):
        joint.attrib.pop("range", None)
        joint.attrib.pop("limited", None)
    body = _child(root, "worldbody")
    body.remove(_child(body, "geom[@name='target']"))
    for kind in range(num_types):
        red, green, blue = (int(COLORS[kind % len(COLORS)][i : i + 2], 16) / 255 for i in (1, 3, 5))
        look = {"type": "sphere", "size": str(TARGET_RADIUS), "rgba": f"{red} {green} {blue} 1"}
        ElementTree.SubElement(body, "geom", look | {"name": f"target{kind}", "pos": f"0 0 {_HIDDEN_DEPTH}"})
    actuators = _child(root, "actuator")
    for motor in list(actuators):
        actuators.remove(motor)
        servo = {"name": motor.attrib["name"], "joint": motor.attrib["joint"], "kv": str(SERVO_GAIN)}
        limits = {"ctrllimited": "true", "ctrlrange": f"{-MAX_SPEED} {MAX_SPEED}"}
        ElementTree.SubElement(actuators, "velocity", servo | limits)
    return mujoco.Physics.from_xml_string(ElementTree.tostring(root), assets)


def _child(parent: ElementTree.Element, path: str) -> ElementTree.Element:
    child = parent.find(path)
    if child is None:
        raise RuntimeError(f"dm_control's reacher model has no {path!r} any more: use the versions in constraints.txt.")
    return child


@functools.partial(jax.jit, static_argnames="world")
def _arrive(world: ReacherWorld, level: Any, state: Any, angles: Any) -> Any:
    step = world.arrive(level, state, angles)
    return step, world.observe(level, step.state)


class MujocoReacherEnv(ReacherEnv):
    """`CompILE/ReacherMujoco-v0`: the reacher in MuJoCo, with spaces, rules and info of `CompILE/Reacher-v0`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._physics = build_physics(self.world.num_types)
        self._num_substeps = round(TIME_STEP / PHYSICS_STEP)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begins an episode on a random level, or on the one given in the options."""
        observation, info = super().reset(seed=seed, options=options)
        with self._physics.reset_context():
            self._physics.data.qpos[:] = observation[-2:]
            for kind, (alpha, x, y) in enumerate(observation[:-2].reshape(-1, 3)):
                depth = 0.01 if alpha > 0 else _HIDDEN_DEPTH
                self._physics.named.model.geom_pos[f"target{kind}"] = (x, y, depth)
        return observation, info

    def _move(self, action: NDArray[np.float32]) -> Any:
        self._physics.set_control(action)
        self._physics.step(self._num_substeps)
        return _arrive(self.world, self.level, self.state, np.asarray(self._physics.data.qpos, np.float32))

    def render(self) -> Any:
        """Returns an image of the scene by MuJoCo, with reached targets faded; as text as in `ReacherEnv`."""
        if self.render_mode != "rgb_array":
            return super().render()
        for kind, alpha in enumerate(self._frames[-1][:-2].reshape(-1, 3)[:, 0]):
            self._physics.named.model.geom_rgba[f"target{kind}", 3] = 1.0 if alpha > 0 else _FADED
        return self._physics.render(height=IMAGE_SIZE, width=IMAGE_SIZE, camera_id="fixed")
