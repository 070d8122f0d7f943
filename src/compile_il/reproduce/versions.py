"""Records of which versions of the program trained a folder's checkpoints: those that score may be others."""

import contextlib
import json
from pathlib import Path
from typing import Any

from compile_il.files import replace_file
from compile_il.results import commit

FILE = "commits.json"
UNKNOWN_VERSION = "unknown"
"""Name in place of the commit of versions that did not write down that they had trained."""


def commits_of(folder: Path) -> list[str]:
    """Returns the commits that trained the checkpoints in a folder, the first one first; "unknown" without a record."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / FILE).read_text())
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return found
    return [UNKNOWN_VERSION]


def sign(folder: Path, earlier: list[str]) -> list[str]:
    """Records this version beside earlier ones, and returns all; to be called before what it has trained is kept."""
    commits = list(dict.fromkeys([*earlier, commit()]))
    if commits != earlier:
        with replace_file(folder / FILE) as temporary:
            temporary.write_text(json.dumps(commits) + "\n")
    return commits


def all_commits(part: dict[str, Any]) -> list[str]:
    """Returns the commits in a part's result: those that trained it, if others did, then the one that scored it."""
    return [*part.get("trained_by", []), part["commit"]]
