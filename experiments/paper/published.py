"""Lists the numbers that the paper prints: tables 1 to 3, mean and standard deviation of 5 runs, in per cent.

Its figures 4 and 7 are drawings without numbers.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """Row of a table of the paper: mean and standard deviation of each score, in per cent."""

    boundary_accuracy: tuple[float, float]
    f1: tuple[float, float]
    f1_tolerance_1: tuple[float, float]


_SURPRISAL = {3: Row((24.8, 0.6), (39.0, 0.3), (47.1, 0.4)), 5: Row((21.6, 0.5), (44.9, 0.5), (54.4, 0.5))}
_UNSUPERVISED = Row((62.0, 4.5), (74.3, 3.3), (78.9, 2.5))

PAPER: dict[str, dict[str, dict[int, Row]]] = {
    "table1": {
        "LSTM surprisal": _SURPRISAL,
        "CompILE": {3: _UNSUPERVISED, 5: Row((41.7, 8.0), (69.3, 4.7), (74.0, 4.6))},
        "z-CompILE": {3: Row((99.5, 0.2), (99.7, 0.2), (99.8, 0.1)), 5: Row((98.4, 0.5), (99.3, 0.2), (99.8, 0.1))},
        "b-CompILE": {3: Row((99.8, 0.1), (99.9, 0.1), (100.0, 0.0)), 5: Row((98.8, 0.3), (99.5, 0.1), (99.8, 0.1))},
    },
    "table2": {
        "LSTM surprisal": _SURPRISAL,
        "CompILE": {3: Row((45.2, 13.8), (59.3, 12.1), (68.8, 8.1)), 5: Row((28.7, 7.0), (56.4, 9.1), (63.8, 6.5))},
        "z-CompILE": {3: Row((99.6, 0.2), (99.6, 0.1), (99.9, 0.1)), 5: Row((98.3, 0.5), (99.2, 0.3), (99.7, 0.1))},
        "b-CompILE": {3: Row((99.8, 0.1), (99.9, 0.1), (99.9, 0.0)), 5: Row((98.5, 0.3), (99.3, 0.2), (99.7, 0.1))},
    },
    "table3": {
        "M=3": {3: _UNSUPERVISED},
        "M=4": {3: Row((53.4, 6.3), (66.6, 5.5), (75.3, 3.1))},
        "M=5": {3: Row((29.8, 6.1), (47.3, 5.5), (65.6, 2.9))},
        "temperature=1.0": {3: _UNSUPERVISED},
        "temperature=0.1": {3: Row((40.9, 5.3), (55.3, 5.7), (67.0, 2.4))},
        "temperature=0.01": {3: Row((36.3, 6.0), (50.3, 5.2), (66.4, 3.6))},
    },
}
"""Rows of the paper's tables, by table, model and number of tasks."""


def printed(study: str, model: str, tasks: int, score: str) -> str:
    """Returns a score of a model as the paper prints it, always on the reacher; a dash where it prints none."""
    row = PAPER.get(study, {}).get(model, {}).get(tasks)
    return "-" if row is None or score not in Row._fields else "{:.1f} ± {:.1f}".format(*getattr(row, score))
