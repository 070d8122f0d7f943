"""Chooses between the two ways to infer boundaries and skills, which offer the same functions."""

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
    """Interface of the modules `exact.engine` and `relaxed.engine`; settings are resolved (`Config.resolved`)."""

    DECODER: Decoder
    """The default decoder."""
    FINDS_COUNTS: bool
    """Whether the number of segments may be unknown."""
    MAY_BE_EMPTY: bool
    """Whether the last segments may be empty, so that there may be more segments than steps."""
    WORLD_RATE: float | None
    """Expected length of a segment where a world makes the demonstrations; None for the mean of the data."""

    def make_skills(self, config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> Any:
        """Returns networks before training."""

    def make_losses(self, config: Config, rate: float) -> Losses:
        """Returns the training loss; `rate` is the expected length of a segment in steps."""

    def decode(
        self, skills: Any, config: Config, rate: float, batch: Batch, log_counts: Float[Array, "B counts"], best: Best
    ) -> BatchSegments:
        """Segments a batch, given log p(M) of each demonstration."""

    def check_decodable(self, config: Config, best: Best | None) -> None:
        """Refuses models that cannot be decoded by this engine, and values of `best` that it does not have."""

    def check_labels(self, labels: PartialLabels, counts: NDArray[np.integer]) -> None:
        """Refuses labels that the engine cannot use; `counts` are numbers of segments."""

    def cost_of(self, config: Config) -> Cost:
        """Returns the time to decode a demonstration as a function of its steps, in any unit."""


ENGINES: dict[str, Engine] = {"exact": exact, "relaxed": relaxed}
"""The engine of each kind of inference, `Config.inference`."""
DECODERS: dict[Decoder, Engine] = {"exact": exact, "recognition": relaxed}
"""The engine of each decoder; the exact one decodes skills of either engine."""
