"""Hidden Markov models on states that are hardly hidden, and the posterior against all paths."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from compile_il.baselines import hmm
from compile_il.baselines.features import Features, View
from compile_il.baselines.hmm import HiddenMarkov, HiddenMarkovCuts, StatePosterior, posterior_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.metrics import score_labels, step_labels
from tests.baselines.cases import assert_found, plateaus


@pytest.fixture(scope="module")
def fitted() -> HiddenMarkovCuts:
    return HiddenMarkov(num_states=4, num_restarts=3, num_iterations=20, view=View("states")).fit(plateaus(40))


def test_plateaus_and_their_kinds_are_found(fitted: HiddenMarkovCuts) -> None:
    demos = plateaus(20, seed=1)
    found = fitted.segment(demos, 3)
    assert_found(found.boundaries, demos)
    assert found.labels is not None
    assert demos.truth.boundaries is not None
    assert demos.truth.codes is not None
    types = step_labels(demos.truth.boundaries, demos.truth.codes, demos.lengths)
    *perfect, _, _ = score_labels(found.labels, types)  # but for what they would be by chance
    np.testing.assert_allclose(perfect, 1.0)


def test_fewer_or_more_segments_than_the_path_has(fitted: HiddenMarkovCuts) -> None:
    demos = plateaus(20, seed=1)
    all_there = fitted.segment(demos, 3).boundaries
    fewer, more = fitted.segment(demos, 2).boundaries, fitted.segment(demos, 4).boundaries
    for few, right, many in zip(fewer, all_there, more, strict=True):
        assert set(few) < set(right) < set(many)


@pytest.mark.parametrize(
    ("num_segments", "boundaries", "states"),
    [
        (1, [], [1]),
        (2, [5], [1, 2]),  # of the path's changes, at 2 and 5, the more probable one
        (3, [2, 5], [1, 0, 2]),  # both, though a change at 3 is more probable than either
        (4, [2, 3, 5], [1, 0, 1, 2]),
        (5, [2, 3, 5, 6], [1, 0, 1, 2, 2]),
    ],
)
def test_boundaries_are_of_the_path_and_their_order_and_labels_of_the_posterior(
    num_segments: int, boundaries: list[int], states: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sure, likely, unlikely = [0.0, 1.0, 0.0], [0.62, 0.38, 0.0], [0.3, 0.7, 0.0]
    believed = StatePosterior(
        state_probs=np.array([sure, sure, likely, likely, unlikely, *[[0.0, 0.1, 0.9]] * 3]),
        change_probs=np.array([0.0, 0.1, 0.2, 0.7, 0.3, 0.6, 0.5, 0.1]),
    )
    monkeypatch.setattr(hmm, "posterior_of", lambda model, rows: believed)
    model: Any = SimpleNamespace(predict=lambda rows: np.array([1, 1, 0, 0, 0, 2, 2, 2]))
    demos = Demonstrations.from_arrays(None, [np.zeros(8, int)], num_actions=2)
    found = HiddenMarkovCuts(Features.of(demos, View("actions")), model).segment(demos, num_segments)
    assert found.boundaries[0].tolist() == boundaries
    assert found.labels is not None
    assert found.labels[0][[0, *boundaries]].tolist() == states


def test_restarts_are_compared_and_seeds_are_kept() -> None:
    demos = plateaus(10)
    settings = {"num_states": 4, "num_iterations": 5, "view": View("states"), "seed": 3}
    rows = np.concatenate(Features.of(demos, View("states"))(demos))
    one, several, again = (
        HiddenMarkov(num_restarts=number, **settings).fit(demos).model.score(rows, demos.lengths)  # type: ignore[arg-type]
        for number in (1, 4, 4)
    )
    assert several > one + 100  # the first beginning is one of the four, and here a poor one
    assert several == again


def test_the_posterior_is_the_sum_over_all_paths() -> None:
    rng = np.random.default_rng(0)
    K, T, D = 3, 5, 2
    model = SimpleNamespace(
        startprob_=np.array([0.5, 0.5, 0.0]),
        transmat_=rng.dirichlet(np.ones(K), K),
        means_=rng.normal(size=(K, D)),
        covars_=np.stack([np.diag(row) for row in rng.uniform(0.5, 2.0, (K, D))]),
    )
    rows = rng.normal(size=(T, D))
    spreads = np.sqrt(np.diagonal(model.covars_, axis1=1, axis2=2))
    emission = norm.pdf(rows[:, None], model.means_, spreads).prod(axis=-1)
    states, changes, total = np.zeros((T, K)), np.zeros(T), 0.0
    for path in map(list, itertools.product(range(K), repeat=T)):
        weight = model.startprob_[path[0]] * emission[np.arange(T), path].prod()
        weight *= model.transmat_[path[:-1], path[1:]].prod()
        states[np.arange(T), path] += weight
        changes[1:] += weight * (np.diff(path) != 0)
        total += weight
    found = posterior_of(model, rows)
    np.testing.assert_allclose(found.state_probs, states / total, atol=1e-12)
    np.testing.assert_allclose(found.change_probs, changes / total, atol=1e-12)


def test_more_states_than_there_is_to_see() -> None:
    """Six kinds of nothing: states without steps must not become states without numbers."""
    fitted = HiddenMarkov(num_states=6, num_restarts=2, view=View("actions")).fit(plateaus(10))
    assert np.isfinite(fitted.model.means_).all()
    assert (fitted.model.startprob_ > 0).all()
    assert (fitted.model.transmat_ > 0).all()
    found = fitted.segment(plateaus(10), 2)
    assert all(len(inner) == 1 for inner in found.boundaries)


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ValueError, match=r"num_restarts is 0: use at least 1"):
        HiddenMarkov(num_restarts=0)
    with pytest.raises(DemonstrationError, match=r"too few for 1000 states: lower num_states"):
        HiddenMarkov(num_states=1000).fit(plateaus(6))
