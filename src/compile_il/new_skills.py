"""Untrained networks, of the kind and the sizes that settings ask for."""

import math

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from compile_il.config import Config
from compile_il.exact.durations import LearnedDurations, LearnedRate, LearnedWeight
from compile_il.exact.effects import new_effects
from compile_il.networks import Scaling, Space, make_embedding
from compile_il.policies import CodePolicy, Eyes, SkillPolicies
from compile_il.relaxed.recognition import Recognition
from compile_il.relaxed.skills import RelaxedSkills
from compile_il.relaxed.termination import Termination
from compile_il.skills import Skills

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


def _new_eyes(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> Eyes:
    sigma_floor = config.settled().sigma_floor
    assert sigma_floor is not None, "settled"
    return Eyes(
        space,
        scaling,
        num_maps=config.num_maps,
        hidden_dim=config.hidden_dim,
        sigma_floor=sigma_floor,
        recurrent=config.recurrent,
        forgetful=config.forgetful,
        key=key,
    )
