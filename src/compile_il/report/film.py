"""A film strip of images: what was seen where a demonstration began, and where each of its segments ended."""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped, UInt8
from numpy.typing import NDArray

from compile_il.demos import Demonstration
from compile_il.report.markup import tag, text
from compile_il.report.runs import Run

_MAX_PICTURES = 9
_MAX_SIDE = 64
"""Pixels along a side of a picture; larger ones are averaged down."""
_FEW = 4
"""Pictures that have room to be larger."""
_COLOURS = 3


def draw_film(demo: Demonstration, runs: Sequence[Run]) -> str:
    """Pictures with the colour of the skill that has just ended; of other than three channels, their mean in grey."""
    shown = runs[: _MAX_PICTURES - 1]
    steps = [0, *(run.end for run in shown)]
    skills = [None, *(run.code for run in shown)]
    cells = [
        tag(
            "figure", _image(pixels, step), tag("figcaption", text(step)), class_=f"frame k{skill}" if step else "frame"
        )
        for step, skill, pixels in zip(steps, skills, _pixels(demo.observations[steps]), strict=True)
    ]
    words = "What is seen at the first step, and where each segment ends"
    words += f": the first {len(shown)} of {len(runs)}" if len(shown) < len(runs) else ""
    grey = "" if demo.observations.shape[-1] == _COLOURS else "; mean of the channels"
    return tag("div", *cells, class_="film few" if len(cells) <= _FEW else "film") + tag(
        "p", f"{words}{grey}", class_="note"
    )


def _image(pixels: UInt8[np.ndarray, "H W 3"], step: int) -> str:
    address = f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"
    return tag("img", src=address, alt=f"Observation at step {step}")


def _pixels(frames: Shaped[np.ndarray, "N H W C"]) -> UInt8[np.ndarray, "N h w 3"]:
    """Colours from dark to light over all frames; images of bytes as they are, unless they hold ones only."""
    values = frames.astype(float)
    if values.shape[-1] != _COLOURS:
        values = np.repeat(values.mean(axis=-1, keepdims=True), _COLOURS, axis=-1)
    if frames.dtype != np.uint8 or frames.max() <= 1 or frames.shape[-1] != _COLOURS:
        spread = np.ptp(values)
        values = 255 * (values - values.min()) / (spread if spread > 0 else 1.0)
    for axis in (1, 2):
        values = _averaged_down(values, axis)
    return values.round().astype(np.uint8)


def _averaged_down(values: NDArray[np.floating], axis: int) -> NDArray[np.floating]:
    side = values.shape[axis]
    starts = np.arange(0, side, -(-side // _MAX_SIDE))
    sizes = np.diff([*starts, side]).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    means: NDArray[np.floating] = np.add.reduceat(values, starts, axis=axis) / sizes
    return means


def png(pixels: UInt8[np.ndarray, "H W 3"]) -> bytes:
    """An image file of colours, of the simplest kind there is (Portable Network Graphics, section 11)."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    bits, true_colour = 8, 2
    header = struct.pack(">IIBBBBB", width, height, bits, true_colour, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # each row says first that it is not filtered
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
