"""Writes HTML and SVG as strings in which all text is escaped, and gives each skill a color."""

import html
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

NO_BREAK = "\u00a0"
VOID_TAGS = ("meta", "img")
"""HTML elements without an end tag."""
SPELLINGS = {"class_": "class", "view_box": "viewBox", "preserve_aspect_ratio": "preserveAspectRatio"}
"""Attributes whose names are not those of Python with hyphens."""


def text(words: object) -> str:
    """Escapes all characters that mean something in HTML."""
    return html.escape(str(words), quote=True)


def tag(name: str, /, *inner: str, **attributes: object) -> str:
    """Returns an element around markup; attributes are escaped, and left out where they are None."""
    pairs = ((SPELLINGS.get(key, key.replace("_", "-")), value) for key, value in attributes.items())
    start = name + "".join(f' {key}="{text(number(value))}"' for key, value in pairs if value is not None)
    return f"<{start}>" if name in VOID_TAGS else f"<{start}>{''.join(inner)}</{name}>"


def number(value: object) -> object:
    """Returns floats with at most three decimals, as drawings need no more; anything else as it is."""
    return f"{round(value, 3):g}" if isinstance(value, float | np.floating) else value


def drawing(
    width: float, height: float, *inner: str, label: str | None = None, class_: str, stretched: bool = False
) -> str:
    """Returns an SVG drawing with a label for screen readers; without a label it is hidden from them.

    A stretched drawing fills its place whatever its proportions: for marks along time, never for words.
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
    """Returns a table of markup, scrolled where it is wider than the page.

    The first heading is that of the headings of rows; the cells of a row are `td` elements.
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
    """Writes a share, such as `99.6 %`; a dash for no number. A share below 1 is never rounded to 100 %."""
    if share is None or not np.isfinite(share):
        return "–"
    rounded = f"{100 * share:.{decimals}f}"
    if share < 1 and float(rounded) == 100:
        rounded = f">{NO_BREAK}{100 - 10.0**-decimals:.{decimals}f}"
    return f"{rounded}{NO_BREAK}%"


def count(num: int, noun: str, plural: str | None = None) -> str:
    """Writes a number with its noun, such as `1 step` and `1,024 steps`."""
    return f"{num:,}{NO_BREAK}{noun if num == 1 else plural or noun + 's'}"


FIRST_COLORS = "2f7bd0 e8771c 2f9e5b a34fc6 d93b63 169cab d3a20c 8a6350 e58bb0 98989e"
"""Colors of the first ten skills, distinct on white and on black."""
BACKGROUNDS = "fbfaf7 ffffff 12161c 1a2028"
"""Backgrounds in both color schemes of `page.css`, which no skill's color may come near."""
DARK_INK, LIGHT_INK = "#0d1117", "#ffffff"
LIGHTEST_UNDER_WHITE = 0.2125
"""Highest luminance of a color on which white is written: a contrast of 4; WCAG 2 underrates white on such colors."""


def skill_colors(num_skills: int) -> list[str]:
    """Returns a color "#rrggbb" for each skill, the same for every number of skills.

    After the first ten, each is the color of a grid that is farthest from all before and from the backgrounds.
    """
    grid = np.array(list(itertools.product(range(24, 256, 24), repeat=3)))
    colors = [[*bytes.fromhex(color)] for color in BACKGROUNDS.split() + FIRST_COLORS.split()]
    num_backgrounds = len(BACKGROUNDS.split())
    while len(colors) < num_backgrounds + num_skills:
        colors.append(grid[cdist(grid, colors, "cityblock").min(axis=1).argmax()].tolist())
    return ["#" + bytes(color).hex() for color in colors[num_backgrounds:][:num_skills]]


def color_css(num_skills: int) -> str:
    """Returns a CSS class for each skill, `k0`, `k1`, ..., that sets its color `--c` and the ink `--on` on it."""
    return "\n".join(f".k{k}{{--c:{color};--on:{ink_on(color)}}}" for k, color in enumerate(skill_colors(num_skills)))


def ink_on(color: str) -> str:
    """Returns the ink for writing on a color, by its luminance (WCAG 2)."""
    linear = (np.array([*bytes.fromhex(color[1:])]) / 255) ** 2.2
    return LIGHT_INK if linear @ [0.2126, 0.7152, 0.0722] <= LIGHTEST_UNDER_WHITE else DARK_INK
