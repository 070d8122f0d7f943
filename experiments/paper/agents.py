"""Trains the agents of figure 5; their skills come from models that are trained first, as those of other parts."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any, Self

import numpy as np

from compile_il.model.model import Model
from compile_il.rl.config import AgentConfig
from compile_il.rl.learn import run_training
from compile_il.rl.trainer import AgentTrainer
from compile_il.training.runs import holds_run, read_log
from compile_il.worlds import make_world
from compile_il.worlds.grid import NUM_RL_STEPS
from compile_il.worlds.world import Reward
from experiments.paper.parts import TRAINING, Part, Say, Scale, hash_of

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
NUM_POINTS = 40
"""Most points of a learning curve in a result file."""
AGENT_TEST_SEED = 17_000_023
"""Seed of the levels that agents are tested on. Their settings were chosen on the levels of `TEST_SEED`;
docs/decisions.md names the one choice that has seen these."""


@dataclasses.dataclass(frozen=True)
class AgentPart(Part):
    """Agents of one kind in one panel of figure 5; the part's config is that of their skills."""

    agent: AgentConfig = dataclasses.field(default_factory=AgentConfig)
    num_tasks: int = 3
    reward: Reward = "dense"

    def to_json(self) -> dict[str, Any]:
        """Adds the seed of the agents' test levels."""
        return super().to_json() | {"test_seed": AGENT_TEST_SEED}

    @property
    def needs_models(self) -> bool:
        """Whether the agents have skills, which must be trained first; low-level agents have none."""
        return self.agent.agent != "low-level"

    @property
    def num_seeds(self) -> int:
        """Number of agents, one per seed; all have the skills of one model."""
        return self.agent.num_seeds

    @property
    def learning_hash(self) -> str:
        """Short hash of panel, skills and agent settings; where it changes, agents begin anew."""
        skills = self.training_hash if self.needs_models else None
        panel = {"world": self.world, "num_tasks": self.num_tasks, "reward": self.reward, "skills": skills}
        return hash_of(panel | {"agent": self.agent.to_json()})

    def at_scale(self, scale: Scale) -> Self:
        """Sizes skills and agents."""
        sized = super().at_scale(scale)
        units = sized.config.hidden_dim if scale == "smoke" else AGENT_SKILL_UNITS
        config = dataclasses.replace(sized.config, num_seeds=1, hidden_dim=units)
        if scale == "short" and config.inference == "exact":
            # Agents are no better than their skills, and one training serves all panels of a world.
            config = dataclasses.replace(config, **TRAINING["paper"]["exact grid"])
        agent = dataclasses.replace(self.agent, **AGENT_SIZES[scale])
        if scale != "smoke" and self.needs_models:
            agent = dataclasses.replace(agent, num_decisions=AGENT_DECISIONS)
        return dataclasses.replace(sized, config=config, agent=agent)

    def measure(self, models: list[Model], folder: Path, say: Say) -> dict[str, Any]:
        """Trains agents; returns their curves and scores on unseen levels, with options drawn, and most probable."""
        world: Any = make_world(self.world, num_tasks=self.num_tasks, reward=self.reward, max_steps=NUM_RL_STEPS)
        run = folder / f"agents-{self.learning_hash}"
        say(f"{self.name}: agents learn")
        trainer = AgentTrainer(self.agent, world, models[0] if models else None)
        agents, _ = run_training(trainer, run, resume=holds_run(run), progress=False)
        levels = {"num_levels": self.num_test, "seed": AGENT_TEST_SEED}
        played, best = (
            [agent.evaluate(**levels, sample=sample)._asdict() for agent in agents] for sample in (True, False)
        )
        say(f"{self.name}: success {100 * np.mean([seed['success'] for seed in played]):.1f} %")
        rows = read_log(run)
        return {"curve": curve_of(rows), "played": played, "best": best, "learning_seconds": rows[-1]["seconds"]}


def curve_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Averages a log over at most `NUM_POINTS` intervals.

    `steps` are those of one seed at the end of each interval; `success` and `reward` have a list for each seed.
    """
    ends = np.linspace(0, len(rows), min(NUM_POINTS, len(rows)) + 1).astype(int)
    stretches = [rows[first:last] for first, last in itertools.pairwise(ends.tolist())]

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]  # none is, where no episode ended
        return round(float(np.mean(known)), 4) if known else None

    def of(name: str) -> list[list[float | None]]:
        seeds = range(len(rows[0]["by_seed"]))
        return [[mean([row["by_seed"][seed][name] for row in part]) for part in stretches] for seed in seeds]

    return {"steps": [int(part[-1]["steps"]) for part in stretches], "success": of("success"), "reward": of("reward")}
