r"""At which learning rate, with and without a limit for what one iteration may change, agents learn.

    python -m compile_il.experiments.agent_rates --out results/agent-rates.json
    python -m compile_il.experiments.agent_rates --out results/agent-rates-pickup.json --world grid-pickup \
        --reward sparse --skills runs/pickup --agent hierarchical --max-skill-steps 10 --num-decisions 32

The paper's agents have Adam with a rate of 0.001 and no limit. Here agents learn in several ways from the same number
of steps: by default low-level ones, in the panel of the paper's figure 5 in which they have the least to explore.
"""

import dataclasses
import itertools
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from compile_il.hierarchy.on_device import OnDevice, Statistics
from compile_il.hierarchy.settings import AgentConfig
from compile_il.model import Model
from compile_il.model_files import load
from compile_il.reproduce.agents import MAX_STEPS, NUM_POINTS
from compile_il.results import write_result
from compile_il.worlds import make_world
from compile_il.worlds.world import Reward


@dataclasses.dataclass(frozen=True)
class Run:
    """Several ways to learn."""

    out: Path
    """Result file."""
    world: Literal["grid-visit", "grid-pickup"] = "grid-visit"
    """Where."""
    num_tasks: int = 3
    """Tasks of each level."""
    reward: Reward = "dense"
    """For each task, or where all are done."""
    skills: Path | None = None
    """Model whose skills agents have; None for agents without."""
    rates: tuple[tuple[float, float | None], ...] = ((1e-3, None), (3e-4, None), (1e-3, 1e-4))
    """Learning rates, each with the one it falls to, None where it stays the same."""
    max_changes: tuple[float | None, ...] = (None, 0.2)
    """Limits of change, each with all rates."""
    num_steps: int = 52_428_800
    """Of each seed, about."""
    config: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=lambda: AgentConfig(agent="low-level", half_precision=True, num_seeds=3)
    )
    """Of all; rate, limit and iterations are those of the variants."""


def main(run: Run) -> None:
    """Learns and writes."""
    began = time.perf_counter()
    figures = []
    panel: dict[str, Any] = {"num_tasks": run.num_tasks, "reward": run.reward, "max_steps": MAX_STEPS}
    world: Any = make_world(run.world, **panel)
    model = None if run.skills is None else load(run.skills)
    iterations = max(run.num_steps // (run.config.num_ticks * run.config.num_environments), 1)
    config = dataclasses.replace(run.config, num_iterations=iterations)
    for limit, (first, last) in itertools.product(run.max_changes, run.rates):
        chosen: dict[str, Any] = {"learning_rate": first, "final_learning_rate": last, "max_change": limit}
        figures.append(learn(dataclasses.replace(config, **chosen), world, model))
        print(chosen, figures[-1]["success"], flush=True)
    write_result(
        run.out,
        config={"world": run.world, **panel, "skills": model and model.config.to_json(), **config.to_json()},
        seeds=list(range(run.config.num_seeds)),
        wall_time=time.perf_counter() - began,
        figures={"variants": figures},
    )


def learn(config: AgentConfig, world: Any, model: Model | None) -> dict[str, Any]:
    """What one variant was told, and the success of its seeds as they learned."""
    training = OnDevice(config, world, model)
    state, happened = training.start(), list[Statistics]()
    began = time.perf_counter()
    for iteration in range(config.num_iterations):
        state, statistics = training.step(state, iteration)
        happened.append(statistics)
    counts = np.array([[row.num_successes, row.num_episodes] for row in happened])  # (iterations, 2, seeds)
    stretches = [part.sum(axis=0) for part in np.array_split(counts, min(NUM_POINTS, len(counts)))]
    success = [np.round(wins / np.maximum(episodes, 1), 4).tolist() for wins, episodes in stretches]
    told = {"rate": config.learning_rate, "final_rate": config.final_learning_rate, "max_change": config.max_change}
    return told | {"success": np.transpose(success).tolist(), "seconds": round(time.perf_counter() - began, 2)}


if __name__ == "__main__":
    main(tyro.cli(Run))
