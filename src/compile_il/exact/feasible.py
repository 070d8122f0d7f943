"""Whether labels and settings leave any segmentation at all, told before anything is trained."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from compile_il.batches import Batch, batch_of, pick, rows_filled_up
from compile_il.demos import Demonstrations
from compile_il.exact.objective import known_in, recursion_for
from compile_il.exact.scores import Priors, StepScores
from compile_il.log_space import is_impossible

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
    return each(nothing, priors, known_in(batch, num_skills), log_count)
