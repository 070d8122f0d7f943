"""A trained model: it segments demonstrations, and its skills act."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from compile_il.batches import Batch, batch_of, pick
from compile_il.config import Config
from compile_il.demos import DemonstrationError, Demonstrations
from compile_il.exact.decode import Segmentation
from compile_il.exact.durations import poisson_log_duration
from compile_il.exact.objective import recursion_for, score_batch
from compile_il.exact.recursion import Posterior, exactly
from compile_il.exact.scores import Priors
from compile_il.log_space import LOG_ZERO
from compile_il.metrics import Scores, score_boundaries
from compile_il.networks import Scaling, Space
from compile_il.skills import Skills

_DEMOS_PER_CALL, _STEPS_PER_CALL = 256, 1 << 16
_ROUND_STEPS, _ROUND_FRAMES = 16, 1024
"""Shapes are rounded up to multiples of these, so that few programs are compiled."""


SegmentCount = int | Sequence[int] | Literal["unknown"] | None
"""How many segments to find: of all demonstrations, of each, none told, or as in training."""


Best = Literal["boundaries", "path"]
"""Boundaries of which most can be expected to be right, or the single most probable path (Viterbi)."""


@dataclasses.dataclass(frozen=True)
class Segments:
    """What was found in some demonstrations; lists with one entry per demonstration."""

    boundaries: list[NDArray[np.int32]]
    """The inner boundaries: the first step of each segment but the first."""
    skills: list[NDArray[np.int32]]
    """The skill of each segment."""
    boundary_probs: list[NDArray[np.float32]]
    """For each step, the posterior probability that a segment starts there."""
    count_probs: list[NDArray[np.float32]]
    """The posterior probability of 0, 1, 2, ... segments; all mass on one number where that was given."""
    log_likelihood: NDArray[np.float32]

    @property
    def num_segments(self) -> NDArray[np.int64]:
        """How many segments were found in each demonstration."""
        return np.array([len(skills) for skills in self.skills])

    @property
    def labels(self) -> list[NDArray[np.int32]]:
        """The skill of each step."""
        lists = zip(self.boundaries, self.skills, self.boundary_probs, strict=True)
        return [skills[np.searchsorted(inner, np.arange(len(p)), side="right")] for inner, skills, p in lists]


def join_segments(parts: Sequence[Segments]) -> Segments:
    """What was found in all parts, in order."""
    return Segments(
        boundaries=[entry for part in parts for entry in part.boundaries],
        skills=[entry for part in parts for entry in part.skills],
        boundary_probs=[entry for part in parts for entry in part.boundary_probs],
        count_probs=[entry for part in parts for entry in part.count_probs],
        log_likelihood=np.concatenate([part.log_likelihood for part in parts]),
    )


class Decoded(NamedTuple):
    """Best segmentation and posterior of each demonstration of a batch."""

    best: Segmentation
    posterior: Posterior


@eqx.filter_jit
def decode(
    skills: Skills, batch: Batch, priors: Priors, log_counts: Float[Array, "B counts"], best: Best = "boundaries"
) -> Decoded:
    """Best segmentations and posteriors of a batch, with a prior over the number of segments for each demonstration."""
    steps, known = score_batch(skills, batch)
    recursion = recursion_for(steps.log_policy.shape[1])
    find = recursion.best_boundaries if best == "boundaries" else recursion.best_segmentation
    each = functools.partial(jax.vmap, in_axes=(0, None, 0, 0))
    return Decoded(
        best=each(find)(steps, priors, known, log_counts),
        posterior=each(recursion.posterior)(steps, priors, known, log_counts),
    )


@eqx.filter_jit
def _act(skills: Skills, observation: Array, skill: Array) -> Array:
    return skills.act(observation, skill)


@eqx.filter_jit
def _is_done(skills: Skills, observation: Array, action: Array, arrived: Array, skill: Array) -> Array:
    return skills.is_done(observation, action, arrived, skill)


@dataclasses.dataclass(frozen=True)
class Model:
    """Skills with the settings they were trained with. Made by `cil.fit` or `cil.load`."""

    skills: Skills
    config: Config
    duration_rate: float
    """Expected length of a segment, from the settings or from the data."""

    def __repr__(self) -> str:
        space, config = self.skills.space, self.config
        match space.observation_shape:
            case ():
                observations = f"{space.num_symbols} symbols"
            case (0,):
                observations = "no states"
            case shape:
                observations = f"{space.observation_kind} {'x'.join(map(str, shape))} observations"
        actions = f"{space.num_actions} discrete" if space.num_actions else f"{space.action_dim} continuous"
        segments = "any number of" if config.num_segments is None else config.num_segments
        return (
            f"Model({config.num_skills} skills, {segments} segments, {observations}, {actions} actions, "
            f"{config.inference})"
        )

    def segment(
        self, demos: Demonstrations, num_segments: SegmentCount = None, *, best: Best = "boundaries"
    ) -> Segments:
        """Finds boundaries and skills.

        Args:
          demos: in the same spaces as those the model was trained on; labels they carry are respected.
          num_segments: how many segments to find, one number or one per demonstration, or "unknown" to find their
            number too; by default what the model was trained with.
          best: what to return: the boundaries of which most can be expected to be right, with the most probable skill
            of each segment; or the single most probable "path" of boundaries and skills (Viterbi). Where the model has
            no doubts they are the same.
        """
        if best not in get_args(Best):
            raise ValueError(f'best is {best!r}: use "boundaries" or "path".')
        self._check_spaces(demos)
        trained_with = "unknown" if self.config.num_segments is None else self.config.num_segments
        counts = self.log_counts(demos, trained_with if num_segments is None else num_segments)
        num_rows = _rows_per_call(demos)
        parts = [
            self._segment_some(demos[first : first + num_rows], counts[first : first + num_rows], num_rows, best)
            for first in range(0, len(demos), num_rows)
        ]
        found = join_segments(parts)
        if np.isnan(found.log_likelihood).any():
            raise DemonstrationError(
                "The model's scores are not numbers: its training diverged. Train again with a lower learning_rate."
            )
        impossible = np.flatnonzero(found.log_likelihood < LOG_ZERO / 2)
        if len(impossible):
            raise DemonstrationError(
                f"Demonstration {impossible[0]} has no segmentation into that many segments that agrees with its "
                "labels and the longest segment: change the labels, num_segments or longest_segment."
            )
        return found

    def score(self, demos: Demonstrations, num_segments: SegmentCount = None) -> Scores:
        """Segments demonstrations whose truth is known, and compares; labels that they carry are not looked at."""
        return score(self.segment(demos.with_labels(), num_segments), demos)

    def act(self, observation: NDArray[Any], skill: int) -> NDArray[Any]:
        """The most probable action of a skill, given what is seen."""
        return np.asarray(_act(self.skills, jnp.asarray(observation), self._check_skill(skill)))

    def is_done(self, observation: NDArray[Any], action: NDArray[Any], arrived: NDArray[Any], skill: int) -> bool:
        """Whether a skill stops on arriving, after its action at `observation` led to `arrived`."""
        before, done, after = map(jnp.asarray, (observation, action, arrived))
        return bool(_is_done(self.skills, before, done, after, self._check_skill(skill)))

    def _check_skill(self, skill: int) -> Array:
        if not 0 <= skill < self.config.num_skills:
            raise ValueError(f"There is no skill {skill}: the model has 0 to {self.config.num_skills - 1}.")
        return jnp.asarray(skill)

    def log_counts(self, demos: Demonstrations, num_segments: int | Sequence[int] | str) -> NDArray[np.float32]:
        """The prior over the number of segments of each demonstration, as one row of logs."""
        if isinstance(num_segments, str):
            if num_segments != "unknown":
                raise DemonstrationError(f'num_segments is {num_segments!r}: use a number, a list, or "unknown".')
            row = unknown_count(self.config)
            return np.tile(np.asarray(row, np.float32), (len(demos), 1))
        given = _whole_counts(num_segments, len(demos))
        if (given < 1).any():
            raise DemonstrationError(f"num_segments is {given.min()}: use at least 1.")
        if (given > demos.lengths).any():
            short = int(np.argmax(given > demos.lengths))
            raise DemonstrationError(
                f"Demonstration {short} has {demos.lengths[short]} steps, too few for {given[short]} segments: "
                "lower num_segments, or leave it out."
            )
        return np.asarray(jax.vmap(lambda m: exactly(m, int(given.max())))(jnp.asarray(given)))

    def priors(self, max_length: int) -> Priors:
        """Priors for demonstrations of up to so many steps."""
        longest = min(max_length, self.config.longest_segment or max_length)
        duration = poisson_log_duration(self.duration_rate, self.config.duration_weight or 0.0, longest)
        num_skills = self.config.num_skills
        return Priors(jnp.full((num_skills,), -jnp.log(num_skills)), duration)

    def _segment_some(
        self, demos: Demonstrations, log_counts: NDArray[np.float32], num_rows: int, kind: Best
    ) -> Segments:
        max_length = _round_up(demos.max_length, _ROUND_STEPS)
        missing = num_rows - len(demos)
        # The first row is repeated up to a fixed number, again to compile once.
        rows = np.pad(np.arange(len(demos)), (0, missing))
        batch = pick(batch_of(demos, _round_up(demos.num_frames, _ROUND_FRAMES), max_length), rows)
        found = decode(self.skills, batch, self.priors(max_length), jnp.asarray(log_counts[rows]), kind)
        decoded = jax.tree.map(np.asarray, found)
        best, after = decoded.best, decoded.posterior
        return Segments(
            boundaries=[best.ends[i, : best.num_segments[i] - 1].astype(np.int32) for i in range(len(demos))],
            skills=[best.skills[i, : best.num_segments[i]].astype(np.int32) for i in range(len(demos))],
            boundary_probs=[after.boundary_probs[i, :n] for i, n in enumerate(demos.lengths)],
            count_probs=list(after.count_probs[: len(demos)]),
            log_likelihood=after.log_likelihood[: len(demos)],
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Writes settings and weights into a folder of their own, whole or not at all, and returns its path.

        Args:
          folder: where; folders above it are made.
          overwrite: whether a model that is there may be replaced.
        """
        from compile_il.model_files import save

        return save(self, folder, overwrite=overwrite)

    def _check_spaces(self, demos: Demonstrations) -> None:
        space = self.skills.space
        mine = (space.observation_kind, space.observation_shape, space.num_actions, space.action_dim)
        theirs = (demos.observation_kind, demos.observation_shape, demos.num_actions or 0, demos.action_dim or 0)
        if mine != theirs:
            raise DemonstrationError(
                f"The model was trained on (observations, shape, discrete actions, action width) {mine}, and these "
                f"demonstrations have {theirs}: use demonstrations from the same spaces, or train another model."
            )
        if (
            space.observation_kind == "symbol"
            and (largest := int(demos.storage.observations.values.max())) >= space.num_symbols
        ):
            raise DemonstrationError(
                f"The model was trained on symbols 0 to {space.num_symbols - 1}, and these demonstrations have "
                f"{largest}: use demonstrations from the same spaces, or train another model."
            )


