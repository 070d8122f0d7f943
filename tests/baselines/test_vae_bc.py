"""One code for a whole demonstration."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.baselines.learned import vae_bc_settings, without_end
from compile_il.config import Config
from compile_il.training.sources import make_source, training_world
from tests.inference.exact.small import small_model, vector_demos

SMALL = Config(num_segments=3, num_iterations=2, batch_size=4, hidden_dim=8, num_maps=2, longest_segment=20)


def test_one_segment_and_a_wide_code() -> None:
    settings = vae_bc_settings(SMALL)
    assert (settings.inference, settings.num_segments, settings.codes, settings.code_dim) == (
        *("relaxed", 1, "gaussian", 32),
    )
    assert (settings.hidden_dim, settings.longest_segment) == (8, None)
    beside = dataclasses.replace(settings, beta_codes=0.3, readout="attentive", supervision="b")
    assert vae_bc_settings(beside) == dataclasses.replace(settings, beta_codes=0.3, readout="attentive")


def test_it_is_trained_on_whole_task_lists() -> None:
    source = make_source(training_world("grid-pickup", num_tasks=3), vae_bc_settings(SMALL))
    assert source.demos.truth.codes is not None
    assert max(map(len, source.demos.truth.codes)) == 3


def test_it_runs_until_the_episode_ends() -> None:
    model = cil.fit(vector_demos(), config=vae_bc_settings(SMALL))
    found = model.segment(vector_demos())
    assert [len(inner) for inner in found.boundaries] == [0] * 4
    assert found.skills[0].shape == (1, 32)
    seen, code = vector_demos().observations[0], jnp.asarray(found.skills[0][0])
    unending = without_end(model)
    np.testing.assert_array_equal(unending.segment(vector_demos()).skills[0], found.skills[0])
    for skills, ends in ((unending.skills, {False}), (model.skills, {False, True})):
        now, said = skills.init(jnp.asarray(seen[0])), set()
        for action, arrived in zip(vector_demos().actions[0], seen[1:], strict=True):
            now = skills.observe(now, jnp.asarray(action), jnp.asarray(arrived))
            said.add(bool(skills.done(now, code)))
        assert said <= ends


def test_other_models_end_as_they_do() -> None:
    with pytest.raises(ValueError, match=r"Only models of relaxed inference"):
        without_end(small_model())
