"""`compile-il play`: how well an agent does on levels that it has not seen, and what it does there."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from compile_il.cli.console import say
from compile_il.evaluate import TEST_SEED
from compile_il.setting import MAX_SEED
from compile_il.worlds.grid import ACTION_NAMES
from compile_il.worlds.text import OBJECT_LETTERS

if TYPE_CHECKING:
    from compile_il.hierarchy.player import Played, Player

WAYS = {"drawn": True, "most probable": False}
"""Ways to choose options, by heading, each with the argument `sample` of `Player.evaluate` that means it."""


@dataclasses.dataclass(frozen=True)
class Play:
    """Let an agent that has learned play on levels that it has not seen.

    compile-il play runs/agent --watch 1
    """

    agent: Annotated[Path, tyro.conf.arg(metavar="AGENT"), tyro.conf.Positional]
    """The folder of a run of `compile-il rl`, or of an agent that was saved."""
    num_tasks: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: as it learned)")] = None
    """Number of tasks in each level."""
    num_levels: int = 1024
    """Number of levels."""
    seed: int = TEST_SEED
    """Seed of the levels."""
    watch: int = 0
    """Number of episodes to show as text, step by step."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A file for the scores, as JSON."""
    overwrite: bool = False
    """Replace the file if it exists."""

    def run(self, console: Console) -> None:
        """Plays, prints a table and writes the file."""
        from compile_il.files import check_target
        from compile_il.hierarchy.player import load_player
        from compile_il.results import Measurement

        if self.watch < 0 or not 0 <= self.seed <= MAX_SEED:
            raise ValueError(
                f"--watch is {self.watch} and --seed {self.seed}: use 0 or more, and a seed up to {MAX_SEED}."
            )
        if self.out is not None:
            check_target(self.out, overwrite=self.overwrite)
        player, measurement = with_tasks(load_player(self.agent), self.num_tasks), Measurement()
        for number in range(self.watch):
            show_episode(player, self.seed + number, console)
        with console.status(f"{self.num_levels} levels"):
            found = {
                way: player.evaluate(num_levels=self.num_levels, seed=self.seed, sample=sample)
                for way, sample in WAYS.items()
            }
        console.print(played_table(found))
        if self.out is not None:
            config = {"settings": player.config.to_json(), "world": str(player.world), "test_seed": self.seed}
            measurement.write(
                self.out,
                config=config | {"num_levels": self.num_levels},
                seeds=[player.config.seed],
                figures={way: played._asdict() for way, played in found.items()},
            )
            say(console, "Saved to ", (str(self.out), "bold"))


def with_tasks(player: "Player", num_tasks: int | None) -> "Player":
    """Returns the same agent on lists of so many tasks; as it is if None."""
    from compile_il.worlds import GridWorld, with_num_tasks

    if num_tasks is None:
        return player
    if player.config.agent == "bc":
        raise ValueError("This agent is told a list of as many tasks as it learned with: leave out --num-tasks.")
    if not isinstance(player.world, GridWorld):
        raise ValueError("This agent acts in an environment of its own: leave out --num-tasks.")
    return dataclasses.replace(player, world=with_num_tasks(player.world, num_tasks))


def show_episode(player: "Player", seed: int, console: Console) -> None:
    """Prints one episode as text: each option that is drawn, and where it led."""
    import numpy as np

    env, rng = player.make_env("ansi"), np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    tasks = " ".join(OBJECT_LETTERS[task] for task in info["tasks"])
    say(console, (f"Level {seed}", "bold"), f": {tasks}")
    say(console, str(env.render()))
    over = False
    while not over:
        task = f"{info['task_name']} ({OBJECT_LETTERS[info['task']]})"
        option = player.choose(observation, info["tasks"][info["task_index"] :], rng=rng)
        observation, _, terminated, truncated, info = env.step(option)
        over = terminated or truncated
        what = ACTION_NAMES[option] if option < len(ACTION_NAMES) else f"skill {option - len(ACTION_NAMES)}"
        num_steps = info.get("num_steps", 1)
        say(console, f"\n{task}: ", (what, "bold"), "" if num_steps == 1 else f", {num_steps} steps")
        say(console, str(env.render()))
    say(console, "all done" if info["success"] else "not all done", "\n")


def played_table(found: "dict[str, Played]") -> Table:
    """Returns a table of scores with one column for each way to choose options."""
    table = Table("options", *found)
    for column in table.columns[1:]:
        column.justify = "right"
    for heading, field, factor in (
        ("levels solved, %", "success", 100),
        ("reward", "reward", 1),
        ("steps", "num_steps", 1),
        ("decisions", "num_decisions", 1),
        ("of these skills, %", "skill_share", 100),
    ):
        table.add_row(heading, *(f"{factor * getattr(played, field):.1f}" for played in found.values()))
    return table
