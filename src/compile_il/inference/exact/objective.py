"""Whether labels and settings leave any segmentation at all, told before anything is trained.

What exact training maximises: the mean log-likelihood of demonstrations under all their segmentations.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from compile_il.data import Demonstrations
from compile_il.data.batch import Batch, batch_of, pick, rows_filled_up
from compile_il.inference.exact import decode, recursion, streaming, streaming_decode
from compile_il.inference.exact.constraints import Constraints, constraints_from_labels
from compile_il.inference.exact.decode import Segmentation
from compile_il.inference.exact.recursion import Posterior
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.log_space import is_impossible
from compile_il.inference.records import StepScores

LONGEST_DENSE = 256
"""Largest number of steps for which the dense recursion, faster and hungrier for memory, is used."""


class Recursion(NamedTuple):
    """Functions of one way to sum over all segmentations of a demonstration: dense or streaming."""

    log_likelihood: Callable[..., Float[Array, ""]]
    posterior: Callable[..., Posterior]
    best_segmentation: Callable[..., Segmentation]
    best_boundaries: Callable[..., Segmentation]
    sample_segmentation: Callable[..., Segmentation]


DENSE = Recursion(
    recursion.log_likelihood,
    recursion.posterior,
    decode.best_segmentation,
    decode.best_boundaries,
    decode.sample_segmentation,
)


STREAMING = Recursion(
    streaming.log_likelihood,
    streaming.posterior,
    streaming_decode.best_segmentation,
    streaming_decode.best_boundaries,
    streaming_decode.sample_segmentation,
)


def recursion_for(max_length: int) -> Recursion:
    """The recursion for demonstrations of up to `max_length` steps; both give the same, but may draw other samples."""
    return DENSE if max_length <= LONGEST_DENSE else STREAMING


class Scored(NamedTuple):
    """Step scores of each demonstration of a batch, padded, and what is known about it."""

    steps: StepScores
    known: Constraints


@runtime_checkable
class Scoring(Protocol):
    """Networks that score frames for the recursion."""

    @property
    def num_skills(self) -> int:
        """Number of skills, K."""

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores of each step of each demonstration, [B, T, K]."""


def score_batch(skills: Scoring, batch: Batch) -> Scored:
    """Scores of a batch's steps by the networks, and what is known about each demonstration."""
    return Scored(skills.score_steps(batch), constraints_of_batch(batch, skills.num_skills))


def constraints_of_batch(batch: Batch, num_skills: int) -> Constraints:
    """What the labels of each demonstration of a batch tell, by `constraints_from_labels`."""
    labels = (batch.lengths, batch.boundary_labels, batch.code_labels, batch.segment_codes)
    return jax.vmap(functools.partial(constraints_from_labels, num_skills=num_skills))(*map(jnp.asarray, labels))


def log_likelihoods(
    skills: Scoring, batch: Batch, priors: Priors, log_count: Float[Array, " counts"]
) -> Float[Array, " B"]:
    """Log p(a | s) of each demonstration."""
    steps, known = score_batch(skills, batch)
    log_likelihood = recursion_for(steps.log_policy.shape[1]).log_likelihood
    return jax.vmap(log_likelihood, in_axes=(0, None, 0, None))(steps, priors, known, log_count)


_DEMOS_PER_CALL = 64


def feasible(
    demos: Demonstrations, num_skills: int, longest: int, log_count: Float[Array, " counts"]
) -> Bool[np.ndarray, " B"]:
    """For each demonstration, whether some number of segments, boundaries and skills agree with its labels.

    The recursion with scores that say nothing: its likelihood is zero where nothing agrees.
    """
    max_length, num_rows = demos.max_length, min(len(demos), _DEMOS_PER_CALL)
    priors = Priors(jnp.zeros((num_skills,)), jnp.zeros((min(longest, max_length) + 1,)))
    parts = []
    for first in range(0, len(demos), num_rows):
        some = demos[first : first + num_rows]
        batch = pick(batch_of(some, some.num_frames, max_length), rows_filled_up(len(some), num_rows))
        # Without frames, of which each part has another number: one program does for all parts.
        labels = batch._replace(frames=batch.frames[:0], actions=batch.actions[:0])
        parts.append(~np.asarray(is_impossible(_log_ways(labels, priors, log_count, num_skills)))[: len(some)])
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnums=3)
def _log_ways(batch: Batch, priors: Priors, log_count: Float[Array, " counts"], num_skills: int) -> Float[Array, " B"]:
    num_steps = batch.boundary_labels.shape[1]
    nothing = StepScores(*(jnp.zeros((num_steps, num_skills)),) * 3)
    log_likelihood = recursion_for(num_steps).log_likelihood
    each = jax.vmap(log_likelihood, in_axes=(None, None, 0, None))
    return each(nothing, priors, constraints_of_batch(batch, num_skills), log_count)
