"""Tables in Markdown."""


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown; all columns but the first hold numbers and are aligned to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, rule, *rows])
