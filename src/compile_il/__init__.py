"""compile-il: demonstrations in, skills out.

Where each skill starts and ends, which skill it is, a policy that executes it, and a rule that says when it is done;
after CompILE (Kipf et al., ICML 2019).
"""

import importlib.util

from compile_il.array_files import ModelError
from compile_il.checkpoints import CheckpointError
from compile_il.config import Config, ConfigError
from compile_il.demos import UNKNOWN, DemonstrationError, Demonstrations
from compile_il.evaluate import Evaluation, evaluate
from compile_il.fit import TrainingError, fit
from compile_il.generate import demonstrate
from compile_il.model import Model
from compile_il.model_files import load
from compile_il.runs import RunError
from compile_il.segmenting import DivergedError
from compile_il.segments import Segments, score
from compile_il.under_way import Stopped
from compile_il.worlds import WORLDS, WorldError, make_world

__version__ = "0.1.0"
__all__ = [
    "UNKNOWN",
    "WORLDS",
    "CheckpointError",
    "Config",
    "ConfigError",
    "DemonstrationError",
    "Demonstrations",
    "DivergedError",
    "Evaluation",
    "Model",
    "ModelError",
    "RunError",
    "Segments",
    "Stopped",
    "TrainingError",
    "WorldError",
    "demonstrate",
    "evaluate",
    "fit",
    "load",
    "make_world",
    "score",
]

# Images of accelerator machines often lack Gymnasium; all but the environments works without it.
if importlib.util.find_spec("gymnasium") is not None:
    from compile_il.worlds import gym as _gym

    _gym.register()
