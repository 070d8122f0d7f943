"""The command `compile-il`."""

import importlib.metadata
import sys
from typing import Any

import tyro
from rich.console import Console

from compile_il.cli.console import Interrupted, command_line, printed_warnings, say, user_errors
from compile_il.cli.learn import Play, Rl, Train
from compile_il.cli.show import Evaluate, Report, Segment
from compile_il.cli.worlds import Demo, Generate

DESCRIPTION = """Demonstrations in, skills out.

Learns skills from demonstrations, after CompILE (Kipf et al., ICML 2019).
`compile-il COMMAND --help` lists options, `compile-il --version` prints the version."""

Command = Demo | Generate | Train | Segment | Evaluate | Report | Rl | Play
"""Commands, each with its class's name in lower case."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command in the arguments, by default those of the process."""
    run_program(Command, "compile-il", DESCRIPTION, sys.argv[1:] if arguments is None else arguments)


def run_program(commands: Any, program: str, description: str, arguments: list[str]) -> None:
    """Parses arguments into a dataclass, or one of a union, and runs it; reports errors and interruptions."""
    if arguments == ["--version"]:
        print(f"compile-il {importlib.metadata.version('compile-il')}")
        return
    try:
        with user_errors(), printed_warnings():
            flags = (tyro.conf.FlagCreatePairsOff,)
            command = tyro.cli(commands, prog=program, description=description, args=arguments, config=flags)
            command.run(Console())
            return
    except Interrupted as interrupt:
        message = f" {interrupt.words}: {command_line([*arguments, *interrupt.more], program)}"
    except KeyboardInterrupt:
        message = "; nothing half-written is left behind"
    say(Console(stderr=True), ("stopped", "bold"), message)
    sys.exit(130)
