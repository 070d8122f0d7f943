"""Trains skills (`compile-il train`) and agents that call them (`rl`), and runs agents (`play`)."""

import contextlib
import dataclasses
import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Column, Table

import compile_il as cil
from compile_il.cli.console import Interrupted, option, say
from compile_il.config import MAX_SEED, TEST_SEED, CompileError, Config
from compile_il.rl.config import AgentConfig

if TYPE_CHECKING:
    from compile_il.rl.player import Player
    from compile_il.worlds import World

NUM_LEVELS = 1024
"""Number of unseen levels that an agent is scored on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run in a folder."""

    out: Path
    """The folder for the log, the checkpoints and the result."""
    resume: bool = False
    """Resume the run in the folder --out from its last checkpoint."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""

    @contextlib.contextmanager
    def resumable(self) -> Iterator[dict[str, Any]]:
        """Yields the arguments of a run; at Ctrl-C, names the command that resumes it if the folder holds a run."""
        from compile_il.training.loop import Stopped
        from compile_il.training.runs import holds_run

        try:
            yield {"out": self.out, "resume": self.resume, "checkpoint_seconds": self.checkpoint_seconds}
        except KeyboardInterrupt as interrupt:
            if not holds_run(self.out):
                raise
            where = interrupt.where if isinstance(interrupt, Stopped) else "at once; what was saved before is kept."
            raise Interrupted(f"{where} To go on", [] if self.resume else ["--resume"]) from interrupt

    def say_where(self, console: Console, what: str) -> None:
        """Prints where the result is, and how to look at its curves."""
        curves = f"; curves: tensorboard --logdir {shlex.quote(str(self.out))}"
        say(console, f"{what}: ", (str(self.out), "bold"), curves)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(RunOptions):
    r"""Learn skills from demonstrations.

    compile-il train grid-pickup --num-segments 3 --num-skills 10 --out runs/pickup

    compile-il train mine.npz --num-segments unknown --out runs/mine

    compile-il train grid-pickup --inference relaxed --num-segments 1 \
        --num-tasks 3 --num-skills 128 --out runs/whole

    On several hosts, with the same command except for --host:

    compile-il train a.npz --out DIR --coordinator one:1234 --num-hosts 2 --host 0
    """

    source: Annotated[str, tyro.conf.arg(metavar="SOURCE"), tyro.conf.Positional]
    """A file of demonstrations, or the name of a world, which makes new demonstrations in each step."""
    num_tasks: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: one for each segment)")] = None
    """With a world: number of tasks in each demonstration."""
    coordinator: str | None = None
    """Several hosts: address and port of the first one, or `auto` under a scheduler that JAX knows."""
    num_hosts: int | None = None
    """Several hosts: how many there are."""
    host: int | None = None
    """Several hosts: the number of this one, from 0."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Config)

    def run(self, console: Console) -> None:
        """Trains, and prints how training ended and where the model is."""
        from compile_il.training.devices import fail_together, is_first_process, join_hosts
        from compile_il.training.runs import read_log

        if self.coordinator is not None:
            join_hosts(self.coordinator, num_hosts=self.num_hosts, host=self.host)
        elif self.num_hosts is not None or self.host is not None:
            raise CompileError("Several hosts need the address of the first: --coordinator first-host:1234.")
        with fail_together():
            demos = self._demonstrations()
        with self.resumable() as run:
            cil.fit(demos, config=self.config, **run)
        if not is_first_process():
            return
        for last in read_log(self.out)[-1:]:
            seeds, accuracy = self.config.num_seeds, last["boundary_accuracy"]
            kept = f"seed {last['seed']} of {seeds} kept, the best by " if seeds > 1 else ""
            hit = "" if accuracy is None else f", {100 * accuracy:.1f} % of true boundaries hit"
            likelihood = f"held-out log-likelihood {last['held_out_log_likelihood']:.2f}"
            say(console, f"{last['iteration']} iterations, {last['seconds']:.0f} s; {kept}{likelihood}{hit}")
        self.say_where(console, "The model")

    def _demonstrations(self) -> "cil.Demonstrations | World | str":
        """Returns the world, by name unless options change it, or the demonstrations in the file."""
        from compile_il.training.sources import training_world
        from compile_il.worlds import suggest

        if self.source in cil.WORLDS:
            return self.source if self.num_tasks is None else training_world(self.source, self.num_tasks)
        if not Path(self.source).exists():
            hint = f"{suggest(self.source, list(cil.WORLDS))} Name a file, or one of {', '.join(cil.WORLDS)}."
            raise CompileError(f"{self.source} is neither a file nor a world{hint}")
        if self.num_tasks is not None:
            raise CompileError(f"--num-tasks is for worlds, and {self.source} is a file: leave it out.")
        return cil.Demonstrations.load(self.source)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rl(RunOptions):
    r"""Train an agent on lists of tasks, with the skills of a model as options.

    It is made for a GPU: on a CPU, an iteration with the default settings can take a minute.

    compile-il rl --skills runs/pickup --world grid-pickup --num-tasks 5 --reward sparse \
        --max-skill-steps 10 --out runs/agent

    compile-il rl --agent low-level --world grid-visit --out runs/low-level
    """

    world: Literal["grid-pickup", "grid-visit"]
    """World in which the agent acts; train its skills there too."""
    skills: Annotated[Path | None, option("MODEL", "none")] = None
    """The folder of a model, or of the run that made it; a low-level agent has none."""
    num_tasks: int = 3
    """Number of tasks in each level."""
    reward: Literal["dense", "sparse"] = "dense"
    """dense: 1 for each task; sparse: 1 when all are done."""
    max_steps: int = 50
    """Most steps of an episode."""
    actors: Literal["device", "ray"] = "device"
    """Where agents act: on the device that learns, or in Ray's processes on CPUs."""
    num_actors: int = 2
    """Ray: number of processes; they share --num-environments, by default the least multiple of --batch-size that can
    be divided by their number."""
    address: Annotated[str | None, option("HOST:PORT", "none")] = None
    """Ray: address of a cluster, or auto; without it, a cluster is started here."""
    config: Annotated[AgentConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=AgentConfig)

    def run(self, console: Console) -> None:
        """Trains the agent, and scores it on unseen levels."""
        from compile_il.rl.learn import learn

        world: Any = cil.make_world(self.world, num_tasks=self.num_tasks, reward=self.reward, max_steps=self.max_steps)
        model, config = None if self.skills is None else cil.load(self.skills), self.config
        if self.actors == "ray" and config.num_environments == AgentConfig.num_environments:
            config = dataclasses.replace(config, num_environments=math.lcm(config.batch_size, max(self.num_actors, 1)))
            say(console, f"{config.num_environments} environments, shared by {self.num_actors} processes.")
        if config.agent == "hierarchical" and model is not None and config.max_skill_steps is None:
            say(console, "A skill that has nothing to do may never end: limit its steps with --max-skill-steps.")
        with self.resumable() as run:
            player = learn(
                world, model, config=config, actors=self.actors, num_actors=self.num_actors, address=self.address, **run
            )
        played = player.evaluate(num_levels=NUM_LEVELS)
        solved = f"{100 * played.success:.1f} % of {NUM_LEVELS:,} unseen levels solved"
        work = f"{played.num_steps:.1f} steps and {played.num_decisions:.1f} decisions"
        say(console, f"{solved}, in {work}; {100 * played.skill_share:.0f} % of these call a skill.")
        self.say_where(console, "The agent")


