"""The command `compile-il`."""

import importlib.metadata
import os
import sys
from typing import Annotated

import tyro
from rich.console import Console

from compile_il.cli.console import Interrupted, command_line, mistakes_told, stop, warnings_told
from compile_il.cli.demo import Demo
from compile_il.cli.evaluate import Evaluate
from compile_il.cli.generate import Generate
from compile_il.cli.play import Play
from compile_il.cli.report import Report
from compile_il.cli.reproduce import Reproduce
from compile_il.cli.rl import Rl
from compile_il.cli.segment import Segment
from compile_il.cli.train import Train

DESCRIPTION = """Demonstrations in, skills out.

Finds the skills inside demonstrations, after CompILE (Kipf et al., ICML 2019).
`compile-il COMMAND --help` tells more, `compile-il --version` the version."""

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Generate, tyro.conf.subcommand("generate")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Segment, tyro.conf.subcommand("segment")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Rl, tyro.conf.subcommand("rl")]
    | Annotated[Play, tyro.conf.subcommand("play")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that was typed; mistakes of the user end in one sentence, not in a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"compile-il {importlib.metadata.version('compile-il')}")
        return
    try:
        with mistakes_told(), warnings_told():
            command = tyro.cli(
                Command,
                prog="compile-il",
                description=DESCRIPTION,
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
            command.run(Console())
    except BrokenPipeError:  # whoever reads, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Interrupted as interrupt:
        stop(f" {interrupt.words}: {command_line([*arguments, *interrupt.more])}")
    except KeyboardInterrupt:
        stop("; nothing half-written is left behind")
