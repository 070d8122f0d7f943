"""Both trainings of the toy task run, and the plain loop's masks are ours."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.toy import plain_loop as plain_toy
from experiments.toy.compare import Run, main, until_goal
from experiments.toy.plain_loop import LEARNING_RATE, NUM_TIMES, Betas, PlainToy, draw_sequences, segment_probs
from tests.inference.relaxed.single import soft_segments


@pytest.fixture
def runs_of_one_symbol(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time step adds to what the plain loop compiles."""
    monkeypatch.setattr(plain_toy, "MAX_REPEATS", 1)
    monkeypatch.setattr(plain_toy, "NUM_TIMES", 4)


@pytest.mark.slow
@pytest.mark.usefixtures("runs_of_one_symbol")
def test_two_iterations_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the forms of the plain loop that take long, and without compiling anew what other tests have compiled."""
    monkeypatch.setattr("experiments.toy.compare.SLOWER_FORMS", ())
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    out = tmp_path / "symbols.json"
    main(Run(out=out, batch_size=8, betas=((0.2, 0.3),), most=2, num_seeds=2))
    result = json.loads(out.read_text())
    (compared,) = result["figures"]["comparisons"]
    assert set(compared) == {"ours", "plain"}
    for side in compared.values():
        assert side["betas"] == {"codes": 0.2, "boundaries": 0.3}
        assert side["compile_seconds"] > 0
        assert [seed["iterations"] for seed in side["seeds"]] == [2, 2]
        assert all(len(seed["accuracies"]) == 2 for seed in side["seeds"])
    assert result["config"]["settings"]["learning_rate"] == LEARNING_RATE
    config = Run(out=out).config(Betas(0.2, 0.3))
    assert (config.beta_codes, config.beta_boundaries, config.learning_rate) == (0.2, 0.3, LEARNING_RATE)


@pytest.mark.usefixtures("runs_of_one_symbol")
def test_weights_reach_the_plain_loss() -> None:
    toy = PlainToy("eager", 8, Betas(), 0)
    batch = draw_sequences(np.random.default_rng(0), 8)
    loss = jax.jit(functools.partial(plain_toy.loss_of, step=plain_toy.lstm_cell))
    light, *heavy = (
        loss(toy.params, batch, jax.random.key(0), betas)
        for betas in (Betas(), Betas(codes=10.0), Betas(boundaries=10.0))
    )
    assert min(heavy) > light


def test_it_stops_at_the_criterion() -> None:
    answers = iter([0.9949, 0.995, 1.0])
    figures = until_goal(60, jnp.array, lambda: next(answers))
    assert (figures["reached"], figures["iterations"]) == (True, 2)


def test_segment_probabilities_are_ours() -> None:
    logits = jax.random.normal(jax.random.key(0), (2, NUM_TIMES))
    first, second = jax.nn.softmax(logits, axis=1)[:, None]
    ours = jnp.exp(soft_segments(jax.nn.log_softmax(logits, axis=1), jnp.array(NUM_TIMES - 1)).log_probs)
    np.testing.assert_allclose(segment_probs([], first)[0], ours[0], atol=1e-6)
    np.testing.assert_allclose(segment_probs([first], second)[0], ours[1], atol=1e-6)


def test_sequences() -> None:
    batch = draw_sequences(np.random.default_rng(0), 256)
    for symbols, length in zip(np.asarray(batch.symbols), np.asarray(batch.lengths), strict=True):
        runs = symbols[:length][np.diff(symbols[:length], prepend=0) != 0]
        assert len(set(runs.tolist())) == 3
        assert symbols[:length].min() >= 1
        assert not symbols[length:].any()
        assert max(int((symbols == s).sum()) for s in runs) <= 4
