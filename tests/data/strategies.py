"""Small demonstrations of every kind, for Hypothesis."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN

SHAPES = {"grid": (2, 3, 2), "vector": (3,), "symbol": (), "no states": (0,)}
Arrays = list[np.ndarray]
SegmentCodes = list[list[int] | None]


@dataclass(frozen=True)
class Recipe:
    """What demonstrations are made of. Tests build them, outside of Hypothesis' drawing."""

    observations: Arrays
    actions: Arrays
    num_actions: int | None
    boundaries: Arrays | None
    codes: Arrays | None
    label_boundaries: Arrays | None
    label_codes: Arrays | None
    segment_codes: SegmentCodes | None

    def build(self) -> Demonstrations:
        return Demonstrations.from_arrays(
            self.observations,
            self.actions,
            num_actions=self.num_actions,
            boundaries=self.boundaries,
            codes=self.codes,
        ).with_labels(self.label_boundaries, self.label_codes, self.segment_codes)


@st.composite
def recipes(draw: Any, max_episodes: int = 4, max_steps: int = 5, segment_codes: bool = True) -> Recipe:
    """Any kind of observation and action, with and without truth and labels."""
    lengths = draw(st.lists(st.integers(1, max_steps), min_size=1, max_size=max_episodes))
    shape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    frame_dtype = np.int32 if shape == () else np.float32
    if len(shape) == 3:
        frame_dtype = draw(st.sampled_from([np.uint8, np.float32]))
    discrete = draw(st.booleans())
    action_shape = () if discrete else (draw(st.integers(1, 2)),)
    boundaries = [np.array(sorted(draw(st.sets(st.integers(1, max(T - 1, 1)))) - {T}), int) for T in lengths]
    codes = [draw(hnp.arrays(np.int64, len(inner) + 1, elements=st.integers(0, 9))) for inner in boundaries]
    # Code labels may change at any step here, so boundary labels are 0 at step 0 only.
    starts = [draw(hnp.arrays(np.int64, T, elements=st.sampled_from([UNKNOWN, 1]))) for T in lengths]
    for start in starts:
        start[0] = 0
    code_labels = [draw(hnp.arrays(np.int64, T, elements=st.integers(UNKNOWN, 3))) for T in lengths]
    # Codes of as many segments as the boundary labels make, or more, contradict nothing unless steps have codes.
    label_starts, label_codes = draw(st.sampled_from([starts, None])), draw(st.sampled_from([code_labels, None]))
    label_segment_codes = None
    if segment_codes and label_codes is None and draw(st.booleans()):
        least = [1 + (0 if label_starts is None else int((start == 1).sum())) for start in starts]
        sizes = [draw(st.integers(low, T)) for low, T in zip(least, lengths, strict=True)]
        codes_of_segments = [draw(st.lists(st.integers(UNKNOWN, 3), min_size=n, max_size=n)) for n in sizes]
        label_segment_codes = [draw(st.sampled_from([listed, None])) for listed in codes_of_segments]
    return Recipe(
        observations=[draw(_arrays(frame_dtype, (T + 1, *shape))) for T in lengths],
        actions=[draw(_arrays(np.int32 if discrete else np.float32, (T, *action_shape))) for T in lengths],
        num_actions=260 if discrete else None,
        boundaries=draw(st.sampled_from([boundaries, None])),
        codes=draw(st.sampled_from([codes, None])),
        label_boundaries=label_starts,
        label_codes=label_codes,
        segment_codes=label_segment_codes,
    )


def _arrays(dtype: type, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    elements = st.floats(-1e6, 1e6, width=32) if dtype is np.float32 else st.integers(0, 255)
    return hnp.arrays(dtype, shape, elements=elements)
