"""Names of what can be reproduced, and of the scales at which it can.

How large models are and how long they are trained, at three scales.
"""

from typing import Any, Literal

Scale = Literal["smoke", "short", "paper"]
"""How long to train: two steps of tiny networks; minutes on one accelerator; the paper's iterations."""


PaperName = Literal["table1", "table2", "table3", "figure4", "figure5", "figure7", "qualitative"]
"""Name of a table or a figure of the paper."""


StudyName = Literal[PaperName, "classic"]
"""Name of a study: a table or a figure of the paper, or `classic`, methods that are older than networks."""


PictureFormat = Literal["png", "svg", "pdf"]


TITLES: dict[StudyName, str] = {
    "table1": "Reacher: where one target has been reached",
    "table2": "Reacher, Gaussian codes",
    "table3": "Reacher: number of segments and temperature",
    "figure4": "Grid worlds",
    "figure5": "Agents that learn with skills",
    "figure7": "Grid worlds, Gaussian codes",
    "qualitative": "Skills at work",
    "classic": "Older methods",
}


PAPER_SIZES: dict[str, Any] = {"batch_size": 256, "hidden_dim": 256, "num_maps": 64, "num_seeds": 5}


SMOKE_SIZES: dict[str, Any] = {"batch_size": 8, "hidden_dim": 16, "num_maps": 4, "num_seeds": 2, "num_iterations": 2}


SMOKE_TEST = 16
"""Number of demonstrations that smoke is scored on; older methods are fitted to as many."""


TRAINING: dict[Scale, dict[str, dict[str, Any]]] = {
    "smoke": {},
    "short": {
        "relaxed grid": {"num_iterations": 7_000, "learning_rate": 5e-4, "cooldown": 0.3},
        "relaxed reacher": {"num_iterations": 5_000, "learning_rate": 1e-3, "cooldown": 0.3},
        "exact grid": {"num_iterations": 8_000},
        "exact reacher": {"num_iterations": 2_000},
    },
    "paper": {
        "relaxed grid": {"num_iterations": 50_000},
        "relaxed reacher": {"num_iterations": 500_000},
        "exact grid": {"num_iterations": 20_000},
        "exact reacher": {"num_iterations": 20_000},
    },
}
"""Training settings by scale, then by engine and world. The paper's model takes 50,000 steps, and 500,000 for the
reacher, at a small rate that stays; short trainings have a larger one that falls in the end (docs/decisions.md, "Short
trainings")."""


AGENT_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **{"num_iterations": 2, "num_environments": 8, "batch_size": 8, "num_ticks": 4, "num_levels": 8},
        **{"hidden_dim": 8, "num_maps": 2, "embed_dim": 2, "num_seeds": 2},
    },
    "short": {"num_iterations": 600, "half_precision": True, "num_seeds": 3},
    "paper": {"num_iterations": 4_000, "learning_rate": 1e-3, "half_precision": True, "num_seeds": 3},
}
"""Settings of agents by scale; the paper does not say how long its agents learn."""


AGENT_SKILL_UNITS = 128
"""Hidden units of the models whose skills agents have, as in the paper."""


AGENT_DECISIONS = 32
"""Most decisions in 64 steps of agents with skills. A choice at random among 8 actions and 10 skills of 6 steps takes
3.8 steps on average, which makes 17 decisions."""


EARLY = 100
"""Divisor of the number of training steps: a model that is looked at early has had one step in so many."""
