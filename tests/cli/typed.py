"""The command in this process, as a person types it."""

import pytest

from compile_il.cli import main


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a command that must end in an error, and returns what it says, in one line."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code not in (0, None)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return " ".join((captured.out + captured.err).replace("│", " ").split())


def refuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The same for an error that is one of ours: one line, which starts with `error:`."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
