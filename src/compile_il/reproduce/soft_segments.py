"""How much each step of a demonstration belongs to each segment, as either engine sees it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Float

from compile_il.batches import Batch
from compile_il.exact.known import Known, segment_codes_of
from compile_il.exact.objective import score_batch
from compile_il.exact.recursion import end_probs, exactly, forward, tables_of
from compile_il.exact.scores import Priors, StepScores, centre, segment_values
from compile_il.relaxed.inference import Readout, infer_all
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.relaxed.told import counts_in, told_in
from compile_il.skills import Skills


@eqx.filter_jit
def relaxed_segment_probs(
    skills: RelaxedSkills,
    batch: Batch,
    gumbel: Float[Array, "B M times"],
    temperature: float,
    readout: Readout,
) -> Float[Array, "B M T"]:
    """P(t ∈ C_i) = [1 - F_i(t)] Π_{j<i} F_j(t), with F_i the cumulative sum of q(b_i) (paper, "Soft segment masks").

    Without noise and at temperature 1 these are the masks of q itself; with noise those of one relaxed sample, as
    training sees them.
    """
    told = told_in(batch, counts_in(batch, gumbel.shape[1]), gumbel.shape[1])
    found = infer_all(
        skills.recognition,
        skills.read(batch).inputs,
        jnp.asarray(batch.lengths),
        gumbel,
        told.ends,
        temperature=temperature,
        readout=readout,
    )
    return jnp.exp(found.log_segments[..., :-1])


@eqx.filter_jit
def exact_segment_probs(skills: Skills, batch: Batch, priors: Priors, num_segments: int) -> Float[Array, "B M T"]:
    """P(b_{i-1} <= t < b_i | a, s) for each segment i of each demonstration, all segmentations summed out."""
    steps, known = score_batch(skills, batch)
    return jax.vmap(posterior_segments, in_axes=(0, None, 0, None))(steps, priors, known, num_segments)


def posterior_segments(steps: StepScores, priors: Priors, known: Known, num_segments: int) -> Float[Array, "M T"]:
    """P(t ∈ C_i | a, s) = P(b_{i-1} <= t) - P(b_i <= t)."""
    by_skill = segment_values(centre(steps, known.length).steps, priors, known)
    values = tables_of(by_skill, logsumexp(by_skill, axis=-1), segment_codes_of(known, num_segments))
    alphas = forward(values, num_segments)
    ends = end_probs(alphas, values, known.length, exactly(num_segments, num_segments))
    reached = jnp.minimum(jnp.cumsum(ends, axis=1), 1.0)
    return jnp.maximum(reached[:-1] - reached[1:], 0.0)[:, :-1]


def no_noise(batch: Batch, num_segments: int) -> Float[Array, "B M times"]:
    """Returns zeros to be used in place of Gumbel noise, which gives the boundaries of q itself."""
    return jnp.zeros((batch.lengths.shape[0], num_segments, batch.boundary_labels.shape[1] + 1))
