"""What the commands that train share: a run that can be interrupted, and words on where it is."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from compile_il.cli.console import Interrupted, say


@contextlib.contextmanager
def resumable(out: Path, *, resumed: bool) -> Iterator[None]:
    """A block that trains in a folder; where Ctrl-C leaves a run there, a person is told how to go on."""
    from compile_il.runs import holds_run
    from compile_il.under_way import Stopped

    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not holds_run(out):
            raise
        where = interrupt.where if isinstance(interrupt, Stopped) else "at once; what was saved before is kept."
        raise Interrupted(f"{where} To go on", [] if resumed else ["--resume"]) from interrupt


def say_where(console: Console, what: str, out: Path) -> None:
    """Prints where the result is, and how to look at its curves."""
    say(console, f"{what}: ", (str(out), "bold"), f"; curves: tensorboard --logdir {shlex.quote(str(out))}")
