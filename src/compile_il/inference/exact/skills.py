"""Hold the skills of the exact engine: policies π_k(a | s), stopping rules ψ_k(s, a, s') and a factor for lengths.

The factor for the length of a segment is the paper's Poisson, of at least one step, with a weight:

    p(d) = λ^d e^{-λ} / d! / (1 - e^{-λ}),    d = 1, 2, ..        (paper, Eq. for p(b_i | b_{i-1}))

Deviation: the paper truncates at the sequence's end, so its normaliser depends on where a segment starts; as a factor
of a likelihood that also has a termination model, one normaliser for all segments of all demonstrations is enough, and
the weight tempers it.

One of its two numbers can be learned. Where the number of segments is known, so is their mean length, and the weight w
says how much they vary, which is the data's affair: it is a parameter of p(d)^w / Σ_d p(d)^w, between 0, where any
length is as good as any other, and 1, the paper's prior. Where the number is not known, the rate λ is a parameter.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from compile_il.data.batch import Batch, to_padded
from compile_il.data.spaces import Space
from compile_il.inference.exact.effects import Effects
from compile_il.inference.records import StepScores
from compile_il.networks.embeddings import to_bfloat16
from compile_il.networks.policies import EncoderState, SkillPolicies

FIRST_WEIGHT = 0.3
"""Weight w of the Poisson before training; too small to do harm while nothing is known about lengths."""
STRIDE = 10.0
"""What the parameter of the weight is multiplied by, since steps of an optimiser that suit networks are small."""
RATE_STRIDE = 5.0
"""As `STRIDE`, for the rate: a larger one lets it run ahead of the policies, up to one segment for everything."""
NORMED = 8.0
"""Number of expected lengths λ up to which p(d)^w is normalised; with w = 0 the sum over all lengths has no end."""


def poisson_log_duration(rate: Float[Array, ""] | float, weight: float, longest: int) -> Float[Array, " lengths"]:
    """Weight * log p(d) for d = 0 .. longest; entry 0 is never used.

    Args:
      rate: λ, the expected length of segments in steps.
      weight: 1 is the prior itself, 0 takes it away.
      longest: segments longer than this are impossible.
    """
    steps = jnp.arange(longest + 1)
    return weight * (steps * jnp.log(rate) - rate - gammaln(steps + 1.0) - jnp.log1p(-jnp.exp(-rate)))


class FixedWeight(eqx.Module):
    """Weight of the Poisson over lengths, where neither it nor the rate is learned."""

    weight: float = eqx.field(static=True)

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w for d = 0 .. longest; entry 0 is never used, and `allowed` has no influence."""
        del allowed
        return poisson_log_duration(rate, self.weight, longest)

    def rate(self, first: float) -> float:
        """Rate λ, as it was before training."""
        return first


