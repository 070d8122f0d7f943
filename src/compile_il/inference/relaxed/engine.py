"""Offer relaxed inference under the names of `compile_il.inference.engines.Engine`."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from compile_il.config import PAPER_RATE, Best, Config, Decoder
from compile_il.data.batch import Batch, Cost
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.records import BatchSegments, Loss, Losses
from compile_il.inference.relaxed.decode import decode_by_recognition
from compile_il.inference.relaxed.objective import RelaxedSettings, relaxed_losses
from compile_il.inference.relaxed.recognition import Recognition
from compile_il.inference.relaxed.skills import RelaxedSkills, Termination
from compile_il.inference.relaxed.supervision import check_labels
from compile_il.networks.embeddings import make_embedding
from compile_il.networks.policies import CodePolicy, make_encoder, make_skill_policies

__all__ = [
    "DECODER",
    "FINDS_COUNTS",
    "MAY_BE_EMPTY",
    "annealed",
    "check_decodable",
    "check_labels",
    "cost_of",
    "decode",
    "expected_length",
    "make_losses",
    "make_skills",
]

DECODER: Decoder = "recognition"
FINDS_COUNTS = False
MAY_BE_EMPTY = True


def make_skills(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> RelaxedSkills:
    """Returns the paper's networks before training."""
    embed_key, action_key, recognition_key, policy_key, stop_key = jax.random.split(key, 5)
    num_maps, hidden_dim = config.num_maps, config.hidden_dim
    categorical = config.codes == "categorical"
    policies = (make_skill_policies if categorical else _make_code_policy)(config, space, scaling, policy_key)
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


def _make_code_policy(config: Config, space: Space, scaling: Scaling, key: PRNGKeyArray) -> CodePolicy:
    eyes_key, code_key, head_key = jax.random.split(key, 3)
    eyes = make_encoder(config, space, scaling, eyes_key)
    code_layer = eqx.nn.Linear(config.code_dim, config.hidden_dim, key=code_key)
    # Weights are uniform within 1 / √inputs, which would leave a third of a code's variance before it meets the state.
    code_layer = eqx.tree_at(lambda layer: layer.weight, code_layer, replace_fn=lambda weight: math.sqrt(3) * weight)
    return CodePolicy(eyes, code_layer, num_layers=config.policy_layers, key=head_key)


def make_losses(config: Config, rate: float) -> Losses:
    """Returns the paper's loss at the temperature of each iteration."""
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


def annealed(config: Config, iteration: int) -> dict[str, float]:
    """Returns the temperature in an iteration, where it changes."""
    if config.final_temperature is None:
        return {}
    return {"temperature": float(temperature_at(config, jnp.asarray(iteration)))}


def decode(
    skills: RelaxedSkills, config: Config, rate: float, batch: Batch, log_counts: Float[Array, "B counts"], best: Best
) -> BatchSegments:
    """Segments a batch by the recognition model."""
    del best  # it finds one segmentation only
    return decode_by_recognition(skills, batch, log_counts, rate, config.readout)


def check_decodable(config: Config, best: Best | None) -> None:
    """Refuses models without a recognition model, and a choice that it does not have."""
    if config.inference != "relaxed":
        raise ValueError('This model has no recognition model: pass decoder="exact", or train one with "relaxed".')
    if best is not None:
        instead = "leave it out" if config.codes == "gaussian" else 'leave it out, or pass decoder="exact"'
        raise ValueError(f"best has no meaning for the recognition model: {instead}.")


def cost_of(config: Config) -> Cost:
    """Returns the time of recurrent passes, in steps."""
    del config
    return float


def expected_length(mean: float, *, fresh: bool) -> float:
    """Returns the paper's λ for demonstrations that a world makes, and the mean of the data elsewhere."""
    return PAPER_RATE if fresh else mean
