"""Defines the skills of the exact engine: policies π_k(a | s), termination rules ψ_k(s, a, s') and a factor of lengths.

The factor for the length of a segment is the paper's Poisson, of at least one step, with a weight:

    p(d) = λ^d e^{-λ} / d! / (1 - e^{-λ}),    d = 1, 2, ..        (paper, Eq. for p(b_i | b_{i-1}))

Deviation: the paper truncates at the sequence's end, so its normaliser depends on where a segment starts; as a factor
of a likelihood that also has a termination model, one normaliser for all segments of all demonstrations is enough, and
the weight tempers it.

One of its two numbers can be learned. Where the number of segments is given, so is their mean length: then the weight w
of p(d)^w / Σ_d p(d)^w is learned, between 0, where all lengths are equal, and 1, the paper's prior. Where the number of
segments is unknown, the rate λ is learned.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from compile_il.config import Config
from compile_il.data.batch import Batch, to_padded
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.exact.effects import Effects, new_effects
from compile_il.inference.records import StepScores
from compile_il.networks.embeddings import ChangeRule, to_bfloat16
from compile_il.networks.policies import EncoderState, SkillPolicies

FIRST_WEIGHT = 0.3
"""Weight w of the Poisson before training, small enough to do no harm before lengths are learned."""
STRIDE = 10.0
"""Factor of the parameter of the weight, since steps of an optimiser that suit networks are small."""
RATE_STRIDE = 5.0
"""As `STRIDE`, for the rate: a larger one lets it run ahead of the policies, up to one segment for everything."""
EFFECT_KEY, CHANGE_KEY = 7, 8
"""Numbers folded into a seed's key for effects and changes, so that without them the same networks are drawn."""
NORMED = 8.0
"""Number of expected lengths λ up to which p(d)^w is normalised; with w = 0 the sum over all lengths has no end."""


def poisson_log_duration(rate: Float[Array, ""] | float, weight: float, longest: int) -> Float[Array, " lengths"]:
    """Calculates weight * log p(d) for d = 0 .. longest; entry 0 is never used."""
    steps = jnp.arange(longest + 1)
    return weight * (steps * jnp.log(rate) - rate - gammaln(steps + 1.0) - jnp.log1p(-jnp.exp(-rate)))


class Durations(eqx.Module):
    """Factor for the lengths of segments, of which the weight, the rate or nothing is learned."""

    weight_logit: Float[Array, ""] | None
    """Logit of the weight, divided by `STRIDE`; None unless the weight is learned."""
    log_rate: Float[Array, ""] | None
    """Log of the rate's ratio to its initial value, divided by `RATE_STRIDE`; None unless the rate is learned."""
    fixed_weight: float | None = eqx.field(static=True)

    def __init__(self, config: Config):
        """Learns the weight if `duration_weight` is None, and the rate if it is given and the mean length is not."""
        self.fixed_weight = config.duration_weight
        gives_mean = config.num_segments is not None or config.duration_rate is not None
        learns_weight = self.fixed_weight is None
        learns_rate = not (learns_weight or gives_mean or self.fixed_weight == 0.0)
        logit = math.log(FIRST_WEIGHT / (1 - FIRST_WEIGHT)) / STRIDE
        # Of a strong type: the weak one of a Python number would change in the first steps of training, and each would
        # be compiled anew.
        self.weight_logit = jnp.full((), logit, jnp.result_type(float)) if learns_weight else None
        self.log_rate = jnp.zeros((), jnp.result_type(float)) if learns_rate else None

    @property
    def weight(self) -> Float[Array, ""] | float:
        """Weight w of the Poisson, between 0 and 1 where it is learned."""
        if self.fixed_weight is not None:
            return self.fixed_weight
        assert self.weight_logit is not None, "a weight that is not given is learned"
        return jax.nn.sigmoid(STRIDE * self.weight_logit)

    def rate(self, first: float) -> Any:
        """Returns the rate λ; `first` is its initial value."""
        return first if self.log_rate is None else first * jnp.exp(RATE_STRIDE * self.log_rate)

    def log_duration(self, rate: float, longest: int, allowed: int | None = None) -> Float[Array, " lengths"]:
        """Calculates log p(d)^w for d = 0 .. longest, less log Σ_d p(d)^w if w is learned; entry 0 is never used.

        The sum goes up to the longest length `allowed` or to `NORMED` times λ, if that is less. It never depends on
        `longest`: the likelihood of a demonstration must not depend on its padding.
        """
        if self.fixed_weight is not None:
            return poisson_log_duration(self.rate(rate), self.fixed_weight, longest)
        normed = math.ceil(NORMED * rate)
        normed = normed if allowed is None else min(normed, allowed)
        tempered = self.weight * poisson_log_duration(rate, 1.0, max(longest, normed))
        return tempered[: longest + 1] - jax.nn.logsumexp(tempered[1 : normed + 1])


