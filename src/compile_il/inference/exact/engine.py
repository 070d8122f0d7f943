"""Offers exact inference under the names of `compile_il.inference.engines.Engine`.

Training maximises the log-likelihood of demonstrations under all their segmentations, log p(a | s).
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import NDArray

from compile_il.config import Best, CompileError, Config, Decoder
from compile_il.data import Demonstrations
from compile_il.data.batch import Batch, Cost, batch_of, pick, rows_filled_up
from compile_il.data.labels import PartialLabels
from compile_il.inference.exact.constraints import Constraints, constraints_from_labels
from compile_il.inference.exact.decode import best_boundaries, best_segmentation, sample_segmentation
from compile_il.inference.exact.likelihood import log_likelihood
from compile_il.inference.exact.segment_scores import Priors, point_mass, score_segments, unknown_count
from compile_il.inference.exact.skills import ExactSkills
from compile_il.inference.records import BatchSegments, Loss, Losses, Skills, StepScores, is_impossible

DECODER: Decoder = "exact"
FINDS_COUNTS = True
MAY_BE_EMPTY = False
WORLD_RATE: float | None = None
make_skills = ExactSkills


def make_priors(config: Config, skills: Skills, rate: float, max_length: int) -> Priors:
    """Returns priors over skills and segment lengths, for demonstrations of up to `max_length` steps."""
    longest = min(max_length, config.longest_segment or max_length)
    log_duration = skills.log_duration(rate, longest, config.longest_segment)
    return Priors(jnp.full((config.num_skills,), -jnp.log(config.num_skills)), log_duration)


def make_losses(config: Config, rate: float) -> Losses:
    """Returns the negative log-likelihood, with a prior on the number of segments where that is unknown."""
    count = config.num_segments
    unknown = unknown_count(config.max_segments, config.segment_cost)
    log_count = unknown if count is None else point_mass(count, count)

    def losses(skills: ExactSkills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        del keys, iteration  # nothing is drawn, and nothing changes on the way
        priors = make_priors(config, skills, rate, batch.boundary_labels.shape[1])
        return Loss(-map_batch(log_likelihood, skills, batch, priors, log_count), terms={})

    return losses


def decode(
    skills: Skills,
    config: Config,
    rate: float,
    batch: Batch,
    log_counts: Float[Array, "B counts"],
    best: Best | Literal["sample"],
    *keys: Key[Array, " B"],
) -> BatchSegments:
    """Segments a batch by sums over all segmentations, or draws samples with `keys`; skills may be relaxed ones."""
    find: Any = {"boundaries": best_boundaries, "path": best_segmentation, "sample": sample_segmentation}[best]
    priors = make_priors(config, skills, rate, batch.boundary_labels.shape[1])
    return _decode(find, skills, batch, priors, log_counts, *keys)


@eqx.filter_jit
def _decode(
    find: Callable[..., Any],
    skills: Skills,
    batch: Batch,
    priors: Priors,
    log_counts: Float[Array, "B counts"],
    *keys: Key[Array, " B"],
) -> BatchSegments:
    path, posterior = map_batch(find, skills, batch, priors, log_counts, *keys)
    return BatchSegments(path.num_segments, path.ends, path.skills, **posterior._asdict())


def check_decodable(config: Config, best: Best | None) -> None:
    """Refuses models whose segmentations cannot be summed over."""
    del best
    if config.codes == "gaussian":
        raise CompileError('Codes of real numbers cannot be summed over: pass decoder="recognition".')
    if config.forgetful:
        raise CompileError(f'{FORGETFUL}: pass decoder="recognition".')


FORGETFUL = "Segmentations cannot be summed over where policies forget: what a step is worth depends on where it began"


def check_labels(labels: PartialLabels, counts: NDArray[np.integer]) -> None:
    """Accepts all labels: any of them restrict the sums."""


def cost_of(config: Config) -> Cost:
    """Returns the number of segments that are summed over."""
    longest = config.longest_segment
    return lambda steps: float(steps) * (steps if longest is None else min(steps, longest))


def map_batch(
    function: Callable[..., Any], skills: Skills, batch: Batch, priors: Priors, log_count: Array, *more: Array
) -> Any:
    """Maps a function of `SegmentScores` over the demonstrations of a batch, with log p(M) of each or of all."""

    def each(steps: StepScores, constraints: Constraints, log_count: Array, *more: Array) -> Any:
        return function(score_segments(steps, priors, constraints, log_count), *more)

    in_axes = (0, 0, 0 if log_count.ndim == 2 else None, *[0] * len(more))
    constraints = constraints_of_batch(batch, skills.num_skills)
    return jax.vmap(each, in_axes)(skills.score_steps(batch), constraints, log_count, *more)


def constraints_of_batch(batch: Batch, num_skills: int) -> Constraints:
    """Returns the constraints that labels put on each demonstration of a batch."""
    labels = (batch.lengths, batch.boundary_labels, batch.code_labels, batch.segment_codes)
    return jax.vmap(functools.partial(constraints_from_labels, num_skills=num_skills))(*map(jnp.asarray, labels))


_DEMOS_PER_CALL = 64


def feasible(
    demos: Demonstrations, num_skills: int, longest: int, log_count: Float[Array, " counts"]
) -> Bool[np.ndarray, " B"]:
    """Returns, for each demonstration, whether any segmentation agrees with its labels.

    Where none does, the likelihood under scores of zero is zero.
    """
    max_length, num_rows = demos.max_length, min(len(demos), _DEMOS_PER_CALL)
    priors = Priors(jnp.zeros((num_skills,)), jnp.zeros((min(longest, max_length) + 1,)))
    steps, parts = StepScores(*(jnp.zeros((max_length, num_skills)),) * 3), []
    for first in range(0, len(demos), num_rows):
        some = demos[first : first + num_rows]
        batch = pick(batch_of(some.storage, some.num_frames, max_length), rows_filled_up(len(some), num_rows))
        # Without frames, of which each part has another number: one program does for all parts.
        labels = batch._replace(frames=batch.frames[:0], actions=batch.actions[:0])
        parts.append(~np.asarray(_is_impossible(labels, steps, priors, log_count))[: len(some)])
    return np.concatenate(parts)


@jax.jit
def _is_impossible(
    batch: Batch, steps: StepScores, priors: Priors, log_count: Float[Array, " counts"]
) -> Bool[Array, " B"]:
    def log_ways(constraints: Constraints) -> Float[Array, ""]:
        return log_likelihood(score_segments(steps, priors, constraints, log_count))

    return is_impossible(jax.vmap(log_ways)(constraints_of_batch(batch, steps.log_policy.shape[1])))
