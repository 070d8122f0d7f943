"""One kind of loss for the trainer, whichever way boundaries and skills are inferred.

Untrained networks, of the kind and the sizes that settings ask for.

Priors over skills and lengths of segments, which training and segmenting share.
"""

import math
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from compile_il.config import Config
from compile_il.data.batch import Batch
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.exact.effects import new_effects
from compile_il.inference.exact.objective import log_likelihoods
from compile_il.inference.exact.priors import (
    LearnedDurations,
    LearnedRate,
    LearnedWeight,
    poisson_log_duration,
    unknown_count,
)
from compile_il.inference.exact.recursion import point_mass
from compile_il.inference.exact.segment_scores import Priors
from compile_il.inference.exact.skills import Skills
from compile_il.inference.records import Loss
from compile_il.inference.relaxed.objective import RelaxedSettings, relaxed_losses
from compile_il.inference.relaxed.recognition import Recognition
from compile_il.inference.relaxed.skills import RelaxedSkills, Termination
from compile_il.networks.embeddings import make_embedding
from compile_il.networks.policies import CodePolicy, SkillPolicies, StateEncoder


def make_priors(config: Config, skills: Skills | RelaxedSkills, rate: float, max_length: int) -> Priors:
    """Returns priors over skills and segment lengths, for demonstrations of up to `max_length` steps.

    The policies of the paper's model have no other factor for lengths than its Poisson, so there it has weight 1.
    """
    longest = min(max_length, config.longest_segment or max_length)
    if isinstance(skills, Skills) and skills.durations is not None:
        log_duration = skills.durations.log_duration(rate, longest, config.longest_segment)
    else:
        weight = 1.0 if config.inference == "relaxed" else config.duration_weight or 0.0
        log_duration = poisson_log_duration(rate, weight, longest)
    return Priors(jnp.full((config.num_skills,), -jnp.log(config.num_skills)), log_duration)


@runtime_checkable
class Losses(Protocol):
    """A function that gives what training minimises, for one seed."""

    def __call__(self, skills: Any, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        """Loss of each demonstration; keys are for what is drawn for it, the iteration for what is annealed."""


def make_losses(config: Config, rate: float) -> Losses:
    """Returns the losses that settings ask for.

    Args:
      config: the settings.
      rate: expected length of a segment in steps.
    """
    if config.inference == "relaxed":
        return _relaxed(config, rate)
    count = config.num_segments
    unknown = unknown_count(config.max_segments, config.segment_cost)
    log_count = unknown if count is None else point_mass(count, count)

    def losses(skills: Skills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        del keys, iteration  # nothing is drawn, and nothing changes on the way
        priors = make_priors(config, skills, rate, batch.boundary_labels.shape[1])
        likelihoods = log_likelihoods(skills, batch, priors, log_count)
        return Loss(-likelihoods, terms={})

    return losses


def _relaxed(config: Config, rate: float) -> Losses:
    assert config.num_segments is not None, "settings are checked"
    settings = RelaxedSettings(
        num_segments=config.num_segments,
        rate=rate,
        beta_codes=config.beta_codes,
        beta_boundaries=config.beta_boundaries,
        readout=config.readout,
        boundary_term=config.boundary_term,
    )

    def losses(skills: RelaxedSkills, batch: Batch, keys: Key[Array, " B"], iteration: Int[Array, ""]) -> Loss:
        return relaxed_losses(skills, batch, keys, temperature_at(config, iteration), settings)

    return losses


def temperature_at(config: Config, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """Temperature τ in an iteration, fixed, or falling to its final value by the same factor each time."""
    first = config.temperature
    final = first if config.final_temperature is None else config.final_temperature
    return first * (final / first) ** (iteration / max(config.num_iterations - 1, 1))


EFFECT_KEY = 7
"""Number folded into a seed's key for effects, so that with and without them the same networks are drawn."""


def new_skills(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> Skills | RelaxedSkills:
    """Returns untrained networks of the kind and sizes that the settings ask for."""
    if config.inference == "relaxed":
        return _new_relaxed_skills(config, space, scaling, key)
    policy_key, stop_key = jax.random.split(key)
    effects = None
    if config.effects:
        effect_key = jax.random.fold_in(key, EFFECT_KEY)
        effects = new_effects(scaling, config.num_skills, config.effect_spread, effect_key)
    return Skills(
        space,
        _new_skill_policies(config, space, scaling, policy_key),
        shared_termination=bool(config.shared_termination),
        termination_weight=config.termination_weight or 1.0,
        durations=_new_durations(config),
        effects=effects,
        key=stop_key,
    )


def _new_durations(config: Config) -> LearnedDurations | None:
    """What is to be learned of segments' lengths: how they vary, or their mean where nothing tells it."""
    if config.duration_weight is None:
        return LearnedWeight()
    tells_mean = config.num_segments is not None or config.duration_rate is not None
    return None if tells_mean or config.duration_weight == 0.0 else LearnedRate(config.duration_weight)


def _new_relaxed_skills(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> RelaxedSkills:
    embed_key, action_key, recognition_key, policy_key, stop_key = jax.random.split(key, 5)
    num_maps, hidden_dim = config.num_maps, config.hidden_dim
    categorical = config.codes == "categorical"
    policies = (_new_skill_policies if categorical else _new_code_policy)(config, space, scaling, policy_key)
    # A Gaussian has a mean and a log-variance for each entry.
    num_outputs = config.num_skills if categorical else 2 * config.code_dim
    return RelaxedSkills(
        embedding=make_embedding(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, normed=False, key=embed_key),
        action_layer=eqx.nn.Linear(policies.actions.width, hidden_dim, key=action_key),
        norm=eqx.nn.LayerNorm(2 * hidden_dim),
        recognition=Recognition(2 * hidden_dim, hidden_dim, num_outputs, key=recognition_key),
        policies=policies,
        termination=Termination(space, scaling, num_maps=num_maps, hidden_dim=hidden_dim, key=stop_key),
        space=space,
        num_skills=config.num_skills,
    )


def _new_skill_policies(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> SkillPolicies:
    eyes_key, head_key = jax.random.split(key)
    eyes = _new_eyes(config, space, scaling, eyes_key)
    return SkillPolicies(eyes, num_skills=config.num_skills, num_layers=config.policy_layers, key=head_key)


def _new_code_policy(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> CodePolicy:
    eyes_key, code_key, head_key = jax.random.split(key, 3)
    eyes = _new_eyes(config, space, scaling, eyes_key)
    code_layer = eqx.nn.Linear(config.code_dim, config.hidden_dim, key=code_key)
    # Weights are uniform within 1 / √inputs, which would leave a third of a code's variance before it meets the state.
    code_layer = eqx.tree_at(lambda layer: layer.weight, code_layer, replace_fn=lambda weight: math.sqrt(3) * weight)
    return CodePolicy(eyes, code_layer, num_layers=config.policy_layers, key=head_key)


def _new_eyes(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> StateEncoder:
    sigma_floor = config.resolved().sigma_floor
    assert sigma_floor is not None, "settled"
    return StateEncoder(
        space,
        scaling,
        num_maps=config.num_maps,
        hidden_dim=config.hidden_dim,
        sigma_floor=sigma_floor,
        recurrent=config.recurrent,
        forgetful=config.forgetful,
        key=key,
    )