class ActorState(NamedTuple):
    """State of running skills, with the logit of stopping of each of them, and the last observation."""

    encoder: EncoderState
    stop_logits: Float[Array, " K"]
    observation: Shaped[Array, "..."]


class ExactSkills(eqx.Module):
    """Sub-task policies, and a termination rule that reads a step and the state it led to."""

    policies: SkillPolicies
    stopping: eqx.nn.MLP
    changes: ChangeRule | None
    """Termination rule of all skills that reads changes, whose logits are added to those of `stopping`."""
    durations: Durations
    effects: Effects | None
    space: Space = eqx.field(static=True)
    num_skills: int = eqx.field(static=True)
    termination_weight: float = eqx.field(static=True)

    def __init__(self, config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray):
        policy_key, stop_key = jax.random.split(key)
        self.policies = policies = SkillPolicies(config, space, scaling, key=policy_key)
        num_rules, hidden_dim = 1 if config.shared_termination else config.num_skills, config.hidden_dim
        width = 2 * hidden_dim + policies.encoder.actions.width
        self.stopping = eqx.nn.MLP(width, num_rules, hidden_dim, depth=1, key=stop_key)
        self.changes, change_key = None, jax.random.fold_in(key, CHANGE_KEY)
        if config.change_rule and space.observation_shape not in ((), (0,)):  # symbols have no change to read
            self.changes = ChangeRule(space, scaling, policies.encoder.actions.width, hidden_dim, key=change_key)
        self.durations, self.effects = Durations(config), None
        if config.effects:
            effect_key = jax.random.fold_in(key, EFFECT_KEY)
            self.effects = new_effects(scaling, config.num_skills, config.effect_spread, effect_key)
        self.space, self.num_skills = space, config.num_skills
        self.termination_weight = config.termination_weight or 1.0

    def stop_logits(
        self,
        embedded: Float[Array, " hidden"],
        action: Shaped[Array, "*A"],
        arrived: Float[Array, " hidden"],
        change_logit: Float[Array, ""],
    ) -> Float[Array, " K"]:
        """Computes the logits of ψ_k(s, a, s'), the probability that skill k stops after this step."""
        given = self.policies.encoder.actions.vector(action).astype(embedded.dtype)
        logits = self.stopping(jnp.concatenate([embedded, given, arrived])).astype(jnp.float32)
        return jnp.broadcast_to(logits, (self.num_skills,)) + change_logit

    def change_logit(
        self, before: Shaped[Array, "..."], action: Shaped[Array, "*A"], after: Shaped[Array, "..."]
    ) -> Float[Array, ""]:
        """Computes what the change of the observation adds to the logits of stopping of all skills."""
        if self.changes is None:
            return jnp.zeros(())
        return self.changes(before, self.policies.encoder.actions.vector(action), after)

    def score_steps(self, batch: Batch) -> StepScores:
        """Scores each step of each demonstration, [B, T, K]; scores of padding have no meaning.

        Frame f + 1 is where action f led, so one embedding of each frame serves its own step and the one before.
        """
        num_steps = batch.boundary_labels.shape[1]
        frames, actions = jnp.asarray(batch.frames), jnp.asarray(batch.actions)
        changes = jax.vmap(self.change_logit)(frames, actions, jnp.roll(frames, -1, axis=0))
        if self.policies.encoder.memory is None:
            embedded = jax.vmap(self.policies.encoder.embedding)(frames)
            rows = jax.vmap(self._score_step)(embedded, actions, jnp.roll(embedded, -1, axis=0), changes)
            steps: StepScores = to_padded(rows, batch, num_steps)
        else:
            seen = self.policies.encoder.encode_all(batch, num_steps + 1)
            actions, changes = to_padded((actions, changes), batch, num_steps)
            steps = jax.vmap(jax.vmap(self._score_step))(seen[:, :-1], actions, seen[:, 1:], changes)
        if self.effects is None:
            return steps
        measured = jax.vmap(self.effects.measure)(frames)
        marks = jax.vmap(self.effects.log_ratio)(jnp.roll(measured, -1, axis=0) - measured)
        return steps._replace(log_stop=steps.log_stop + to_padded(marks, batch, num_steps))

    def _score_step(self, seen: Array, action: Array, arrived: Array, change_logit: Array) -> StepScores:
        logits = self.stop_logits(seen, action, arrived, change_logit)
        return StepScores(
            log_policy=self.policies.evidence(seen, action),
            log_stop=self.termination_weight * jax.nn.log_sigmoid(logits),
            log_go=self.termination_weight * jax.nn.log_sigmoid(-logits),
        )

    def log_duration(self, rate: float, longest: int, allowed: int | None) -> Float[Array, " lengths"]:
        """Calculates the log-factor of a segment of d = 0 .. longest steps."""
        return self.durations.log_duration(rate, longest, allowed)

    def expected_length(self, rate: float) -> float:
        """Returns the expected length of a segment; `rate` is its initial value."""
        return float(self.durations.rate(rate))

    def in_half_precision(self) -> "ExactSkills":
        """Returns a copy whose networks compute in bfloat16, but for first layers of vectors; scores stay float32."""

        def networks(skills: ExactSkills) -> tuple[Any, ...]:
            return skills.policies.encoder, skills.policies.heads, skills.stopping

        return eqx.tree_at(networks, self, to_bfloat16(networks(self)))

    def init(self, observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the state in which the first skill begins; none stops before its first step."""
        # Of the type that `observe` returns, so that programs that take either compile once.
        logits = jnp.full((self.num_skills,), -jnp.inf, jnp.float32)
        return ActorState(self.policies.encoder.init(observation), logits, observation)

    def switch_skill(self, now: ActorState, observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the same state: the next skill remembers what was seen before."""
        del observation  # it is what `now` has just seen
        return now

    def act(self, now: ActorState, skill: Array) -> Shaped[Array, "*A"]:
        """Returns the most probable action of a skill."""
        return self.policies.act(now.encoder.encoding, skill)

    def observe(self, now: ActorState, action: Shaped[Array, "*A"], observation: Shaped[Array, "..."]) -> ActorState:
        """Returns the state after an action has led to an observation."""
        encoder = self.policies.encoder.update(now.encoder, action, observation)
        change_logit = self.change_logit(now.observation, action, observation)
        logits = self.stop_logits(now.encoder.encoding, action, encoder.encoding, change_logit)
        if self.effects is not None:  # the odds of stopping of `score_steps`
            change = self.effects.measure(observation) - self.effects.measure(now.observation)
            logits = self.termination_weight * logits + self.effects.log_ratio(change)
        return ActorState(encoder, logits, observation)

    def done(self, now: ActorState, skill: Array) -> Bool[Array, ""]:
        """Returns whether a skill stops in this state: ψ_k(s, a, s') > 0.5, weighed with its effect."""
        return now.stop_logits[skill] > 0
