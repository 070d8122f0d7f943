"""Which versions of the program have trained what a folder of checkpoints holds: those that score may be others."""

import contextlib
import json
from pathlib import Path
from typing import Any

from compile_il.files import replace_file
from compile_il.results import commit

FILE = "commits.json"
UNKNOWN_VERSION = "unknown"
"""Stands for those that did not write down that they were at work."""


def commits_of(folder: Path) -> list[str]:
    """Those that have trained the checkpoints in a folder that has some, the first one first."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / FILE).read_text())
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return found
    return [UNKNOWN_VERSION]


def sign(folder: Path, earlier: list[str]) -> list[str]:
    """Adds this version to earlier ones; to be called before what it has trained is kept."""
    commits = list(dict.fromkeys([*earlier, commit()]))
    if commits != earlier:
        with replace_file(folder / FILE) as temporary:
            temporary.write_text(json.dumps(commits) + "\n")
    return commits


def all_commits(part: dict[str, Any]) -> list[str]:
    """Of a part's result: those that trained it, if others did, then the one that scored it."""
    return [*part.get("trained_by", []), part["commit"]]
