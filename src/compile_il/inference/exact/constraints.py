"""Turns labels of one demonstration into constraints on its segments, which can be checked in O(1) for each segment.

Labels of steps remove segments that contradict them. Codes of segments name skills in order without their places, so
that the value of a segment depends on its number:

    S^i(t', t) = S_{z_i}(t', t) where z_i is labelled, else log Σ_k exp S_k(t', t)
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from compile_il.data.labels import NO_SEGMENT, UNKNOWN
from compile_il.inference.records import LOG_ZERO


class Constraints(NamedTuple):
    """Constraints on the segments of one demonstration, as sums over its steps."""

    length: Int[Array, ""]
    """Number of steps that are real; the rest is padding."""
    may_cut: Bool[Array, " times"]
    """Whether a segment may end (and the next begin) before step t."""
    num_cuts: Int[Array, " times"]
    """Number of boundaries labelled at steps 1..t; a segment over one of them is impossible."""
    num_refused: Int[Array, "times K"]
    """Number of steps before t whose label is not skill k."""
    num_segments: Int[Array, ""]
    """Number of segments, or `UNKNOWN`."""
    segment_codes: Int[Array, " listed"]
    """Skill of the first segment, the second, ..., or `UNKNOWN`; no entries without labels of this kind."""


def constraints_from_labels(
    length: Int[Array, ""],
    boundaries: Int[Array, " T"],
    codes: Int[Array, " T"],
    segment_codes: Int[Array, " listed"],
    num_skills: int,
) -> Constraints:
    """Returns the constraints of partial labels of one demonstration.

    Boundaries are 1 (a segment starts), 0 (none does) or `UNKNOWN`, for each step. Codes of segments are followed by
    `NO_SEGMENT`, or without one, by any number of further segments.
    """
    ends = jnp.append(segment_codes == NO_SEGMENT, False)
    cut = jnp.append(boundaries == 1, False).at[0].set(False)
    refused = (codes[:, None] != UNKNOWN) & (codes[:, None] != jnp.arange(num_skills))
    return Constraints(
        length=length,
        may_cut=jnp.append(boundaries != 0, True).at[0].set(True),
        num_cuts=jnp.cumsum(cut.astype(jnp.int32)),
        num_refused=jnp.pad(jnp.cumsum(refused.astype(jnp.int32), axis=0), ((1, 0), (0, 0))),
        num_segments=jnp.where(jnp.any(ends), jnp.argmax(ends), UNKNOWN),
        segment_codes=jnp.where(segment_codes == NO_SEGMENT, UNKNOWN, segment_codes),
    )


def with_max_segments(constraints: Constraints, max_segments: int) -> Constraints:
    """Returns the constraints with a code or `UNKNOWN` for each of `max_segments` segments, unless there are none."""
    codes = constraints.segment_codes
    if codes.shape[0] == 0:
        return constraints
    missing = max(max_segments - codes.shape[0], 0)
    return constraints._replace(segment_codes=jnp.pad(codes[:max_segments], (0, missing), constant_values=UNKNOWN))


def feasible_counts(log_count: Float[Array, " counts"], constraints: Constraints) -> Float[Array, " counts"]:
    """Returns log p(M), with `LOG_ZERO` at numbers of segments that labels exclude."""
    agrees = (constraints.num_segments == UNKNOWN) | (jnp.arange(log_count.shape[0]) == constraints.num_segments)
    return jnp.where(agrees, log_count, LOG_ZERO)


def by_segment(
    by_skill: Float[Array, "*times K"], over_skills: Float[Array, "*times"], segment_codes: Int[Array, " listed"]
) -> Float[Array, "*times columns"]:
    """Returns S^i(t', t), one column for each segment i; without codes of segments, one column for all."""
    if segment_codes.shape[0] == 0:
        return over_skills[..., None]
    # Skills out of range are impossible.
    labelled = jnp.take(by_skill, segment_codes, axis=-1, mode="fill", fill_value=LOG_ZERO)
    return jnp.where(segment_codes == UNKNOWN, over_skills[..., None], labelled)


def label_or(
    skill: Int[Array, ""], segment_index: Int[Array, ""], segment_codes: Int[Array, " listed"]
) -> Int[Array, ""]:
    """Returns the labelled skill of a segment, or without a label `skill`."""
    if segment_codes.shape[0] == 0:
        return skill
    return jnp.where(segment_codes[segment_index] == UNKNOWN, skill, segment_codes[segment_index])
