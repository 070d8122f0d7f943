"""A trained model: it segments demonstrations, and its skills act."""

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

from compile_il.config import Best, Config, Decoder
from compile_il.data import UNKNOWN, DemonstrationError, Demonstrations
from compile_il.data.batch import Batch, Cost, alike_in_length, rounded_batch, rows_filled_up
from compile_il.data.demonstrations import not_demonstrations
from compile_il.data.labels import check_codes
from compile_il.data.segment_counts import Counts, broadcast_counts, counts_from_labels, has_unknown, warn_of_counts
from compile_il.data.segments import Segments
from compile_il.inference.engines import engine_for, engine_of
from compile_il.inference.exact import engine as exact
from compile_il.inference.exact.segment_scores import log_counts_of
from compile_il.inference.records import LOG_ZERO, BatchSegments, Skills
from compile_il.model.running import Code, RunningSkill, begin_skill
from compile_il.worlds.world import key_of

_DEMOS_PER_CALL, _STEPS_PER_CALL = 256, 1 << 16
Find = Callable[[Batch, Float[Array, "B counts"], NDArray[np.intp]], BatchSegments]
"""A function that segments a batch, given log p(M) of its demonstrations and their places among all of them."""
SegmentCount = int | Counts | Literal["unknown"] | None
"""How many segments to find: one number for all, one for each, "unknown", or None for what labels or training say."""


class DivergedError(DemonstrationError):
    """A model whose weights are not numbers any more."""


