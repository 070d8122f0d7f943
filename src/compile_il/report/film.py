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
"""Most pixels along a side of a picture; larger ones are averaged down."""
_FEW = 4
"""Most pictures of a film that leave each other room to be larger."""
_COLOURS = 3
_WHITE = 255


def draw_film(demo: Demonstration, runs: Sequence[Run]) -> str:
    """Draws pictures over the colour of the skill that has just ended; channels that are no colours, as a grey mean."""
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
    grey = "" if _is_coloured(demo.observations) or demo.observations.shape[-1] == 1 else "; mean of the channels"
    return tag("div", *cells, class_="film few" if len(cells) <= _FEW else "film") + tag(
        "p", f"{words}{grey}", class_="note"
    )


def _image(pixels: UInt8[np.ndarray, "H W 3"], step: int) -> str:
    address = f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"
    return tag("img", src=address, alt=f"Observation at step {step}")


def _pixels(frames: Shaped[np.ndarray, "N H W C"]) -> UInt8[np.ndarray, "N h w 3"]:
    """Returns pixels in bytes: values in bytes, or between 0 and 1, as those of an image; others from dark to light."""
    values = frames[..., :_COLOURS] if _is_coloured(frames) else frames.mean(axis=-1, keepdims=True, dtype=float)
    values = np.broadcast_to(values, (*values.shape[:-1], _COLOURS)).astype(float)
    low, high = float(frames.min()), float(frames.max())
    if low >= 0 and high <= 1:
        values = _WHITE * values
    elif low < 0 or high > _WHITE:
        spread = np.ptp(values)
        values = _WHITE * (values - values.min()) / (spread if spread > 0 else 1.0)
    stride = -(-max(values.shape[1:3]) // _MAX_SIDE)
    for axis in (1, 2):
        values = _averaged_down(values, axis, stride)
    return values.round().astype(np.uint8)


def _is_coloured(frames: Shaped[np.ndarray, "N H W C"]) -> bool:
    """Whether channels are red, green and blue, and perhaps how opaque they are."""
    return frames.shape[-1] in (_COLOURS, _COLOURS + 1)


def _averaged_down(values: NDArray[np.floating], axis: int, stride: int) -> NDArray[np.floating]:
    side = values.shape[axis]
    starts = np.arange(0, side, stride)
    sizes = np.diff([*starts, side]).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    means: NDArray[np.floating] = np.add.reduceat(values, starts, axis=axis) / sizes
    return means


def png(pixels: UInt8[np.ndarray, "H W 3"]) -> bytes:
    """Returns an image file of the simplest kind with these colours (Portable Network Graphics, section 11)."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    bits, true_colour = 8, 2
    header = struct.pack(">IIBBBBB", width, height, bits, true_colour, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # each row says first that it is not filtered
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
