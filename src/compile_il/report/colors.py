"""One colour for each skill, the same all over a page."""

import functools

import numpy as np
from jaxtyping import Float

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
"""Colours for up to ten skills, told apart on white and on black; further ones are computed."""
DARK_INK, LIGHT_INK = "#0d1117", "#ffffff"
_PAPERS = ("#fbfaf7", "#ffffff", "#12161c", "#1a2028")
"""Backgrounds in both colour schemes of `page.css`; no skill's colour may come near them."""
_LIGHTNESS, _CHROMA, _NUM_HUES = np.linspace(0.42, 0.82, 12), np.linspace(0.03, 0.24, 8), 72
"""Grid of the colours to choose from, dark, light and pale ones too: hues alone are too few for thirty skills."""


@functools.cache
def skill_colors(num_skills: int) -> tuple[str, ...]:
    """Returns as many colours, "#rrggbb", as there are skills; the first ones are the same for every number.

    Each further colour is the one of a large choice that is farthest from all before and from the paper, in Oklab,
    where distances are about as the eye sees them.
    """
    chosen = list(FIRST[:num_skills])
    if num_skills <= len(FIRST):
        return tuple(chosen)
    choice = _candidates()
    place = _oklab(choice)
    taken = _oklab(np.array([_rgb(color) for color in (*chosen, *_PAPERS)]))
    distance = np.min(np.linalg.norm(place[:, None] - taken, axis=-1), axis=1)
    while len(chosen) < num_skills:
        best = int(distance.argmax())
        chosen.append(_hex(choice[best]))
        distance = np.minimum(distance, np.linalg.norm(place - place[best], axis=1))
    return tuple(chosen)


def color_css(num_skills: int) -> str:
    """Returns a CSS class for each skill, `k0`, `k1`, ..., that sets its colour `--c` and the ink `--on` on it."""
    rules = [f".k{k}{{--c:{color};--on:{ink_on(color)}}}" for k, color in enumerate(skill_colors(num_skills))]
    return "\n".join(rules)


def ink_on(color: str) -> str:
    """Returns dark or light ink for writing on a colour: light where its contrast is high enough or the better one."""
    dark, light = (_contrast(color, ink) for ink in (DARK_INK, LIGHT_INK))
    # White reads better than the formula says on saturated colours: it need only reach 4.
    return LIGHT_INK if light >= 4 or light >= dark else DARK_INK


def _contrast(one: str, other: str) -> float:
    """Returns the contrast ratio of two colours by WCAG 2, from 1 to 21."""
    low, high = sorted(float(_linear(_rgb(color)) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def _candidates() -> Float[np.ndarray, "n 3"]:
    """Returns colours all round the circle of hues, as far as a screen can show them."""
    hue = np.linspace(0, 2 * np.pi, _NUM_HUES, endpoint=False)
    lightness, chroma, hue = map(np.ravel, np.meshgrid(_LIGHTNESS, _CHROMA, hue, indexing="ij"))
    rgb = _from_oklab(np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1))
    return np.clip(rgb[((rgb > -0.02) & (rgb < 1.02)).all(axis=1)], 0, 1)


# Ottosson's Oklab (2020): linear light to cone responses, their cube roots to lightness and two axes of colour.
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def _oklab(rgb: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    return np.cbrt(_linear(rgb) @ _TO_CONES.T) @ _TO_LAB.T


def _from_oklab(lab: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    linear = (lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_CONES).T
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 0) ** (1 / 2.4) - 0.055)


def _linear(rgb: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def _rgb(color: str) -> Float[np.ndarray, "3"]:
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _hex(rgb: Float[np.ndarray, "3"]) -> str:
    return "#" + "".join(f"{round(255 * float(value)):02x}" for value in rgb)
