"""Tables of documents, made from the files under `results/`; no number in them is typed by hand.

A document holds a pair of marks, `<!-- table: NAME -->` and `<!-- end of table -->`; what stands between is made here.

    python -m experiments.tables.__main__ README.md docs/results.md
"""

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path

from compile_il.data.files import write_atomically
from experiments.tables import scores, speed

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

TABLES: dict[str, Callable[[], str]] = {
    "without-labels": scores.without_labels,
    "reacher-summary": scores.reacher_summary,
    "exact-without-labels": scores.exact_without_labels,
    "exact-unknown-count": scores.exact_unknown_count,
    "learned-lengths": scores.learned_lengths,
    "visit-oracle": scores.visit_oracle,
    "durations": scores.durations,
    "meaning": scores.meaning,
    "stations": scores.stations,
    "relaxed-pickup": scores.relaxed_pickup,
    "way-points": scores.way_points,
    "low-temperatures": scores.low_temperatures,
    "low-temperatures-full-width": scores.low_temperatures_full_width,
    "lowest-temperature-full-width": scores.lowest_temperature_full_width,
    "cut-gradients": scores.cut_gradients,
    "told-gaussian": scores.told_gaussian,
    "told-gaussian-experts": scores.told_gaussian_experts,
    "variants": scores.variants,
    "window": scores.window,
    "agents": scores.agents,
    "agent-rates": scores.agent_rates,
    "speed": speed.speed,
    "speed-worlds": speed.speed_of_worlds,
    "speed-exact": functools.partial(speed.speed_of_training, "exact"),
    "speed-relaxed": functools.partial(speed.speed_of_training, "relaxed"),
    "speed-hierarchy": speed.speed_of_agents,
    "first-minute": speed.first_minute,
    "symbols": speed.symbols,
}


def refresh(text: str) -> str:
    """Returns a document's text with every table made anew."""

    def make(match: re.Match[str]) -> str:
        return match.group(1) + TABLES[match.group(2)]() + match.group(3)

    return _BLOCK.sub(make, text)


def main(paths: list[str]) -> None:
    """Makes the tables of some documents anew, in place."""
    for path in map(Path, paths):
        fresh = refresh(path.read_text())
        with write_atomically(path) as temporary:
            temporary.write_text(fresh)


if __name__ == "__main__":
    main(sys.argv[1:])
