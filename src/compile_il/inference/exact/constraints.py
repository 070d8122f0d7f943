"""What is known about the segments of one demonstration before it is looked at, and what that leaves possible.

Labels of steps remove segments that contradict them, wherever these stand in the order. Codes of segments name the
skills in order without saying where they are, so that the value of a segment depends on its number:

    S^i(t', t) = S_{z_i}(t', t) where z_i is named, else log Σ_k exp S_k(t', t)
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from compile_il.data.labels import NO_SEGMENT, UNKNOWN
from compile_il.inference.records import LOG_ZERO


class Constraints(NamedTuple):
    """What is known about one demonstration, as sums that tell in O(1) whether a segment contradicts it."""

    length: Int[Array, ""]
    """Number of steps that are real; the rest is padding."""
    may_cut: Bool[Array, " times"]
    """Whether a segment may end (and the next begin) before step t."""
    num_cuts: Int[Array, " times"]
    """Number of boundaries known to lie at steps 1..t; a segment over one of them is impossible."""
    num_refused: Int[Array, "times K"]
    """Number of steps before t that are known not to be skill k."""
    num_segments: Int[Array, ""]
    """Number of segments, or `UNKNOWN`."""
    segment_codes: Int[Array, " listed"]
    """Skill of the first segment, the second, ..., or `UNKNOWN`; no entries where no codes in order are known."""


def no_constraints(length: Int[Array, ""], num_steps: int, num_skills: int) -> Constraints:
    """What is known of a demonstration without labels: every segmentation is possible."""
    return Constraints(
        length=length,
        may_cut=jnp.ones((num_steps + 1,), bool),
        num_cuts=jnp.zeros((num_steps + 1,), jnp.int32),
        num_refused=jnp.zeros((num_steps + 1, num_skills), jnp.int32),
        num_segments=jnp.array(UNKNOWN),
        segment_codes=jnp.zeros((0,), jnp.int32),
    )


def constraints_from_labels(
    length: Int[Array, ""],
    boundaries: Int[Array, " T"],
    codes: Int[Array, " T"],
    segment_codes: Int[Array, " listed"],
    num_skills: int,
) -> Constraints:
    """What partial labels of steps and of segments tell about one demonstration.

    Args:
      length: number of steps that are real.
      boundaries: for each step 1 (a segment starts), 0 (none does) or `UNKNOWN`.
      codes: for each step a skill or `UNKNOWN`.
      segment_codes: for each segment in order a skill or `UNKNOWN`, then `NO_SEGMENT` up to the end; without a
        `NO_SEGMENT`, there may be further segments.
      num_skills: number of skills, K.
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


def segment_codes_of(known: Constraints, max_segments: int) -> Int[Array, " listed"]:
    """Known skills in order, `UNKNOWN` where there is none, for `max_segments` segments; empty if no list is known."""
    if known.segment_codes.shape[0] == 0:
        return known.segment_codes
    missing = max(max_segments - known.segment_codes.shape[0], 0)
    return jnp.pad(known.segment_codes[:max_segments], (0, missing), constant_values=UNKNOWN)


def by_segment(
    by_skill: Float[Array, "*times K"], over_skills: Float[Array, "*times"], segment_codes: Int[Array, " listed"]
) -> Float[Array, "*times columns"]:
    """S^i(t', t), what [t', t) is worth as the i-th segment: S_{z_i} where its skill is known, S where it is not.

    One column for each segment; without known codes a single one, which serves them all.
    """
    if segment_codes.shape[0] == 0:
        return over_skills[..., None]
    # A skill that there is not is worth nothing.
    told = jnp.take(by_skill, segment_codes, axis=-1, mode="fill", fill_value=LOG_ZERO)
    return jnp.where(segment_codes == UNKNOWN, over_skills[..., None], told)


def known_or(
    skill: Int[Array, ""], segment_index: Int[Array, ""], segment_codes: Int[Array, " listed"]
) -> Int[Array, ""]:
    """Known skill of a segment; where none is known, the given `skill`."""
    if segment_codes.shape[0] == 0:
        return skill
    return jnp.where(segment_codes[segment_index] == UNKNOWN, skill, segment_codes[segment_index])


def feasible_counts(log_count: Float[Array, " counts"], known: Constraints) -> Float[Array, " counts"]:
    """Log p(M), `LOG_ZERO` at numbers of segments that are known to be wrong."""
    agrees = (known.num_segments == UNKNOWN) | (jnp.arange(log_count.shape[0]) == known.num_segments)
    return jnp.where(agrees, log_count, LOG_ZERO)
