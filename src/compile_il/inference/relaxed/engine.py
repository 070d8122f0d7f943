"""Offers relaxed inference under the names of `compile_il.inference.engines.Engine`."""

import numpy as np
from jaxtyping import Array, Float, Int, Key
from numpy.typing import NDArray

from compile_il.config import Best, CompileError, Config, Decoder
from compile_il.data import DemonstrationError
from compile_il.data.batch import Batch, Cost
from compile_il.data.labels import PartialLabels
from compile_il.inference.records import BatchSegments, Loss, Losses
from compile_il.inference.relaxed.decode import decode_by_recognition
from compile_il.inference.relaxed.objective import relaxed_losses
from compile_il.inference.relaxed.skills import RelaxedSkills

DECODER: Decoder = "recognition"
FINDS_COUNTS = False
MAY_BE_EMPTY = True
WORLD_RATE: float | None = 3.0
"""The paper's rate λ of the Poisson prior over segment lengths, in steps, the same in all of its experiments."""
make_skills = RelaxedSkills


def make_losses(config: Config, rate: float) -> Losses:
    """Returns the paper's loss, at the temperature of each iteration."""

    def losses(skills: RelaxedSkills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        return relaxed_losses(skills, batch, keys, temperature_at(config, iteration), config, rate)

    return losses


def temperature_at(config: Config, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """Calculates the temperature τ in an iteration: fixed, or falling exponentially to its final value."""
    first = config.temperature
    final = first if config.final_temperature is None else config.final_temperature
    return first * (final / first) ** (iteration / max(config.num_iterations - 1, 1))


def decode(
    skills: RelaxedSkills, config: Config, rate: float, batch: Batch, log_counts: Float[Array, "B counts"], best: Best
) -> BatchSegments:
    """Segments a batch by the recognition model."""
    del best  # it finds one segmentation only
    return decode_by_recognition(skills, batch, log_counts, rate, config.readout)


def check_decodable(config: Config, best: Best | None) -> None:
    """Refuses models without a recognition model, and any value of `best`."""
    if config.inference != "relaxed":
        raise CompileError('This model has no recognition model: pass decoder="exact", or train one with "relaxed".')
    if best is not None:
        instead = "leave it out" if config.codes == "gaussian" else 'leave it out, or pass decoder="exact"'
        raise CompileError(f"best has no meaning for the recognition model: {instead}.")


def check_labels(labels: PartialLabels, counts: NDArray[np.integer]) -> None:
    """Refuses labels that the recognition model cannot use: it takes all boundaries or none, and codes by segment."""
    instead = 'give the rest, or use exact inference (inference="exact")'
    lists = labels.segment_codes or [np.zeros(0, int)] * len(counts)
    for i, (boundaries, by_step, segment_codes) in enumerate(zip(labels.boundaries, labels.codes, lists, strict=True)):
        given, inner = int(np.sum(boundaries == 1)), int(counts[i]) - 1
        if given != inner and ((boundaries[1:] >= 0).any() or (by_step >= 0).any()):
            raise DemonstrationError(
                f"The labels of demonstration {i} give {given} of {inner} boundaries: the recognition model needs all "
                f"of them or none, and without them codes of segments (segment_codes), not of steps; {instead}. If the "
                "number of segments differs, pass a list as num_segments."
            )
        for number, within in enumerate(np.split(by_step, np.flatnonzero(boundaries == 1))):
            if len(several := np.unique(within[within >= 0])) > 1:
                raise DemonstrationError(
                    f"The labels of demonstration {i} give codes {several.tolist()} within segment {number}: a segment "
                    "has one; change its codes or the boundaries."
                )
        if len(segment_codes) not in (0, counts[i]):
            raise DemonstrationError(
                f"The labels of demonstration {i} give codes of {len(segment_codes)} segments, and there are "
                f"{counts[i]}: change num_segments, or the labels."
            )


def cost_of(config: Config) -> Cost:
    """Returns the time of recurrent passes, in steps."""
    del config
    return float
