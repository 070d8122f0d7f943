"""The networks as they are drawn."""

import jax
import jax.numpy as jnp
import numpy as np

from compile_il.config import Config
from compile_il.networks import Scaling, Space
from compile_il.objectives import new_skills
from compile_il.policies import CodePolicy
from compile_il.relaxed.skills import RelaxedSkills

NOTHING = jnp.zeros((0,))


def test_a_code_keeps_its_spread_on_its_way_to_the_policy() -> None:
    space = Space("vector", (0,), num_symbols=0, num_actions=5, action_dim=0)
    scaling = Scaling(NOTHING, NOTHING, NOTHING, NOTHING, jnp.zeros((0, 0)))
    config = Config(inference="relaxed", codes="gaussian", hidden_dim=256, code_dim=64)
    skills = new_skills(config, space, scaling, jax.random.key(0))
    assert isinstance(skills, RelaxedSkills)
    assert isinstance(skills.policies, CodePolicy)
    codes = jax.random.normal(jax.random.key(1), (64, 64))
    read = jax.vmap(skills.policies.code_layer)(codes)
    np.testing.assert_allclose(read.std(axis=0).mean(), 1.0, atol=0.05)
