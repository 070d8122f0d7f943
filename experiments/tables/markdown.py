"""Writes tables in Markdown, and lists those that documents can have."""

from collections.abc import Callable

TABLES: dict[str, Callable[[], str]] = {}
"""Functions that make a table, by the name that documents have for it."""


def table(make: Callable[[], str]) -> Callable[[], str]:
    """Lists a function that makes a table under its own name, with hyphens."""
    TABLES[make.__name__.replace("_", "-")] = make
    return make


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown; all columns but the first hold numbers and are aligned to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, rule, *rows])
