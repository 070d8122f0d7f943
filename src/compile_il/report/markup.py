"""Writes HTML and SVG as strings in which all text is escaped, and gives each skill a color."""

import functools
import html
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

NO_BREAK = "\u00a0"
VOID_TAGS = frozenset({"br", "meta", "img"})
EMPTY_TAGS = VOID_TAGS | {"rect", "circle", "line", "path", "polyline", "use"}
"""Elements that need no end tag while they hold nothing; those of SVG may also hold a tooltip."""
SPELLINGS = {"class_": "class", "view_box": "viewBox", "preserve_aspect_ratio": "preserveAspectRatio"}
"""Attributes whose names are not those of Python with hyphens."""


def text(words: object) -> str:
    """Escapes all characters that mean something in HTML."""
    return html.escape(str(words), quote=True)


def tag(name: str, /, *inner: str, **attributes: object) -> str:
    """Returns an element around markup that is ready; attributes are escaped here, and left out where they are None."""
    pairs = ((SPELLINGS.get(key, key.replace("_", "-")), value) for key, value in attributes.items())
    start = name + "".join(f' {key}="{text(number(value))}"' for key, value in pairs if value is not None)
    if not inner and name in EMPTY_TAGS:
        return f"<{start}>" if name in VOID_TAGS else f"<{start}/>"
    return f"<{start}>{''.join(inner)}</{name}>"


def number(value: object) -> object:
    """Returns floats with at most three decimals, as drawings need no more; anything else as it is."""
    if isinstance(value, float | np.floating):
        short = f"{value:.3f}".rstrip("0").rstrip(".")
        return "0" if short == "-0" else short
    return value


def drawing(
    width: float,
    height: float,
    *inner: str,
    label: str | None = None,
    class_: str | None = None,
    stretched: bool = False,
) -> str:
    """Returns an SVG drawing with words for those who cannot see it; without these it is hidden from screen readers.

    One that is stretched fills its place whatever its proportions: for marks along time, never for words.
    """
    return tag(
        "svg",
        *inner,
        view_box=f"0 0 {number(width)} {number(height)}",
        preserve_aspect_ratio="none" if stretched else None,
        class_=class_,
        role=label and "img",
        aria_label=label,
        aria_hidden=None if label else "true",
    )


def table(label: str, class_: str, heads: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Returns a table of markup that may be wider than the page, and is then scrolled, from the keyboard too.

    Args:
      label: words for those who cannot see it.
      class_: its CSS class.
      heads: headings of the columns, that of the rows' headings first.
      rows: heading and cells, as `td`, of each row.
    """
    top = tag("tr", *(tag("th", head, scope="col") if head else tag("td") for head in heads))
    lines = [tag("tr", tag("th", head, scope="row"), *cells) for head, cells in rows]
    whole = tag("table", tag("thead", top), tag("tbody", *lines), class_=class_)
    return tag("div", whole, class_="scroll", role="region", aria_label=label, tabindex=0)


def section(heading: str, note: str, *body: str, level: str = "h3") -> str:
    """Returns a part of the page under a heading, with a note on what it shows."""
    return tag("section", tag(level, text(heading)), tag("p", text(note), class_="note") if note else "", *body)


def points(xy: NDArray[np.floating]) -> str:
    """Returns the coordinates of a polyline as SVG writes them."""
    return " ".join(f"{number(x)},{number(y)}" for x, y in np.asarray(xy, float).tolist())


def per_cent(share: float | None, decimals: int = 1) -> str:
    """Writes a share, such as `99.6 %`; a dash for no number. What is not quite all never reads as 100 %."""
    if share is None or not np.isfinite(share):
        return "–"
    rounded = f"{100 * share:.{decimals}f}"
    if share < 1 and float(rounded) == 100:
        return f">{NO_BREAK}{100 - 10.0**-decimals:.{decimals}f}{NO_BREAK}%"
    return f"{rounded}{NO_BREAK}%"


def count(num: int, noun: str, plural: str | None = None) -> str:
    """Writes a number with its noun, such as `1 step` and `1,024 steps`."""
    return f"{num:,}{NO_BREAK}{noun if num == 1 else plural or noun + 's'}"


FIRST = ("#2f7bd0", "#e8771c", "#2f9e5b", "#a34fc6", "#d93b63", "#169cab", "#d3a20c", "#8a6350", "#e58bb0", "#98989e")
"""Colors of the first ten skills, distinct on white and on black."""
PAPERS = ("#fbfaf7", "#ffffff", "#12161c", "#1a2028")
"""Backgrounds in both color schemes of `page.css`, which no skill's color may come near."""
DARK_INK, LIGHT_INK = "#0d1117", "#ffffff"
LEAST_CONTRAST = 4.0
"""Least contrast of light ink; white reads better than the formula says on saturated colors."""


@functools.cache
def skill_colors(num_skills: int) -> tuple[str, ...]:
    """Returns a color "#rrggbb" for each skill; the first ones are the same for every number of skills.

    Each further color is the one of a grid that is farthest from all before and from the paper.
    """
    colors = list(FIRST[:num_skills])
    grid = np.array(list(itertools.product(range(24, 256, 24), repeat=3)))
    distance = np.min([np.abs(grid - _rgb(color)).sum(axis=1) for color in (*FIRST, *PAPERS)], axis=0)
    while len(colors) < num_skills:
        farthest = grid[distance.argmax()]
        colors.append("#" + bytes(farthest.tolist()).hex())
        distance = np.minimum(distance, np.abs(grid - farthest).sum(axis=1))
    return tuple(colors)


def color_css(num_skills: int) -> str:
    """Returns a CSS class for each skill, `k0`, `k1`, ..., that sets its color `--c` and the ink `--on` on it."""
    rules = [f".k{k}{{--c:{color};--on:{ink_on(color)}}}" for k, color in enumerate(skill_colors(num_skills))]
    return "\n".join(rules)


def ink_on(color: str) -> str:
    """Returns light ink for writing on a color where its contrast by WCAG 2 is high enough, else dark ink."""
    rgb = _rgb(color) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return LIGHT_INK if 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05) >= LEAST_CONTRAST else DARK_INK


def _rgb(color: str) -> NDArray[np.int64]:
    return np.array([*bytes.fromhex(color[1:])])
