"""compile-il: demonstrations in, skills out.

Where each skill starts and ends, which skill it is, a policy that executes it, and a rule that says when it is done;
after CompILE (Kipf et al., ICML 2019).
"""

import importlib.util

from compile_il.config import Config, ConfigError
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.data.segments import Segments
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.evaluate import Evaluation, evaluate
from compile_il.evaluation.metrics import score
from compile_il.inference.segmenter import DivergedError
from compile_il.model.files import ModelError, load
from compile_il.model.model import Model
from compile_il.training.checkpoints import CheckpointError
from compile_il.training.fit import TrainingError, fit
from compile_il.training.loop import Stopped
from compile_il.training.runs import RunError
from compile_il.worlds import WORLDS, make_world
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.world import WorldError

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
