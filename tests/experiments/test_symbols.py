"""Both trainings of the toy task run, and the plain loop's masks are ours."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import plain_toy
from benchmarks.plain_toy import NUM_TIMES, draw_sequences, segment_probs

from compile_il.experiments.symbols import Run, train_ours, train_plain, until_goal
from compile_il.relaxed.masks import soft_segments

FIELDS = {"reached", "iterations", "milliseconds_an_iteration", "seconds_with_compilation", "seconds"}


def check_figures(figures: dict[str, Any]) -> None:
    assert set(figures) >= FIELDS
    assert figures["iterations"] == 2
    assert len(figures["accuracies"]) == 2
    json.dumps(figures)


def test_two_iterations_of_ours(tmp_path: Path) -> None:
    check_figures(train_ours(Run(out=tmp_path / "symbols.json", batch_size=8, most=2), 0))


def test_two_iterations_of_the_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On runs of one symbol: each time step adds to what is compiled."""
    monkeypatch.setattr(plain_toy, "MAX_REPEATS", 1)
    monkeypatch.setattr(plain_toy, "NUM_TIMES", 4)
    check_figures(train_plain(Run(out=tmp_path / "symbols.json", batch_size=8, most=2), 0))


def test_it_stops_at_the_criterion(tmp_path: Path) -> None:
    answers = iter([0.9949, 0.995, 1.0])
    figures = until_goal(Run(out=tmp_path / "x.json", every=2), 0.0, jnp.array, lambda: next(answers))
    assert (figures["reached"], figures["iterations"]) == (True, 4)


def test_segment_probabilities_are_ours() -> None:
    logits = jax.random.normal(jax.random.key(0), (2, NUM_TIMES))
    first, second = jax.nn.softmax(logits, axis=1)[:, None]
    ours = jnp.exp(soft_segments(jax.nn.log_softmax(logits, axis=1), jnp.array(NUM_TIMES - 1)).log_probs)
    np.testing.assert_allclose(segment_probs([], first)[0], ours[0], atol=1e-6)
    np.testing.assert_allclose(segment_probs([first], second)[0], ours[1], atol=1e-6)


def test_sequences() -> None:
    batch = draw_sequences(np.random.default_rng(0), 256, True)
    for symbols, length in zip(np.asarray(batch.symbols), np.asarray(batch.lengths), strict=True):
        runs = symbols[:length][np.diff(symbols[:length], prepend=0) != 0]
        assert len(set(runs.tolist())) == 3
        assert symbols[:length].min() >= 1
        assert not symbols[length:].any()
        assert max(int((symbols == s).sum()) for s in runs) <= 4
