"""Steps with a rate and a largest norm for each seed, and the experiment that needs them."""

import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from compile_il.experiments.temperature import Run, main, own_steps
from compile_il.reproduce.studies import SMOKE_SIZES


@pytest.mark.parametrize(
    ("rate", "largest", "expected"),
    [
        (0.5, np.inf, optax.adam(0.5)),
        (0.5, 1.0, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.5))),
    ],
)
def test_steps_are_those_of_adam(rate: float, largest: float, expected: optax.GradientTransformation) -> None:
    params = {"a": jnp.zeros(3), "b": jnp.zeros(2)}
    optimiser = own_steps(optax.adam(1.0))
    state, wanted = (
        optimiser.init(params)._replace(rate=jnp.array(rate), largest=jnp.array(largest)),
        expected.init(params),
    )
    for scale in (0.1, 10.0, 1.0):
        gradient = jax.tree.map(lambda leaf, scale=scale: scale * jnp.arange(1.0, leaf.size + 1), params)
        steps, state = optimiser.update(gradient, state)
        others, wanted = expected.update(gradient, wanted)
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), steps, others)
        np.testing.assert_allclose(state.norm, scale * np.sqrt(1 + 4 + 9 + 1 + 4), rtol=1e-6)


def test_variants_are_trained_at_once(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    tiny = dataclasses.replace(Run(out).config, **SMOKE_SIZES, half_precision=False)
    main(Run(out, variants=((1e-3, np.inf), (1e-3, 1e-9)), repeats=1, num_levels=8, config=tiny))
    found = json.loads(out.read_text())
    assert found["config"]["num_seeds"] == 2
    free, still = found["figures"]["variants"]
    assert (free["largest"], still["largest"]) == (None, 1e-9)
    assert free["norms"]["0.1"] > 1
    assert 0 <= free["scores"][0]["boundary_accuracy"] <= 1
    assert len(free["exact"]) == len(free["scores"]) == 1