@dataclasses.dataclass(frozen=True)
class Model:
    """Skills with the settings they were trained with. Made by `cil.fit` or `cil.load`."""

    skills: Skills
    config: Config
    """Settings as given: `fit(demos, config=model.config, num_skills=20)` trains a model that differs in that alone."""
    resolved: Config
    """The settings as training used them, with values for defaults that depend on others or on labels."""
    duration_rate: float
    """Expected length of a segment in steps, from the settings or from the data; where it was learned, at first."""
    world: str | None = None
    """Name of the world that made the demonstrations, if it was one of ours; else None."""

    @property
    def expected_length(self) -> float:
        """Expected length of a segment in steps: as given, as in the data, or as learned."""
        return self.skills.expected_length(self.duration_rate)

    def __repr__(self) -> str:
        space, config = self.skills.space, self.resolved
        gaussian = config.codes == "gaussian"
        skills = f"codes of {config.code_dim} numbers" if gaussian else f"{config.num_skills} skills"
        match space.observation_shape:
            case ():
                observations = f"{space.num_symbols} symbols"
            case (0,):
                observations = "no states"
            case shape:
                observations = f"{space.observation_kind} {'x'.join(map(str, shape))} observations"
        actions = f"{space.num_actions} discrete" if space.num_actions else f"{space.action_dim} continuous"
        segments = "any number of" if config.num_segments is None else config.num_segments
        return f"Model({skills}, {segments} segments, {observations}, {actions} actions, {config.inference})"

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
          num_segments: how many segments to find, one number or one per demonstration (None where it is not known), or
            "unknown" to find their number too; by default as many as labels list, and where they do not, what the model
            was trained with.
          decoder: "exact" sums over all segmentations; "recognition" asks the recognition model for one segment after
            the other, as in the paper. By default the one that the model was trained with; a model of relaxed training
            with categorical codes can be decoded either way.
          best: what an exact decoder returns: the "boundaries" of which most can be expected to be right, with the most
            probable skill of each segment, as by default; or the single most probable "path" of boundaries and skills
            (Viterbi). Where the model has no doubts they are the same.
          max_segments: the most segments to consider where their number is unknown, if not as in training.
        """
        decoder = self.choose_decoder(decoder, best)
        engine = engine_for(decoder)
        log_counts = self.log_counts(demos, num_segments, decoder, max_segments)

        def find(batch: Batch, log_counts: Float[Array, "B counts"], _: NDArray[np.intp]) -> BatchSegments:
            return engine.decode(
                self.skills, self.resolved, self.duration_rate, batch, log_counts, best or "boundaries"
            )

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
        """Draws one segmentation of each demonstration from the posterior; other seeds draw others.

        Codes must be categorical: the posterior is that of the exact decoder.

        Args:
          demos: as for `segment`.
          num_segments: as for `segment`.
          seed: chooses the draws.
          max_segments: as for `segment`.
        """
        if self.resolved.codes == "gaussian":
            raise ValueError(
                "Codes of real numbers cannot be summed over, and so there is no posterior to draw from: use segment, "
                'or train with codes="categorical".'
            )
        if self.resolved.forgetful:
            raise ValueError(f"{exact.FORGETFUL}, and so there is no posterior to draw from: use segment.")
        log_counts = self.log_counts(demos, num_segments, "exact", max_segments)
        keys = jax.random.split(key_of(seed), len(demos))

        def draw(batch: Batch, log_counts: Float[Array, "B counts"], places: NDArray[np.intp]) -> BatchSegments:
            return exact.sample(self.skills, self.resolved, self.duration_rate, batch, log_counts, keys[places])

        return segment_in_chunks(draw, demos, log_counts, exact.cost_of(self.resolved))

    def log_counts(
        self, demos: Demonstrations, num_segments: SegmentCount, decoder: Decoder, max_segments: int | None = None
    ) -> NDArray[np.float32]:
        """Log p(M) of each demonstration as a row; refuses demonstrations and arguments that do not go together."""
        if not isinstance(demos, Demonstrations):
            raise not_demonstrations(demos)
        self.check_spaces(demos)
        if demos.labels is not None:
            check_codes(demos.labels, self.resolved)
        engine, trained_with, asked = engine_for(decoder), self.resolved.num_segments, num_segments
        if asked is None:
            labelled = counts_from_labels(demos)
            asked = "unknown" if trained_with is None else np.where(labelled == UNKNOWN, trained_with, labelled)
        if isinstance(asked, str):
            if asked != "unknown":
                raise DemonstrationError(f'num_segments is {asked!r}: use a number, a list, or "unknown".')
            asked = [None] * len(demos)
        some_unknown = has_unknown(asked)
        if some_unknown and not engine.FINDS_COUNTS:
            instead = "" if self.resolved.codes == "gaussian" else ', or decoder="exact"'
            raise ValueError(
                f"The recognition model must be told how many segments there are: pass their number{instead}."
            )
        if max_segments is not None:
            if not some_unknown:
                raise ValueError(
                    'max_segments has no meaning where the number is told: leave it out, or pass "unknown".'
                )
            dataclasses.replace(self.resolved, max_segments=max_segments)  # which refuses what cannot be
        counts = broadcast_counts(asked, demos, some_unknown=True, some_empty=engine.MAY_BE_EMPTY)
        if demos.labels is not None:
            engine.check_labels(demos.labels, counts)
        most = self.resolved.max_segments if max_segments is None else max_segments
        return log_counts_of(counts, most, self.resolved.segment_cost)

    def begin(self, observation: NDArray[Any], skill: Code) -> RunningSkill:
        """Starts a skill at an observation; it then acts and is told where that led, until it is done."""
        return begin_skill(self.skills, self.config, observation, skill)

    def act(self, observation: NDArray[Any], skill: Code) -> NDArray[Any]:
        """The most probable action of a skill that begins at an observation."""
        return self.begin(observation, skill).act()

    def is_done(self, observation: NDArray[Any], action: NDArray[Any], arrived: NDArray[Any], skill: Code) -> bool:
        """Whether a skill stops on arriving, after its action at `observation` led to `arrived`.

        The termination policy of relaxed training remembers a skill's earlier steps too: there, this is the answer for
        a skill that began at `observation`, and `begin` is the way to run one for longer.
        """
        return self.begin(observation, skill).arrive(action, arrived)

    def choose_decoder(self, decoder: Decoder | None = None, best: Best | None = None) -> Decoder:
        """Returns the decoder asked for, or the model's own; refuses what does not go with the model or with `best`."""
        if decoder is not None and decoder not in get_args(Decoder):
            raise ValueError(f'decoder is {decoder!r}: use "exact" or "recognition".')
        if best is not None and best not in get_args(Best):
            raise ValueError(f'best is {best!r}: use "boundaries" or "path".')
        decoder = decoder or engine_of(self.config).DECODER
        engine_for(decoder).check_decodable(self.resolved, best)
        return decoder

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes settings and weights into a folder of their own, whole or not at all, and returns its path.

        Args:
          folder: where; folders above it are made.
          overwrite: whether a model that is there may be replaced.
        """
        from compile_il.model.files import save

        return save(self, folder, overwrite=overwrite)

    def check_spaces(self, demos: Demonstrations) -> None:
        """Refuses demonstrations with other observation or action spaces than those the model was trained on."""
        space = self.skills.space
        mine = (space.observation_kind, space.observation_shape, space.num_actions, space.action_dim)
        theirs = (demos.observation_kind, demos.observation_shape, demos.num_actions or 0, demos.action_dim or 0)
        names = ("observations", "shape", "discrete actions", "width of actions")
        differ = [f"{n} {a} and not {b}" for n, a, b in zip(names, theirs, mine, strict=True) if a != b]
        if differ:
            raise DemonstrationError(
                f"These demonstrations differ from those the model was trained on: {', '.join(differ)}. Use "
                "demonstrations from the same spaces, or train another model."
            )
        if space.num_symbols and (largest := int(demos.storage.observations.values.max())) >= space.num_symbols:
            raise DemonstrationError(
                f"The model was trained on symbols 0 to {space.num_symbols - 1}, and these demonstrations have "
                f"{largest}: use demonstrations from the same spaces, or train another model."
            )


def segment_in_chunks(find: Find, demos: Demonstrations, log_counts: NDArray[np.float32], cost: Cost) -> Segments:
    """Segments all demonstrations in few calls of few shapes; those of usual lengths and the long ones apart.

    Args:
      find: the function that segments one chunk.
      demos: all demonstrations.
      log_counts: log p(M) of each demonstration.
      cost: the function that gives the cost of a demonstration by its length.
    """
    each: list[dict[str, Any]] = [{} for _ in demos.lengths]
    for alike in alike_in_length(demos.lengths, cost):
        num_rows = rows_per_call(len(alike), int(demos.lengths[alike].max()))
        for first in range(0, len(alike), num_rows):
            places = alike[first : first + num_rows]
            some, rows = demos[places], rows_filled_up(len(places), num_rows)
            batch = rounded_batch(some, rows, some.max_length)
            found = jax.tree.map(np.asarray, find(batch, jnp.asarray(log_counts[places][rows]), places[rows]))
            for row, (place, length) in enumerate(zip(places, some.lengths, strict=True)):
                count = found.num_segments[row]
                each[place] = {
                    "boundaries": found.ends[row, : count - 1].astype(np.int32),
                    "skills": found.skills[row, :count],
                    "boundary_probs": found.boundary_probs[row, :length],
                    "count_probs": found.count_probs[row],
                    "log_likelihood": found.log_likelihood[row],
                }
    lists = {name: [one[name] for one in each] for name in each[0]}
    log_likelihood = np.array(lists.pop("log_likelihood"))
    if np.isnan(log_likelihood).any():
        raise DivergedError(
            "The model's scores are not numbers: its training diverged. Train again with a lower learning_rate."
        )
    impossible = np.flatnonzero(log_likelihood < LOG_ZERO / 2)
    if len(impossible):
        raise DemonstrationError(
            f"Demonstration {impossible[0]} has no segmentation into that many segments that agrees with its "
            "labels and the longest segment: change the labels, num_segments or longest_segment."
        )
    return Segments(**lists, log_likelihood=log_likelihood)


def rows_per_call(num_demos: int, max_length: int) -> int:
    """Returns the number of demonstrations in one call: a power of two, to compile few programs."""
    most = min(_DEMOS_PER_CALL, 1 << max(_STEPS_PER_CALL // max_length, 1).bit_length() - 1)
    return min(most, 1 << (num_demos - 1).bit_length())
