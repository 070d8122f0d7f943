"""One kind of loss for the trainer, whichever way boundaries and skills are inferred."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int, Key

from compile_il.batches import Batch
from compile_il.config import Config
from compile_il.counts import unknown_count
from compile_il.exact.objective import log_likelihoods
from compile_il.exact.recursion import exactly
from compile_il.loss import Loss
from compile_il.priors import make_priors
from compile_il.relaxed.objective import RelaxedSettings, relaxed_losses
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.skills import Skills


@runtime_checkable
class Losses(Protocol):
    """A function that gives what training minimises, for one seed."""

    def __call__(self, skills: Any, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        """Loss of each demonstration; keys are for what is drawn for it, the iteration for what is annealed."""


def make_losses(config: Config, rate: float) -> Losses:
    """Returns the losses that settings ask for.

    Args:
      config: the settings.
      rate: expected length of a segment in steps.
    """
    if config.inference == "relaxed":
        return _relaxed(config, rate)
    count = config.num_segments
    unknown = unknown_count(config.max_segments, config.segment_cost)
    log_count = unknown if count is None else exactly(count, count)

    def losses(skills: Skills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        del keys, iteration  # nothing is drawn, and nothing changes on the way
        priors = make_priors(config, skills, rate, batch.boundary_labels.shape[1])
        likelihoods = log_likelihoods(skills, batch, priors, log_count)
        return Loss(-likelihoods, terms={})

    return losses


def _relaxed(config: Config, rate: float) -> Losses:
    assert config.num_segments is not None, "settings are checked"
    settings = RelaxedSettings(
        num_segments=config.num_segments,
        rate=rate,
        beta_codes=config.beta_codes,
        beta_boundaries=config.beta_boundaries,
        readout=config.readout,
        boundary_term=config.boundary_term,
    )

    def losses(skills: RelaxedSkills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        return relaxed_losses(skills, batch, keys, temperature_at(config, iteration), settings)

    return losses


def temperature_at(config: Config, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """Temperature τ in an iteration, fixed, or falling to its final value by the same factor each time."""
    first = config.temperature
    final = first if config.final_temperature is None else config.final_temperature
    return first * (final / first) ** (iteration / max(config.num_iterations - 1, 1))
