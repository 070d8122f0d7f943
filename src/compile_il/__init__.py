"""compile-il: demonstrations in, skills out.

Finds where each skill starts and ends, which skill it is, a policy that executes it, and a rule that says when it ends;
after CompILE (Kipf et al., ICML 2019).
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compile_il.config import CompileError, Config
    from compile_il.data import UNKNOWN, Demonstrations
    from compile_il.data.segments import Segments
    from compile_il.evaluation.evaluate import Evaluation, evaluate
    from compile_il.evaluation.metrics import score
    from compile_il.model.files import load
    from compile_il.model.model import Model
    from compile_il.training.fit import fit
    from compile_il.worlds import WORLDS, make_world
    from compile_il.worlds.demonstrate import demonstrate

__version__ = "0.1.0"
__all__ = [
    "UNKNOWN",
    "WORLDS",
    "CompileError",
    "Config",
    "Demonstrations",
    "Evaluation",
    "Model",
    "Segments",
    "demonstrate",
    "evaluate",
    "fit",
    "load",
    "make_world",
    "score",
]
_NAMES = {
    "config": ("CompileError", "Config"),
    "data": ("UNKNOWN", "Demonstrations"),
    "data.segments": ("Segments",),
    "evaluation.evaluate": ("Evaluation", "evaluate"),
    "evaluation.metrics": ("score",),
    "model.files": ("load",),
    "model.model": ("Model",),
    "training.fit": ("fit",),
    "worlds": ("WORLDS", "make_world"),
    "worlds.demonstrate": ("demonstrate",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that help texts of commands do not wait for JAX."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Images of accelerator machines often lack Gymnasium; all but the environments works without it.
if importlib.util.find_spec("gymnasium") is not None:
    import gymnasium

    for _name, _entry_point, _options in (
        ("GridPickup", "gym:GridEnv", {"kind": "pickup"}),
        ("GridVisit", "gym:GridEnv", {"kind": "visit"}),
        ("GridPickupWindow", "gym:GridEnv", {"kind": "pickup", "window": 5}),
        ("GridVisitWindow", "gym:GridEnv", {"kind": "visit", "window": 5}),
        ("Reacher", "gym:ReacherEnv", {}),
        ("ReacherMujoco", "reacher_mujoco:MujocoReacherEnv", {}),
    ):
        gymnasium.register(f"CompILE/{_name}-v0", entry_point=f"compile_il.worlds.{_entry_point}", kwargs=_options)
