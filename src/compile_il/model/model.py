"""A trained model: it segments demonstrations, and its skills act."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.config import Best, Config, Decoder
from compile_il.data import UNKNOWN, DemonstrationError, Demonstrations
from compile_il.data.batch import Batch
from compile_il.data.demonstrations import not_demonstrations
from compile_il.data.labels import check_codes
from compile_il.data.segment_counts import Counts, broadcast_counts, counts_from_labels, has_unknown, warn_of_counts
from compile_il.data.segments import Segments
from compile_il.inference.engines import engine_for, engine_of
from compile_il.inference.exact import engine as exact
from compile_il.inference.exact.priors import log_counts_of
from compile_il.inference.records import BatchSegments, Skills
from compile_il.inference.segmenter import segment_in_chunks
from compile_il.model.running import Code, RunningSkill, begin_skill
from compile_il.worlds.world import key_of

SegmentCount = int | Counts | Literal["unknown"] | None
"""How many segments to find: one number for all, one for each, "unknown", or None for what labels or training say."""


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
