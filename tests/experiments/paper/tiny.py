"""Studies of two parts that are run in seconds: one of networks, one of classic methods."""

import dataclasses

from compile_il.config import Config
from experiments.paper.classic import ClassicPart
from experiments.paper.parts import Part, Scale
from experiments.paper.studies import Study, StudyName

CONFIG = Config(num_iterations=4, batch_size=8, hidden_dim=16, num_skills=3, num_seeds=2)
PART = Part("tiny", "symbols", CONFIG, test_tasks=(3,), num_test=8)
OTHER = dataclasses.replace(PART, name="other", config=dataclasses.replace(CONFIG, seed=1))
MARKOV = ClassicPart(
    "reacher, hidden Markov model",
    "reacher",
    Config(num_seeds=2),
    method="hidden Markov model",
    num_train=8,
    num_test=8,
    num_restarts=1,
    num_states=(2,),
)
EQUAL = dataclasses.replace(MARKOV, name="reacher, equal lengths", method="equal lengths")  # type: ignore[call-arg]


def make_study(name: StudyName, scale: Scale) -> Study:
    """In place of the one that ships; of any scale."""
    return Study(name, (MARKOV, EQUAL) if name == "classic" else (PART, OTHER))
