"""Labels of steps as codes of segments, those of a single segment, which has no boundary to label, among them."""

import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.data.labels import UNKNOWN, PartialLabels
from compile_il.data.validation import DemonstrationError
from compile_il.inference.relaxed.engine import check_labels
from compile_il.inference.relaxed.supervision import supervision_from_labels


def ends_and_codes(
    boundaries: list[int], codes: list[int], count: int, num_segments: int
) -> tuple[list[int], list[int]]:
    no_segment_codes = jnp.zeros(0, jnp.int32)
    labels = jnp.array(boundaries), jnp.array(codes), no_segment_codes, jnp.array(count)
    found = supervision_from_labels(jnp.array(len(codes)), *labels, num_segments)
    return found.ends.tolist(), found.codes.tolist()


@pytest.mark.parametrize("boundaries", [[UNKNOWN] * 4, [0] * 4])
def test_the_code_of_a_single_segment_is_that_of_its_steps(boundaries: list[int]) -> None:
    assert ends_and_codes(boundaries, [2] * 4, count=1, num_segments=3) == ([4, 4, 4], [2, UNKNOWN, UNKNOWN])
    assert ends_and_codes(boundaries, [2] * 4, count=1, num_segments=1) == ([4], [2])
    assert ends_and_codes(boundaries, [UNKNOWN] * 4, count=1, num_segments=1) == ([4], [UNKNOWN])


def test_any_step_gives_the_code_of_its_segment() -> None:
    starts = [0, 0, 1, 0, 1, 0]
    assert ends_and_codes(starts, [-1, 3, -1, 2, -1, -1], count=3, num_segments=4) == (
        [2, 4, 6, 6],
        [3, 2, UNKNOWN, UNKNOWN],
    )
    assert ends_and_codes([UNKNOWN] * 4, [-1, 2, -1, -1], count=1, num_segments=1) == ([4], [2])
    assert ends_and_codes([UNKNOWN] * 6, [-1, 3, -1, 2, -1, -1], count=3, num_segments=3)[1] == [UNKNOWN] * 3


def test_several_codes_within_a_segment_are_refused() -> None:
    starts = np.array([UNKNOWN, UNKNOWN, 1, UNKNOWN])
    check_labels(PartialLabels([starts], [np.array([1, UNKNOWN, 2, 2])]), np.array([2]))
    with pytest.raises(DemonstrationError, match=r"demonstration 0 give codes \[1, 2\] within segment 1"):
        check_labels(PartialLabels([starts], [np.array([0, 0, 1, 2])]), np.array([2]))


def test_codes_of_steps_need_the_boundaries_between_them() -> None:
    labels = PartialLabels([np.zeros(4, int)], [np.full(4, 2)])
    check_labels(labels, np.array([1]))
    with pytest.raises(DemonstrationError, match="give 0 of 1 boundaries"):
        check_labels(labels, np.array([2]))
    with pytest.raises(DemonstrationError, match=r"0 of 1 boundaries: .* not of steps"):
        check_labels(PartialLabels([np.full(4, UNKNOWN)], [np.full(4, 2)]), np.array([2]))
