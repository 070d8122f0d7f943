"""`compile-il train`: skills from demonstrations, or from a world that makes them."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from compile_il.cli.console import say
from compile_il.cli.resumable import resumable, say_where
from compile_il.config import Config

if TYPE_CHECKING:
    from compile_il.demos import Demonstrations
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
        """Trains, and says where the model is."""
        from compile_il.fit import fit
        from compile_il.parallel import all_or_none, is_first_process, join_hosts
        from compile_il.training_log import read_log

        if self.coordinator is not None:
            join_hosts(self.coordinator, num_hosts=self.num_hosts, host=self.host)
        elif self.num_hosts is not None or self.host is not None:
            raise ValueError(
                "Several hosts need to find each other: name the first one, --coordinator first-host:1234."
            )
        with all_or_none():
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
        from compile_il.sources import training_world

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
    """Returns what a person named where demonstrations are needed: the name of a world, or what is in a file."""
    from compile_il.demos import Demonstrations
    from compile_il.worlds import WORLDS

    if source in WORLDS:
        return source
    if not Path(source).suffix and not Path(source).exists():
        raise ValueError(f"{source} is neither a file nor a world: name a file, or one of {', '.join(WORLDS)}.")
    return Demonstrations.load(source)
