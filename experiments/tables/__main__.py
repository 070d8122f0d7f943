"""Makes the tables of documents from the files under `results/`; no number in them is typed by hand.

A document holds a pair of marks, `<!-- table: NAME -->` and `<!-- end of table -->`; what stands between is made here.

    python -m experiments.tables README.md docs/*.md
"""

import re
import sys
from pathlib import Path

from compile_il.data.files import write_atomically
from experiments.tables import scores, speed  # noqa: F401, they list their tables
from experiments.tables.markdown import TABLES

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def refresh(text: str) -> str:
    """Returns a document's text with every table made anew."""
    return _BLOCK.sub(lambda match: match.group(1) + TABLES[match.group(2)]() + match.group(3), text)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        fresh = refresh(path.read_text())
        with write_atomically(path) as temporary:
            temporary.write_text(fresh)
