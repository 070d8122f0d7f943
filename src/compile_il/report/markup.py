"""Writes HTML and SVG as strings in which all text is escaped, and gives each skill a color."""

import functools
import html
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NO_BREAK = "\u00a0"


EMPTY_TAGS = frozenset({"br", "meta", "img", "rect", "circle", "line", "path", "polyline", "use"})
"""Elements that need no end tag while they hold nothing; those of SVG may also hold a tooltip."""


def text(words: object) -> str:
    """Returns words from data with all characters escaped that mean something in HTML."""
    return html.escape(str(words), quote=True)


def tag(name: str, /, *inner: str, **attributes: object) -> str:
    """Returns an element around markup that is ready; attributes are escaped here.

    `class_` stands for `class`, other underscores for hyphens; `view_box` and `preserve_aspect_ratio` are spelt as SVG
    spells them. Attributes that are None are left out.
    """
    given = "".join(
        f' {_attribute(key)}="{text(number(value))}"' for key, value in attributes.items() if value is not None
    )
    if not inner and name in EMPTY_TAGS:
        return f"<{name}{given}>" if name in ("br", "meta", "img") else f"<{name}{given}/>"
    return f"<{name}{given}>{''.join(inner)}</{name}>"


def _attribute(key: str) -> str:
    spelt = {"class_": "class", "view_box": "viewBox", "preserve_aspect_ratio": "preserveAspectRatio"}
    return spelt.get(key, key.replace("_", "-"))


def number(value: object) -> object:
    """Returns floats with at most three decimals, as drawings need no more; anything else as it is."""
    if isinstance(value, float | np.floating):
        short = f"{value:.3f}".rstrip("0").rstrip(".")
        return "0" if short == "-0" else short
    return value


def tooltip(words: str) -> str:
    """Returns a tooltip, which is shown where the pointer rests on the drawn thing that holds it."""
    return tag("title", text(words))


def picture(width: float, height: float, *inner: str, label: str, class_: str | None = None) -> str:
    """Returns an SVG drawing that keeps its proportions, with words for those who cannot see it."""
    box = f"0 0 {number(float(width))} {number(float(height))}"
    return tag("svg", *inner, view_box=box, role="img", aria_label=label, class_=class_)


def stretched(width: float, height: float, *inner: str, label: str | None, class_: str) -> str:
    """Returns an SVG drawing that fills its place whatever its proportions; for marks along time, never for words.

    Without a label it is hidden from screen readers: something beside it says the same in words.
    """
    box = f"0 0 {number(float(width))} {number(float(height))}"
    aria = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", *inner, view_box=box, preserve_aspect_ratio="none", class_=class_, **aria)


def scrolling(table: str, label: str) -> str:
    """Returns a box for a table that may be wider than the page, reached and scrolled from the keyboard too."""
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def points(xy: NDArray[np.floating] | Sequence[Sequence[float]]) -> str:
    """Returns the coordinates of a polyline as SVG writes them."""
    return " ".join(f"{number(float(x))},{number(float(y))}" for x, y in np.asarray(xy, float).tolist())


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


def styled(**places: float) -> str:
    """Returns a CSS style of positions, in per cent."""
    return ";".join(f"{key}:{number(float(value))}%" for key, value in places.items())


FIRST = (
    "#2f7bd0",
    "#e8771c",
    "#2f9e5b",
    "#a34fc6",
    "#d93b63",
    "#169cab",
    "#d3a20c",
    "#8a6350",
    "#e58bb0",
    "#98989e",
)
"""Colors of the first ten skills, distinct on white and on black."""


DARK_INK, LIGHT_INK = "#0d1117", "#ffffff"
_PAPERS = ("#fbfaf7", "#ffffff", "#12161c", "#1a2028")
"""Backgrounds in both color schemes of `page.css`, which no skill's color may come near."""


@functools.cache
def skill_colors(num_skills: int) -> tuple[str, ...]:
    """Returns a color "#rrggbb" for each skill; the first ones are the same for every number of skills.

    Each further color is the one of a grid that is farthest from all before and from the paper.
    """
    colors = list(FIRST[:num_skills])
    grid = np.array(list(itertools.product(range(24, 256, 24), repeat=3)))
    distance = np.min([np.abs(grid - _rgb(color)).sum(axis=1) for color in (*FIRST, *_PAPERS)], axis=0)
    while len(colors) < num_skills:
        farthest = grid[distance.argmax()]
        colors.append("#" + "".join(f"{value:02x}" for value in farthest))
        distance = np.minimum(distance, np.abs(grid - farthest).sum(axis=1))
    return tuple(colors)


def color_css(num_skills: int) -> str:
    """Returns a CSS class for each skill, `k0`, `k1`, ..., that sets its color `--c` and the ink `--on` on it."""
    rules = [f".k{k}{{--c:{color};--on:{ink_on(color)}}}" for k, color in enumerate(skill_colors(num_skills))]
    return "\n".join(rules)


def ink_on(color: str) -> str:
    """Returns dark or light ink for writing on a color: light where its contrast is high enough or the better one."""
    dark, light = (_contrast(color, ink) for ink in (DARK_INK, LIGHT_INK))
    # White reads better than the formula says on saturated colors: it need only reach 4.
    return LIGHT_INK if light >= 4 or light >= dark else DARK_INK


def _contrast(one: str, other: str) -> float:
    """Returns the contrast ratio of two colors by WCAG 2, from 1 to 21."""
    low, high = sorted(_luminance(color) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    rgb = _rgb(color) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _rgb(color: str) -> NDArray[np.int64]:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
