"""What exact training maximises: the mean log-likelihood of demonstrations under all their segmentations."""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from compile_il.batches import Batch
from compile_il.exact import decode, recursion, streaming, streaming_decode
from compile_il.exact.decode import Segmentation
from compile_il.exact.known import Known, known_from_labels
from compile_il.exact.recursion import Posterior
from compile_il.exact.scores import Priors, StepScores

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
    known: Known


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
    return Scored(skills.score_steps(batch), known_in(batch, skills.num_skills))


def known_in(batch: Batch, num_skills: int) -> Known:
    """What the labels of each demonstration of a batch tell, by `known_from_labels`."""
    labels = (batch.lengths, batch.boundary_labels, batch.code_labels, batch.segment_codes)
    return jax.vmap(functools.partial(known_from_labels, num_skills=num_skills))(*map(jnp.asarray, labels))


def log_likelihoods(
    skills: Scoring, batch: Batch, priors: Priors, log_count: Float[Array, " counts"]
) -> Float[Array, " B"]:
    """Log p(a | s) of each demonstration."""
    steps, known = score_batch(skills, batch)
    log_likelihood = recursion_for(steps.log_policy.shape[1]).log_likelihood
    return jax.vmap(log_likelihood, in_axes=(0, None, 0, None))(steps, priors, known, log_count)