@dataclasses.dataclass(frozen=True)
class Play:
    """Let a trained agent play on levels that it has not seen.

    compile-il play runs/agent --watch 1
    """

    agent: Annotated[Path, tyro.conf.arg(metavar="AGENT"), tyro.conf.Positional]
    """The folder of a run of `compile-il rl`, or of an agent that was saved."""
    num_tasks: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: as in training)")] = None
    """Number of tasks in each level."""
    num_levels: int = NUM_LEVELS
    """Number of levels."""
    seed: int = TEST_SEED
    """Seed of the levels."""
    watch: int = 0
    """Number of episodes to show as text, step by step."""
    out: Annotated[Path | None, option("PATH", "none")] = None
    """A file for the scores, as JSON."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Plays, prints a table and writes the file."""
        from compile_il.data.files import check_target
        from compile_il.evaluation.results import Measurement
        from compile_il.rl.player import load_player

        if self.watch < 0 or not 0 <= self.seed <= MAX_SEED:
            raise CompileError(f"--watch is {self.watch}, --seed {self.seed}: use 0 or more, seeds up to {MAX_SEED}.")
        if self.out is not None:
            check_target(self.out, overwrite=self.overwrite)
        player, measurement = with_tasks(load_player(self.agent), self.num_tasks), Measurement()
        for number in range(self.watch):
            show_episode(player, self.seed + number, console)
        with console.status(f"{self.num_levels} levels"):
            scores = {
                way: player.evaluate(num_levels=self.num_levels, seed=self.seed, sample=way == "drawn")
                for way in ("drawn", "most probable")
            }
        table = Table("options", *(Column(way, justify="right") for way in scores))
        headings = ("levels solved, %", "reward", "steps", "decisions", "of these skills, %")
        factors = (100, 1, 1, 1, 100)
        for heading, factor, values in zip(headings, factors, zip(*scores.values(), strict=True), strict=True):
            table.add_row(heading, *(f"{factor * value:.1f}" for value in values))
        console.print(table)
        if self.out is not None:
            config = {"settings": player.config.to_json(), "world": str(player.world), "test_seed": self.seed}
            config["num_levels"] = self.num_levels
            figures = {way: played._asdict() for way, played in scores.items()}
            measurement.write(self.out, config=config, seeds=[player.config.seed], figures=figures)
            say(console, "Saved to ", (str(self.out), "bold"))


def with_tasks(player: "Player", num_tasks: int | None) -> "Player":
    """Returns the same agent on lists of so many tasks; unchanged if None."""
    from compile_il.worlds import GridWorld, with_num_tasks

    if num_tasks is None:
        return player
    if player.config.agent == "bc" or not isinstance(player.world, GridWorld):
        raise CompileError("This agent acts only on tasks such as those of its training: leave out --num-tasks.")
    return dataclasses.replace(player, world=with_num_tasks(player.world, num_tasks))


def show_episode(player: "Player", seed: int, console: Console) -> None:
    """Prints one episode as text, with the level after each option."""
    import numpy as np

    from compile_il.worlds.drawing import OBJECT_LETTERS
    from compile_il.worlds.grid import ACTION_NAMES

    env, rng = player.make_env("ansi"), np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    tasks = " ".join(OBJECT_LETTERS[task] for task in info["tasks"])
    say(console, (f"Level {seed}", "bold"), f": {tasks}")
    say(console, str(env.render()))
    over = False
    while not over:
        task = f"{info['task_name']} ({OBJECT_LETTERS[info['task']]}): "
        option = player.choose(observation, info["tasks"][info["task_index"] :], rng=rng)
        observation, _, terminated, truncated, info = env.step(option)
        over, num_steps = terminated or truncated, info.get("num_steps", 1)
        name = ACTION_NAMES[option] if option < len(ACTION_NAMES) else f"skill {option - len(ACTION_NAMES)}"
        say(console, f"\n{task}", (name, "bold"), "" if num_steps == 1 else f", {num_steps} steps")
        say(console, str(env.render()))
    say(console, "all done" if info["success"] else "not all done", "\n")
