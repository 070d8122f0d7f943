"""Choose between the two ways to infer boundaries and skills, which offer the same functions."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from compile_il.config import Best, Config, Decoder
from compile_il.data.batch import Batch, Cost
from compile_il.data.labels import PartialLabels
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.exact import engine as exact
from compile_il.inference.records import BatchSegments, Losses
from compile_il.inference.relaxed import engine as relaxed


class Engine(Protocol):
    """Functions that the modules `exact.engine` and `relaxed.engine` offer under the same names.

    Settings are resolved ones (`Config.resolved`).
    """

    DECODER: Decoder
    """The decoder that segments if no other is asked for."""
    FINDS_COUNTS: bool
    """Whether the number of segments may be unknown."""
    MAY_BE_EMPTY: bool
    """Whether the last segments may be empty, so that there may be more segments than steps."""

    def make_skills(self, config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> Any:
        """Returns untrained networks of the sizes that settings ask for."""

    def make_losses(self, config: Config, rate: float) -> Losses:
        """Returns the losses that settings ask for, with the expected length of a segment in steps."""

    def decode(
        self, skills: Any, config: Config, rate: float, batch: Batch, log_counts: Float[Array, "B counts"], best: Best
    ) -> BatchSegments:
        """Segments a batch, with log p(M) of each demonstration."""

    def check_decodable(self, config: Config, best: Best | None) -> None:
        """Refuses models that cannot be decoded in this way, and what `best` cannot mean."""

    def check_labels(self, labels: PartialLabels, counts: NDArray[np.integer]) -> None:
        """Refuses labels that are of no use, with the number of segments of each demonstration."""

    def cost_of(self, config: Config) -> Cost:
        """Returns the time that a demonstration takes by its number of steps, in any unit."""

    def expected_length(self, mean: float, *, fresh: bool) -> float:
        """Returns the expected length of a segment, from the data's mean and whether a world makes the data."""

    def annealed(self, config: Config, iteration: int) -> dict[str, float]:
        """Returns what changes in the course of training, by name, for the log."""


def engine_of(config: Config) -> Engine:
    """Returns the engine that settings ask for."""
    engines: dict[str, Engine] = {"exact": exact, "relaxed": relaxed}
    return engines[config.inference]


def engine_for(decoder: Decoder) -> Engine:
    """Returns the engine that has a decoder; that of sums takes skills of either engine."""
    engines: dict[str, Engine] = {"exact": exact, "recognition": relaxed}
    return engines[decoder]
