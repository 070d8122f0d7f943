"""Trains the paper's two baselines by the engines themselves: LSTM surprisal for boundaries, VAE-BC for imitation.

LSTM surprisal (appendix "Segmentation baseline (LSTM surprisal)") cuts where an action comes as a surprise: a policy
with a memory learns to predict actions,

    max_θ Π_t P(a_t | a_{0..t-1}, s_{0..t}),

and the boundaries of M segments are the M - 1 steps at which this probability is lowest. That is the exact engine with
one segment, one skill and policies that remember; CompILE's encoder of states, and an LSTM with as many units.

VAE-BC puts the whole demonstration into one Gaussian code of 32 numbers. That is the relaxed engine with one segment:

    world = training_world("grid-pickup", num_tasks=3)      # one segment, but lists of three tasks
    model = cil.fit(world, config=vae_bc_settings(config))
    evaluate(without_end(model), "grid-pickup", num_tasks=5, ...)

It has no boundaries; its scores are reconstruction, exact match and online success.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from compile_il.baselines.base import Cuts, counts_of, strongest
from compile_il.config import CompileError, Config
from compile_il.data import Demonstrations
from compile_il.data.batch import Batch, rounded_batch, rows_filled_up
from compile_il.data.spaces import check_space
from compile_il.inference.exact.skills import ExactSkills
from compile_il.inference.records import Skills
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.model.model import DivergedError, Model
from compile_il.training.fit import fit
from compile_il.training.sources import training_world
from compile_il.worlds import World

NEGLIGIBLE = 1e-6
"""Weight of the termination rule, which is not part of this model: its gradient must not shape what the LSTM learns."""
SIGMA_FLOOR = 0.05
"""Least spread of continuous actions. CompILE's is larger to keep boundaries from decay; this model learns none."""
CODE_DIM = 32
"""Entries of VAE-BC's code, which has a Gaussian prior of zero mean and unit variance (paper, "Baselines")."""
NEVER = -1e9
"""Logit of stopping that no network's output makes up for."""
_DEMOS_PER_CALL = 256
_SPECIAL: dict[str, Any] = {
    field.name: field.default for field in dataclasses.fields(Config) if field.metadata.get("only")
}
"""The settings that have an effect in one kind of inference only, with their defaults."""


def surprisal_settings(config: Config) -> Config:
    """Returns the settings of LSTM surprisal, with the sizes and the training of a model to be compared with."""
    return dataclasses.replace(
        dataclasses.replace(config, **_SPECIAL),  # of one kind of inference only: as by default
        inference="exact",
        num_segments=1,
        num_skills=1,
        recurrent=True,
        duration_weight=0.0,
        termination_weight=NEGLIGIBLE,
        sigma_floor=SIGMA_FLOOR,
        change_rule=False,
        uniform_share=0.0,
        supervision="none",
    )


@dataclasses.dataclass(frozen=True)
class LSTMSurprisal:
    """The paper's baseline LSTM surprisal, with the sizes, iterations and learning rate of a CompILE model.

    A world that is given by its name has as many tasks as that model's settings have segments.
    """

    config: Config = dataclasses.field(default_factory=Config)

    def fit(self, demos: Demonstrations | str | World) -> "SurprisalCuts":
        """Learns to predict actions, and keeps the seed that predicts held-out ones best."""
        source = training_world(demos, self.config.num_segments) if isinstance(demos, str) else demos
        return SurprisalCuts(fit(source, config=surprisal_settings(self.config), progress=False))


@dataclasses.dataclass(frozen=True)
class SurprisalCuts:
    """A policy trained with `surprisal_settings`, which cuts demonstrations at the actions that surprise it."""

    model: Model

    def __post_init__(self) -> None:
        skills = self.model.skills
        if not isinstance(skills, ExactSkills) or skills.num_skills > 1 or skills.policies.encoder.memory is None:
            raise CompileError(
                "LSTM surprisal needs a model with one skill and a memory: train with surprisal_settings."
            )

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts each demonstration into a number of segments, where actions have the least probability."""
        counts = counts_of(demos, num_segments)
        check_space(demos, self.model.skills.space)
        pairs = zip(self.log_probs(demos), counts, strict=True)
        return Cuts([strongest(-log_probs, count - 1) for log_probs, count in pairs], None)

    def log_probs(self, demos: Demonstrations) -> list[NDArray[np.float32]]:
        """Returns log P(a_t | a_{0..t-1}, s_{0..t}) of each step t, for each demonstration."""
        log_probs = list[NDArray[np.float32]]()
        for first in range(0, len(demos), _DEMOS_PER_CALL):
            part = demos[first : first + _DEMOS_PER_CALL]
            rows = rows_filled_up(len(part), min(_DEMOS_PER_CALL, len(demos)))
            table = np.asarray(_log_probs(self.model.skills, rounded_batch(part, rows, demos.max_length)))
            log_probs += [table[i, :length] for i, length in enumerate(part.lengths)]
        if any(np.isnan(row).any() for row in log_probs):
            raise DivergedError("The probabilities are not numbers: training diverged. Lower learning_rate.")
        return log_probs


@eqx.filter_jit
def _log_probs(skills: Skills, batch: Batch) -> Float[Array, "B T"]:
    return skills.score_steps(batch).log_policy[..., 0].astype(jnp.float32)


def vae_bc_settings(config: Config) -> Config:
    """Returns the settings of VAE-BC, with the sizes and the training of a model to be compared with.

    Where that one is trained by relaxed inference, the code's β is the same too, and so is where the code is read.
    """
    return dataclasses.replace(
        dataclasses.replace(config, **_SPECIAL),
        inference="relaxed",
        num_segments=1,
        codes="gaussian",
        code_dim=CODE_DIM,
        beta_codes=config.beta_codes,
        readout=config.readout,
        supervision="none",
    )


def without_end(model: Model) -> Model:
    """Returns the same model with skills that never stop: the paper runs VAE-BC until the episode ends."""
    skills = model.skills
    if not isinstance(skills, RelaxedSkills):
        raise CompileError("Only models of relaxed inference have a termination policy to be taken away.")
    bias = skills.termination.head.layers[-1].bias
    assert bias is not None, "heads are made with a bias"
    unending = eqx.tree_at(lambda s: s.termination.head.layers[-1].bias, skills, jnp.full_like(bias, NEVER))
    return dataclasses.replace(model, skills=unending)