class LearnedWeight(eqx.Module):
    """Weight w of the Poisson over lengths, as a parameter that is learned."""

    position: Float[Array, ""]
    """Logit of the weight, divided by `STRIDE`."""

    def __init__(self) -> None:
        # Of a type of its own: one that gives way to others, as a Python number's, would change in the first steps of
        # training, and each would be compiled anew.
        self.position = jnp.full((), math.log(FIRST_WEIGHT / (1 - FIRST_WEIGHT)) / STRIDE, jnp.result_type(float))

    @property
    def weight(self) -> Float[Array, ""]:
        """Weight w of the Poisson, between 0 and 1."""
        return jax.nn.sigmoid(STRIDE * self.position)

    def rate(self, first: float) -> float:
        """Rate λ, as it was before training."""
        return first

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w / Σ_d p(d)^w for d = 0 .. longest; entry 0 is never used.

        Args:
          rate: λ, the expected length of segments in steps.
          longest: the last entry.
          allowed: longer segments are impossible, if not None. The sum goes up to this or to `NORMED` times λ, if that
            is less, and never depends on `longest`: what a demonstration is worth must not depend on its padding.
        """
        normed = math.ceil(NORMED * rate)
        normed = normed if allowed is None else min(normed, allowed)
        tempered = self.weight * poisson_log_duration(rate, 1.0, max(longest, normed))
        return tempered[: longest + 1] - jax.nn.logsumexp(tempered[1 : normed + 1])


class LearnedRate(eqx.Module):
    """Rate λ of the Poisson over lengths, as a parameter that is learned while its weight stays."""

    position: Float[Array, ""]
    """Log of the rate over the one before training, divided by `RATE_STRIDE`."""
    weight: float = eqx.field(static=True)
    """Weight of the Poisson; 1 is the prior itself."""

    def __init__(self, weight: float) -> None:
        self.position = jnp.zeros((), jnp.result_type(float))
        self.weight = weight

    def rate(self, first: float) -> Float[Array, ""]:
        """Rate λ that has been learned, in steps, where training began with `first`."""
        return first * jnp.exp(RATE_STRIDE * self.position)

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Log of p(d)^w for d = 0 .. longest; entry 0 is never used.

        Args:
          rate: the rate λ before training.
          longest: the last entry.
          allowed: has no influence here, since p sums to one over lengths of any size.
        """
        del allowed
        return poisson_log_duration(self.rate(rate), self.weight, longest)


Durations = FixedWeight | LearnedWeight | LearnedRate
"""A factor for the lengths of segments, of which one number may be learned."""


class ActorState(NamedTuple):
    """What skills know at one time, and the logit with which each of them would stop there."""

    encoder: EncoderState
    stop_logits: Float[Array, " K"]
    measured: Float[Array, " D"] | None
    """How much of each thing there is (`Effects.measure`); None without effects."""


