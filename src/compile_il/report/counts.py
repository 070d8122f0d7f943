"""How many segments were found, against how many there are, where the number was not given."""

import numpy as np

from compile_il.demos import Demonstrations
from compile_il.report.markup import count, per_cent, styled, tag, text
from compile_il.segments import Segments

_GIVEN = 0.9999
"""Least probability of one number of segments in a posterior that was told the number."""
_MAX_BARS = 24


def count_was_given(found: Segments) -> bool:
    """Whether every posterior over the number of segments has all its mass on one number."""
    return all(probs.max() > _GIVEN for probs in found.count_probs)


def draw_counts(found: Segments, demos: Demonstrations) -> str:
    """Draws how many demonstrations have 1, 2, ... segments, found and true; empty where the number was given."""
    if count_was_given(found):
        return ""
    mine = found.num_segments
    true = demos.truth.num_segments
    sure = float(np.mean([probs.max() for probs in found.count_probs]))
    words = f"The model was not told how many segments there are. On average it gives {per_cent(sure)} to the likeliest"
    words += " number."
    if true is not None:
        words += f" The number is right in {per_cent(float(np.mean(mine == true)))} of demonstrations."
    longest = int(max(mine.max(), 0 if true is None else true.max()))
    width = -(-longest // _MAX_BARS)
    groups = [range(first, min(first + width, longest + 1)) for first in range(1, longest + 1, width)]
    most = max(int(np.isin(counts, group).sum()) for counts in (mine, true) if counts is not None for group in groups)
    columns = []
    for group in groups:
        bars = [_bar(int(np.isin(mine, group).sum()), most, "found", group)]
        if true is not None:
            bars.append(_bar(int(np.isin(true, group).sum()), most, "true", group))
        name = str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}"
        columns.append(tag("div", tag("div", *bars, class_="pair"), tag("span", name), class_="column"))
    legend = tag("p", tag("i", class_="key found"), "found", class_="legend")
    if true is not None:
        legend = tag("p", tag("i", class_="key found"), "found", tag("i", class_="key true"), "true", class_="legend")
    return tag(
        "section",
        tag("h3", "How many segments"),
        tag("p", text(words), class_="note"),
        legend,
        tag("div", *columns, class_="counts"),
    )


def _bar(number: int, most: int, kind: str, group: range) -> str:
    segments = str(group[0]) if len(group) == 1 else f"{group[0]} to {group[-1]}"
    told = f"{count(number, 'demonstration')} with {segments} segments ({kind})"
    label = tag("span", f"{number:,}") if number else ""
    return tag("div", label, class_=f"bar {kind}", style=styled(height=100 * number / most), title=told)