def new_skills(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> Skills:
    """Untrained skills with the settings' sizes."""
    return Skills(
        space,
        scaling,
        num_skills=config.num_skills,
        num_maps=config.num_maps,
        hidden_dim=config.hidden_dim,
        shared_termination=bool(config.shared_termination),
        sigma_floor=config.sigma_floor,
        termination_weight=config.termination_weight or 1.0,
        key=key,
    )


def unknown_count(config: Config) -> Float[Array, " counts"]:
    """Log p(M) where it is not known, up to `max_segments`: each further segment costs `segment_cost`."""
    counts = jnp.arange(config.max_segments + 1)
    costs = jnp.where(counts == 0, LOG_ZERO, -config.segment_cost * counts)
    return jnp.where(counts == 0, LOG_ZERO, jax.nn.log_softmax(costs))


def _whole_counts(num_segments: int | Sequence[int], num_demos: int) -> NDArray[np.integer]:
    try:
        given = np.asarray(num_segments)
    except ValueError:
        given = np.asarray(None)
    if not np.issubdtype(given.dtype, np.integer) or given.shape not in ((), (num_demos,)):
        raise DemonstrationError(
            f"num_segments is {num_segments}: give a whole number, or one for each of the {num_demos} demonstrations."
        )
    return np.broadcast_to(given, (num_demos,))


def score(found: Segments, demos: Demonstrations) -> Scores:
    """Compares what was found with the truth."""
    if demos.truth is None or demos.truth.boundaries is None:
        raise DemonstrationError(
            "The true boundaries of these demonstrations are not known: there is nothing to score."
        )
    return score_boundaries(found.boundaries, demos.truth.boundaries)


def _rows_per_call(demos: Demonstrations) -> int:
    """How many demonstrations one call takes: a power of two, to compile few programs, and fewer of long ones."""
    room = max(_STEPS_PER_CALL // demos.max_length, 1)
    return 1 << (min(len(demos), _DEMOS_PER_CALL, room) - 1).bit_length()


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
