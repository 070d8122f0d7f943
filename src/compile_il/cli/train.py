"""`compile-il train`: skills from demonstrations, or from a world that makes them."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from compile_il.cli.console import say
from compile_il.config import Config

if TYPE_CHECKING:
    from compile_il.demos import Demonstrations


@dataclasses.dataclass(frozen=True)
class Train:
    """Find skills in demonstrations.

    compile-il train grid-pickup --num-segments 3 --num-skills 10 --out runs/pickup
    compile-il train mine.npz --num-segments None --out runs/mine
    """

    source: tyro.conf.Positional[str]
    """A file of demonstrations, or the name of a world, of which fresh ones are made in each step."""
    out: Path
    """The folder for the log, checkpoints and the model."""
    resume: bool = False
    """Go on with the run in that folder, from its last checkpoint."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints."""
    config: Annotated[Config, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Config)

    def run(self, console: Console) -> None:
        """Trains, and says where the model is."""
        from compile_il.fit import Stopped, fit
        from compile_il.training_log import read_log

        demos = demonstrations_or_world(self.source)
        try:
            fit(
                demos,
                config=self.config,
                out=self.out,
                resume=self.resume,
                checkpoint_seconds=self.checkpoint_seconds,
            )
        except Stopped as stopped:
            again = [*sys.argv[1:], *([] if self.resume else ["--resume"])]
            words = str(stopped).partition(" To go on")[0]
            raise KeyboardInterrupt(f"{words} To go on: compile-il {' '.join(again)}") from stopped
        last = read_log(self.out)[-1]
        accuracy = last["boundary_accuracy"]
        boundaries = "" if accuracy is None else f", {100 * accuracy:.1f} % of true boundaries hit"
        kept = f"seed {last['seed']} of {self.config.num_seeds} kept; " if self.config.num_seeds > 1 else ""
        say(
            console,
            f"{last['iteration']} iterations, {last['seconds']:.0f} s; {kept}held-out log-likelihood "
            f"{last['held_out_log_likelihood']:.2f}{boundaries}",
        )
        say(console, "The model: ", (str(self.out), "bold"), f"; curves: tensorboard --logdir {self.out}")


def demonstrations_or_world(source: str) -> "Demonstrations | str":
    """What a person may name where demonstrations are needed: a world, or a file."""
    from compile_il.demos import Demonstrations
    from compile_il.worlds import WORLDS

    if source in WORLDS:
        return source
    if not Path(source).suffix and not Path(source).exists():
        raise ValueError(f"{source} is neither a file nor a world: name a file, or one of {', '.join(WORLDS)}.")
    return Demonstrations.load(source)
