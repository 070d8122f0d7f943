"""VAE-BC, the paper's baseline for imitation: the whole demonstration in one Gaussian code of 32 numbers.

It is CompILE with a single segment (M = 1), trained by `cil.fit` as any other model:

    world = training_world("grid-pickup", num_tasks=3)      # one segment, but lists of three tasks
    model = cil.fit(world, config=vae_bc_settings(config))
    evaluate(without_end(model), "grid-pickup", num_tasks=5, ...)

It finds no boundaries; it is there for reconstruction, exact match and online success.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from compile_il.baselines.settings import with_defaults
from compile_il.config import Config
from compile_il.model import Model
from compile_il.relaxed.skills import RelaxedSkills

CODE_DIM = 32
"""Entries of the code, which has a Gaussian prior of zero mean and unit variance (paper, "Baselines")."""
NEVER = -1e9
"""Logit of stopping that no network's output makes up for."""


def vae_bc_settings(config: Config) -> Config:
    """Returns the baseline's settings, with the sizes and the training of a model that it is compared with.

    Where that one is trained by relaxed inference, the code's β is the same too, and so is where the code is read.
    """
    return dataclasses.replace(
        with_defaults(config),
        inference="relaxed",
        num_segments=1,
        codes="gaussian",
        code_dim=CODE_DIM,
        beta_codes=config.beta_codes,
        readout=config.readout,
        supervision="none",
    )


def without_end(model: Model) -> Model:
    """Returns the same model with skills that never stop, as the paper runs this baseline: until the episode ends."""
    skills = model.skills
    if not isinstance(skills, RelaxedSkills):
        raise ValueError("Only models of relaxed inference have a termination policy to be taken away.")
    bias = skills.termination.head.layers[-1].bias
    assert bias is not None, "heads are made with a bias"
    unending = eqx.tree_at(lambda s: s.termination.head.layers[-1].bias, skills, jnp.full_like(bias, NEVER))
    return dataclasses.replace(model, skills=unending)
