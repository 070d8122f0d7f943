"""Tables in Markdown."""


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """All columns but the first are numbers and stand to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, rule, *rows])
