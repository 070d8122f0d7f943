"""`compile-il rl`: an agent that learns to do tasks, with skills as options."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from compile_il.cli.console import say
from compile_il.cli.resumable import resumable, say_where
from compile_il.hierarchy.settings import AgentConfig
from compile_il.worlds.grid import NUM_RL_STEPS

RlWorld = Literal["grid-pickup", "grid-visit"]
NUM_LEVELS = 1024
"""Number of unseen levels that the agent is scored on when it has learned."""


@dataclasses.dataclass(frozen=True)
class Rl:
    r"""Teach an agent to do lists of tasks, with the skills of a model as options.

    compile-il rl --skills runs/pickup --world grid-pickup --num-tasks 5 --reward sparse \
        --max-skill-steps 10 --out runs/agent

    compile-il rl --agent low-level --world grid-visit --out runs/low-level
    """

    world: RlWorld
    """World in which the agent acts; its skills should come from there."""
    out: Path
    """The folder for the log, checkpoints and the agent."""
    skills: Annotated[Path | None, tyro.conf.arg(metavar="MODEL", help_behavior_hint="(default: none)")] = None
    """The folder of a model, or of the run that made it; a low-level agent has none."""
    num_tasks: int = 3
    """Number of tasks in each level."""
    reward: Literal["dense", "sparse"] = "dense"
    """dense: 1 for each task; sparse: 1 where all are done."""
    max_steps: int = NUM_RL_STEPS
    """Steps after which an episode is cut."""
    resume: bool = False
    """Go on with the run in the folder --out, from its last checkpoint."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    actors: Literal["device", "ray"] = "device"
    """Who acts: the device that learns, or processes on CPUs, through Ray."""
    num_actors: int = 2
    """Ray: number of processes; --num-environments is then that of all of them, by default --batch-size, or the least
    multiple of it that can be shared out."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="(default: none)")] = None
    """Ray: address of a cluster, or auto; without it, a cluster is started here."""
    config: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=AgentConfig)

    def run(self, console: Console) -> None:
        """Learns, and says how well the agent does on levels that it has not seen."""
        from compile_il.hierarchy.learn import learn
        from compile_il.model_files import load
        from compile_il.worlds import make_world

        world = make_world(self.world, num_tasks=self.num_tasks, reward=self.reward, max_steps=self.max_steps)
        model = None if self.skills is None else load(self.skills)
        config = self.config
        if self.actors == "ray" and config.num_environments == AgentConfig.num_environments:
            config = dataclasses.replace(config, num_environments=math.lcm(config.batch_size, max(self.num_actors, 1)))
            say(console, f"{config.num_environments} environments, shared out to {self.num_actors} processes.")
        if config.agent == "hierarchical" and config.max_skill_steps is None:
            say(console, "A skill that finds nothing to do may never end; --max-skill-steps ends it after so many.")
        with resumable(self.out, resumed=self.resume):
            player = learn(
                world,  # type: ignore[arg-type]  # of a name that stands for a world with tasks
                model,
                config=config,
                actors=self.actors,
                num_actors=self.num_actors,
                address=self.address,
                out=self.out,
                resume=self.resume,
                checkpoint_seconds=self.checkpoint_seconds,
            )
        played = player.evaluate(num_levels=NUM_LEVELS)
        say(
            console,
            f"{100 * played.success:.1f} % of {NUM_LEVELS:,} unseen levels solved, in {played.num_steps:.1f} steps and "
            f"{played.num_decisions:.1f} decisions; {100 * played.skill_share:.0f} % of these call a skill.",
        )
        say_where(console, "The agent", self.out)
