"""Defines the records and interfaces that both engines share."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from compile_il.data.batch import Batch
from compile_il.data.spaces import Space

LOG_ZERO = -1e30
"""Log of an impossible event: far below any real score, yet finite, so that sums and gradients stay numbers."""


def is_impossible(log_prob: Float[Array, "*axes"]) -> Bool[Array, "*axes"]:
    """Returns whether a log-probability is that of impossible events; NaN and infinities are not."""
    return jnp.isfinite(log_prob) & (log_prob < LOG_ZERO / 2)


class Loss(NamedTuple):
    """A loss and its named terms: of each demonstration in engines, of each seed as `Trainer.step` returns it."""

    total: Float[Array, " _"]
    terms: dict[str, Float[Array, " _"]]
    """Terms that add up to the total; none where the loss has no parts."""


Losses = Callable[[Any, Batch, Key[Array, " B"], Int[Array, ""]], Loss]
"""Function from skills, a batch, keys for samples and the iteration to the loss of each demonstration."""


class StepScores(NamedTuple):
    """Scores of each step of one demonstration, for each skill."""

    log_policy: Float[Array, "T K"]
    """l_k(t) = log π_k(a_t | s_t)."""
    log_stop: Float[Array, "T K"]
    """log ψ_k(t): the score of skill k for stopping on arriving from step t."""
    log_go: Float[Array, "T K"]
    """log(1 - ψ_k(t)): the score of skill k for going on after step t."""


class BatchSegments(NamedTuple):
    """Segmentations of the demonstrations of a batch, padded to the largest number of segments."""

    num_segments: Int[Array, " B"]
    ends: Int[Array, "B M"]
    """Ends of the segments, b_1 .. b_M."""
    skills: Shaped[Array, "B M ..."]
    """The skill of each segment, or its code where codes are vectors."""
    boundary_probs: Float[Array, "B T"]
    """P(a segment starts at step t)."""
    count_probs: Float[Array, "B counts"]
    """P(there are M segments)."""
    log_likelihood: Float[Array, " B"]


@runtime_checkable
class Actor(Protocol):
    """Interface of skills that act and stop; the content of their state is their own."""

    def init(self, observation: Shaped[Array, "..."]) -> Any:
        """Returns the state in which the first skill begins."""

    def switch_skill(self, now: Any, observation: Shaped[Array, "..."]) -> Any:
        """Returns the state in which another skill begins where one has ended."""

    def act(self, now: Any, skill: Array) -> Shaped[Array, "*A"]:
        """Returns the most probable action of a skill."""

    def observe(self, now: Any, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> Any:
        """Returns the state after an action has led to an observation."""

    def done(self, now: Any, skill: Array) -> Bool[Array, ""]:
        """Returns whether a skill stops in this state."""


@runtime_checkable
class Skills(Actor, Protocol):
    """Interface of the networks of either engine."""

    @property
    def space(self) -> Space:
        """Observations and actions that the networks take."""

    @property
    def num_skills(self) -> int:
        """Number of skills, K."""

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores each step of each demonstration, [B, T, K]."""

    def log_duration(self, rate: float, longest: int, allowed: int | None) -> Float[Array, " lengths"]:
        """Calculates the log-factor of segments of 0 .. longest steps; `rate` is its initial value.

        Segments longer than `allowed`, if not None, are impossible.
        """

    def expected_length(self, rate: float) -> float:
        """Returns the expected length of a segment; `rate` is its initial value."""

    def in_half_precision(self) -> Any:
        """Returns a copy whose networks compute in bfloat16."""
