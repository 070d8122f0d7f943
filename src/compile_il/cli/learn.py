"""Trains skills (`compile-il train`), and agents that call them (`compile-il rl`)."""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from compile_il.cli.console import resumable, say, say_where
from compile_il.config import Config
from compile_il.rl.config import AgentConfig

if TYPE_CHECKING:
    from compile_il.data import Demonstrations
    from compile_il.worlds import World


@dataclasses.dataclass(frozen=True)
class Train:
    r"""Find skills in demonstrations.

    compile-il train grid-pickup --num-segments 3 --num-skills 10 --out runs/pickup

    compile-il train mine.npz --num-segments unknown --out runs/mine

    compile-il train grid-pickup --inference relaxed --num-segments 1 \
        --num-tasks 3 --num-skills 128 --out runs/whole

    On several hosts, each with the same command but for its number:

    compile-il train a.npz --out DIR --coordinator one:1234 --num-hosts 2 --host 0
    """

    source: Annotated[str, tyro.conf.arg(metavar="SOURCE"), tyro.conf.Positional]
    """A file of demonstrations, or the name of a world, of which fresh ones are made in each step."""
    out: Path
    """The folder for the log, checkpoints and the model."""
    num_tasks: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: one for each segment)")] = None
    """With a world: number of tasks in each demonstration."""
    resume: bool = False
    """Go on with the run in the folder --out, from its last checkpoint."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    coordinator: str | None = None
    """Several hosts: address and port of the first one, or `auto` under a scheduler that JAX knows."""
    num_hosts: int | None = None
    """Several hosts: how many there are."""
    host: int | None = None
    """Several hosts: the number of this one, from 0."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Config)

    def run(self, console: Console) -> None:
        """Trains, and prints where the model is."""
        from compile_il.training.devices import fail_together, is_first_process, join_hosts
        from compile_il.training.fit import fit
        from compile_il.training.log import read_log

        if self.coordinator is not None:
            join_hosts(self.coordinator, num_hosts=self.num_hosts, host=self.host)
        elif self.num_hosts is not None or self.host is not None:
            raise ValueError(
                "Several hosts need to find each other: name the first one, --coordinator first-host:1234."
            )
        with fail_together():
            demos = self._demonstrations()
        with resumable(self.out, resumed=self.resume):
            fit(
                demos,
                config=self.config,
                out=self.out,
                resume=self.resume,
                checkpoint_seconds=self.checkpoint_seconds,
            )
        if not is_first_process():
            return
        for last in read_log(self.out)[-1:]:
            say(console, summary(last, self.config.num_seeds))
        say_where(console, "The model", self.out)

    def _demonstrations(self) -> "Demonstrations | World | str":
        from compile_il.training.sources import training_world

        found = demonstrations_or_world(self.source)
        if self.num_tasks is None:
            return found
        if not isinstance(found, str):
            raise ValueError(f"--num-tasks is for worlds, and {self.source} is a file: leave it out.")
        return training_world(found, self.num_tasks)


def summary(last: dict[str, Any], num_seeds: int) -> str:
    """Returns a sentence on how training ended, from the last row of its log."""
    accuracy = last["boundary_accuracy"]
    boundaries = "" if accuracy is None else f", {100 * accuracy:.1f} % of true boundaries hit"
    kept = f"seed {last['seed']} of {num_seeds} kept, the best by " if num_seeds > 1 else ""
    return (
        f"{last['iteration']} iterations, {last['seconds']:.0f} s; {kept}held-out log-likelihood "
        f"{last['held_out_log_likelihood']:.2f}{boundaries}"
    )


def demonstrations_or_world(source: str) -> "Demonstrations | str":
    """Returns the name of a world as it is, or the demonstrations in a file."""
    from compile_il.data import Demonstrations
    from compile_il.worlds import WORLDS

    if source in WORLDS:
        return source
    if not Path(source).suffix and not Path(source).exists():
        raise ValueError(f"{source} is neither a file nor a world: name a file, or one of {', '.join(WORLDS)}.")
    return Demonstrations.load(source)


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
    max_steps: int = 50
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
        """Trains the agent, and scores it on unseen levels."""
        from compile_il.model.files import load
        from compile_il.rl.learn import learn
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
