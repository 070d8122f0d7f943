"""Segments demonstrations with a trained model, and runs its skills."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.config import Best, CompileError, Config, Decoder
from compile_il.data import UNKNOWN, DemonstrationError, Demonstrations
from compile_il.data.batch import Batch, Cost, group_by_length, rounded_batch, rows_filled_up
from compile_il.data.demonstrations import not_demonstrations
from compile_il.data.labels import check_codes
from compile_il.data.segment_counts import Counts, broadcast_counts, counts_from_labels, has_unknown, warn_of_counts
from compile_il.data.segments import Segments
from compile_il.data.spaces import check_space
from compile_il.inference.engines import DECODERS, ENGINES
from compile_il.inference.exact import engine as exact
from compile_il.inference.exact.segment_scores import log_counts_of
from compile_il.inference.records import LOG_ZERO, BatchSegments, Skills
from compile_il.model.running import Code, RunningSkill
from compile_il.worlds.world import key_of

_DEMOS_PER_CALL, _STEPS_PER_CALL = 256, 1 << 16
Find = Callable[[Batch, Float[Array, "B counts"], NDArray[np.intp]], BatchSegments]
"""Function that segments a batch, given log p(M) of its demonstrations and their places among all of them."""
SegmentCount = int | Counts | Literal["unknown"] | None
"""Number of segments: one for all, one for each, "unknown", or None for that of labels or training."""


class DivergedError(DemonstrationError):
    """A model with weights that are NaN or infinite."""


@dataclasses.dataclass(frozen=True)
class Model:
    """Trained skills with their settings. Made by `cil.fit` or `cil.load`."""

    skills: Skills
    config: Config
    """Settings as given: `fit(demos, config=model.config, num_skills=20)` trains a model that differs in that alone."""
    resolved: Config
    """Settings as training used them, with values for defaults that depend on others or on labels."""
    duration_rate: float
    """Expected length of a segment in steps before training, from the settings or from the data."""
    world: str | None = None
    """Name of the world that made the demonstrations, if any."""

    @property
    def expected_length(self) -> float:
        """Expected length of a segment in steps, after training."""
        return self.skills.expected_length(self.duration_rate)

    def __repr__(self) -> str:
        config = self.resolved
        skills = f"codes of {config.code_dim} numbers" if config.codes == "gaussian" else f"{config.num_skills} skills"
        segments = "any number of" if config.num_segments is None else config.num_segments
        return f"Model({skills}, {segments} segments, {self.skills.space}, {config.inference})"

    def segment(
        self,
        demos: Demonstrations,
        num_segments: SegmentCount = None,
        *,
        decoder: Decoder | None = None,
        best: Best | None = None,
        max_segments: int | None = None,
    ) -> Segments:
        """Finds boundaries and skills in demonstrations.

        Args:
          demos: in the same spaces as those the model was trained on; labels they carry are respected.
          num_segments: number of segments, one for all or one per demonstration (None where it is unknown), or
            "unknown" to infer it; by default that of labels, and where they do not list segments, that of training.
          decoder: "exact" sums over all segmentations; "recognition" asks the recognition model for one segment after
            the other, as in the paper. By default that of training; relaxed training with categorical codes allows
            both.
          best: result of the exact decoder: the "boundaries" of which most can be expected to be right, with the most
            probable skill of each segment (the default), or the most probable "path" of boundaries and skills
            (Viterbi).
          max_segments: most segments to consider where their number is unknown; by default as in training.
        """
        decoder = self.choose_decoder(decoder, best)
        engine = DECODERS[decoder]
        log_counts = self.log_counts(demos, num_segments, decoder, max_segments)

        def find(batch: Batch, log_counts: Float[Array, "B counts"], _: NDArray[np.intp]) -> BatchSegments:
            settings = self.skills, self.resolved, self.duration_rate
            return engine.decode(*settings, batch, log_counts, best or "boundaries")

        found = segment_in_chunks(find, demos, log_counts, engine.cost_of(self.resolved))
        if isinstance(num_segments, str) or (num_segments is None and self.resolved.num_segments is None):
            warn_of_counts(found.num_segments, demos, max_segments or self.resolved.max_segments)
        return found

    def sample(
        self,
        demos: Demonstrations,
        num_segments: SegmentCount = None,
        *,
        seed: int = 0,
        max_segments: int | None = None,
    ) -> Segments:
        """Draws one segmentation of each demonstration from the exact posterior; arguments as of `segment`.

        Codes must be categorical.
        """
        if self.resolved.codes == "gaussian":
            raise CompileError(
                "Codes of real numbers cannot be summed over, and so there is no posterior to draw from: use segment, "
                'or train with codes="categorical".'
            )
        if self.resolved.forgetful:
            raise CompileError(f"{exact.FORGETFUL}, and so there is no posterior to draw from: use segment.")
        log_counts = self.log_counts(demos, num_segments, "exact", max_segments)
        keys = jax.random.split(key_of(seed), len(demos))

        def draw(batch: Batch, log_counts: Float[Array, "B counts"], places: NDArray[np.intp]) -> BatchSegments:
            settings = self.skills, self.resolved, self.duration_rate
            return exact.decode(*settings, batch, log_counts, "sample", keys[places])

        return segment_in_chunks(draw, demos, log_counts, exact.cost_of(self.resolved))

    def log_counts(
        self, demos: Demonstrations, num_segments: SegmentCount, decoder: Decoder, max_segments: int | None = None
    ) -> NDArray[np.float32]:
        """Returns log p(M) of each demonstration as a row; refuses demonstrations and arguments that do not fit."""
        if not isinstance(demos, Demonstrations):
            raise not_demonstrations(demos)
        check_space(demos, self.skills.space)
        if demos.labels is not None:
            check_codes(demos.labels, self.resolved)
        engine, trained_with = DECODERS[decoder], self.resolved.num_segments
        if num_segments is None:
            labelled = counts_from_labels(demos)
            num_segments = "unknown" if trained_with is None else np.where(labelled == UNKNOWN, trained_with, labelled)
        if isinstance(num_segments, str):
            if num_segments != "unknown":
                raise DemonstrationError(f'num_segments is {num_segments!r}: use a number, a list, or "unknown".')
            num_segments = [None] * len(demos)
        some_unknown = has_unknown(num_segments)
        if some_unknown and not engine.FINDS_COUNTS:
            instead = "" if self.resolved.codes == "gaussian" else ', or decoder="exact"'
            raise CompileError(f"The recognition model needs the number of segments: pass it{instead}.")
        most = self.resolved.max_segments
        if max_segments is not None:
            if not some_unknown:
                raise CompileError(
                    "max_segments has no meaning where the number of segments is given: leave it out, or pass "
                    '"unknown".'
                )
            most = dataclasses.replace(self.resolved, max_segments=max_segments).max_segments  # refuses what cannot be
        counts = broadcast_counts(num_segments, demos, some_unknown=True, some_empty=engine.MAY_BE_EMPTY)
        if demos.labels is not None:
            engine.check_labels(demos.labels, counts)
        return log_counts_of(counts, most, self.resolved.segment_cost)

    def begin(self, observation: NDArray[Any], skill: Code) -> RunningSkill:
        """Starts a skill at an observation."""
        return RunningSkill(self.skills, self.config, skill, observation)

    def act(self, observation: NDArray[Any], skill: Code) -> NDArray[Any]:
        """Returns the most probable action of a skill that begins at an observation."""
        return self.begin(observation, skill).act()

    def is_done(self, observation: NDArray[Any], action: NDArray[Any], arrived: NDArray[Any], skill: Code) -> bool:
        """Returns whether a skill that began at `observation` stops where its action led to `arrived`.

        Where skills remember earlier steps, as in relaxed training, run longer ones with `begin`.
        """
        return self.begin(observation, skill).arrive(action, arrived)

    def choose_decoder(self, decoder: Decoder | None = None, best: Best | None = None) -> Decoder:
        """Returns the given decoder or the model's own; refuses one that does not fit the model or `best`."""
        if decoder is not None and decoder not in get_args(Decoder):
            raise CompileError(f'decoder is {decoder!r}: use "exact" or "recognition".')
        if best is not None and best not in get_args(Best):
            raise CompileError(f'best is {best!r}: use "boundaries" or "path".')
        decoder = decoder or ENGINES[self.config.inference].DECODER
        DECODERS[decoder].check_decodable(self.resolved, best)
        return decoder

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes settings and weights into a folder, whole or not at all, and returns its path.

        Folders above it are made; with `overwrite`, a model in its place is replaced.
        """
        from compile_il.model.files import describe, save_arrays

        save_arrays(self.skills, describe(self), Path(folder), overwrite=overwrite)
        return Path(folder)


def segment_in_chunks(find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], cost: Cost) -> Segments:
    """Segments all demonstrations in few calls of few shapes; those of usual lengths and the long ones apart."""
    each: list[Any] = [None] * len(demos)
    for alike in group_by_length(demos.lengths, cost):
        num_rows = rows_per_call(len(alike), int(demos.lengths[alike].max()))
        for first in range(0, len(alike), num_rows):
            places = alike[first : first + num_rows]
            some, rows = demos[places], rows_filled_up(len(places), num_rows)
            batch = rounded_batch(some, rows, some.max_length)
            found = jax.tree.map(np.asarray, find(batch, jnp.asarray(log_counts[places][rows]), places[rows]))
            for row, (place, length) in enumerate(zip(places, some.lengths, strict=True)):
                count = found.num_segments[row]
                each[place] = (
                    found.ends[row, : count - 1].astype(np.int32),
                    found.skills[row, :count],
                    found.boundary_probs[row, :length],
                    found.count_probs[row],
                    found.log_likelihood[row],
                )
    boundaries, skills, boundary_probs, count_probs, values = map(list, zip(*each, strict=True))
    log_likelihood = np.array(values)
    if np.isnan(log_likelihood).any():
        raise DivergedError(
            "The model's scores are not numbers: its training diverged. Train again with a lower learning_rate."
        )
    if (impossible := log_likelihood < LOG_ZERO / 2).any():
        raise DemonstrationError(
            f"Demonstration {np.argmax(impossible)} has no segmentation into that many segments that agrees with its "
            "labels and the longest segment: change the labels, num_segments or longest_segment."
        )
    return Segments(boundaries, skills, boundary_probs, count_probs, log_likelihood)


def rows_per_call(num_demos: int, max_length: int) -> int:
    """Returns the number of demonstrations in one call: a power of two, to compile few programs."""
    most = min(_DEMOS_PER_CALL, 1 << max(_STEPS_PER_CALL // max_length, 1).bit_length() - 1)
    return min(most, 1 << (num_demos - 1).bit_length())