class ExactSkills(eqx.Module):
    """Sub-task policies and a termination rule that looks at a step and at where it led."""

    policies: SkillPolicies
    stopping: eqx.nn.MLP
    durations: Durations
    """The Poisson factor on segment lengths, whose weight or rate may be learned."""
    effects: Effects | None
    """The change that each skill makes, by which skills are told apart; None without effects."""
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)
    termination_weight: float = eqx.field(static=True)

    def __init__(
        self,
        space: Space,
        policies: SkillPolicies,
        *,
        shared_termination: bool,
        termination_weight: float,
        durations: Durations,
        effects: Effects | None = None,
        key: PRNGKeyArray,
    ):
        num_rules = 1 if shared_termination else policies.num_skills
        hidden_dim = policies.encoder.hidden_dim
        width = 2 * hidden_dim + policies.actions.width
        self.policies = policies
        self.stopping = eqx.nn.MLP(width, num_rules, hidden_dim, depth=1, key=key)
        self.durations = durations
        self.effects = effects
        self.space, self.num_skills, self.termination_weight = space, policies.num_skills, termination_weight

    def stop_logits(
        self, embedded: Float[Array, " hidden"], action: Shaped[Array, "*A"], arrived: Float[Array, " hidden"]
    ) -> Float[Array, " K"]:
        """Logits of ψ_k(s, a, s'), the probability that skill k stops after this step."""
        given = self.policies.actions.vector(action).astype(embedded.dtype)
        logits = self.stopping(jnp.concatenate([embedded, given, arrived])).astype(jnp.float32)
        return jnp.broadcast_to(logits, (self.num_skills,))

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores of each step of each demonstration, [B, T, K]; those of padding have no meaning.

        Frame f + 1 is where action f led, so one embedding of each frame serves its own step and the one before.
        """
        num_steps = batch.boundary_labels.shape[1]
        steps = self._score_without_effects(batch, num_steps)
        if self.effects is None:
            return steps
        measured = jax.vmap(self.effects.measure)(jnp.asarray(batch.frames))
        marks = jax.vmap(self.effects.log_ratio)(jnp.roll(measured, -1, axis=0) - measured)
        return steps._replace(log_stop=steps.log_stop + to_padded(marks, batch, num_steps))

    def _score_without_effects(self, batch: Batch, num_steps: int) -> StepScores:
        actions = jnp.asarray(batch.actions)
        if self.policies.encoder.memory is None:
            embedded = jax.vmap(self.policies.encoder.embedding)(jnp.asarray(batch.frames))
            rows = jax.vmap(self._score_step)(embedded, actions, jnp.roll(embedded, -1, axis=0))
            return to_padded(rows, batch, num_steps)
        seen = self.policies.encoder.encode_all(batch, num_steps + 1)
        return jax.vmap(jax.vmap(self._score_step))(seen[:, :-1], to_padded(actions, batch, num_steps), seen[:, 1:])

    def _score_step(
        self, seen: Float[Array, " hidden"], action: Shaped[Array, "*A"], arrived: Float[Array, " hidden"]
    ) -> StepScores:
        logits = self.stop_logits(seen, action, arrived)
        return StepScores(
            log_policy=self.policies.log_probs(seen, action),
            log_stop=self.termination_weight * jax.nn.log_sigmoid(logits),
            log_go=self.termination_weight * jax.nn.log_sigmoid(-logits),
        )

    def log_duration(self, rate: float, longest: int, allowed: int | None) -> Float[Array, " lengths"]:
        """Log-factor of a segment of d = 0 .. longest steps; see `FixedWeight`, `LearnedWeight` and `LearnedRate`."""
        return self.durations.log_duration(rate, longest, allowed)

    def expected_length(self, rate: float) -> float:
        """Returns the expected length of a segment, as learned, where training began with `rate`."""
        return float(self.durations.rate(rate))

    def in_half_precision(self) -> "ExactSkills":
        """A copy whose networks compute in bfloat16.

        Cells of our worlds are 0 or 1, exact in any precision; the first layer reads vectors as they are; scores stay
        float32.
        """

        def networks(skills: ExactSkills) -> tuple[Any, ...]:
            return skills.policies.encoder, skills.policies.heads, skills.stopping

        return eqx.tree_at(networks, self, to_bfloat16(networks(self)))

    def init(self, observation: Shaped[Array, "..."]) -> ActorState:
        """What is known where the first skill begins; none stops before its first step."""
        measured = None if self.effects is None else self.effects.measure(observation)
        # Of a type that is said: a program that is handed this and then what `observe` gives compiles once.
        logits = jnp.full((self.num_skills,), -jnp.inf, jnp.float32)
        return ActorState(self.policies.encoder.init(observation), logits, measured)

    def switch_skill(self, now: ActorState, observation: Shaped[Array, "..."]) -> ActorState:
        """What is known where one skill has ended and the next begins: the same, so what was seen is remembered."""
        del observation  # it is what `now` has just seen
        return now

    def act(self, now: ActorState, skill: Array) -> Shaped[Array, "*A"]:
        """The most probable action of a skill."""
        return self.policies.act(now.encoder.encoding, skill)

    def observe(self, now: ActorState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> ActorState:
        """What is known after an action has led to an observation."""
        encoder = self.policies.encoder.update(now.encoder, action, observation)
        logits = self.stop_logits(now.encoder.encoding, action, encoder.encoding)
        if self.effects is None:
            return ActorState(encoder, logits, None)
        assert now.measured is not None, "effects are looked at from the beginning"
        measured = self.effects.measure(observation)
        # The odds of stopping that `score_steps` gives, in which the rule has its weight and effects have theirs.
        odds = self.termination_weight * logits + self.effects.log_ratio(measured - now.measured)
        return ActorState(encoder, odds, measured)

    def done(self, now: ActorState, skill: Array) -> Bool[Array, ""]:
        """Whether a skill stops here: ψ_k(s, a, s') > 0.5, in which its effect, if modelled, has been weighed."""
        return now.stop_logits[skill] > 0
