"""The command `compile-il`."""

import importlib.metadata
import os
import sys
from typing import Annotated, Any

import tyro
from rich.console import Console

from compile_il.cli.console import Interrupted, command_line, printed_warnings, stop, user_errors
from compile_il.cli.data import Generate, Segment
from compile_il.cli.demo import Demo
from compile_il.cli.learn import Rl, Train
from compile_il.cli.show import Evaluate, Play, Report

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
)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that was typed."""
    run_program(Command, "compile-il", DESCRIPTION, sys.argv[1:] if arguments is None else arguments)


def run_program(commands: Any, program: str, description: str, arguments: list[str]) -> None:
    """Parses arguments into a command, a dataclass with a method `run`, and runs it; errors end in one sentence.

    Args:
      commands: the dataclass, or a union of several as subcommands.
      program: its name in help texts.
      description: the first lines of the help text.
      arguments: what was typed after the name.
    """
    if arguments == ["--version"]:
        print(f"compile-il {importlib.metadata.version('compile-il')}")
        return
    try:
        with user_errors(), printed_warnings():
            command = tyro.cli(
                commands, prog=program, description=description, args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
            )
            command.run(Console())
    except BrokenPipeError:  # whoever reads, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Interrupted as interrupt:
        stop(f" {interrupt.words}: {command_line([*arguments, *interrupt.more], program)}")
    except KeyboardInterrupt:
        stop("; nothing half-written is left behind")
