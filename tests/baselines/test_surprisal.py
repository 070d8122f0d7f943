"""A policy with a memory is surprised where something new begins."""

import dataclasses

import numpy as np
import pytest

import compile_il as cil
from compile_il.baselines.learned import NEGLIGIBLE, LSTMSurprisal, SurprisalCuts, surprisal_settings
from compile_il.config import Config
from compile_il.evaluation.metrics import boundary_f1
from compile_il.training.sources import training_world
from experiments.ablations import runner
from tests.inference.exact.small import small_model, vector_demos

SYMBOLS = Config(num_segments=3, num_iterations=300, batch_size=32, hidden_dim=16, learning_rate=1e-2, num_seeds=2)


@pytest.fixture(scope="module")
def trained() -> list[SurprisalCuts]:
    models = runner.train(training_world("symbols", 3), surprisal_settings(SYMBOLS))
    return [SurprisalCuts(model) for model in models]


def test_new_symbols_come_as_a_surprise(trained: list[SurprisalCuts]) -> None:
    """A run goes on with probability 3/4, 2/3, 1/2 and 0, and where it ends there are four symbols to go on with."""
    demos = cil.demonstrate("symbols", num_demos=200, num_tasks=3, seed=1)
    assert demos.truth.boundaries is not None
    for cutter in trained:
        assert boundary_f1(cutter.segment(demos, 3).boundaries, demos.truth.boundaries) > 0.99


def test_probabilities_are_those_of_the_world(trained: list[SurprisalCuts]) -> None:
    """Any symbol may come first; after a run of one the same follows with 3/4; after a run of four it never does."""
    demos = cil.Demonstrations.from_arrays(None, [np.array([2, 2, 0, 1, 1, 1, 1, 3])], num_actions=5)
    for cutter in trained:
        (log_probs,) = cutter.log_probs(demos)
        expected = [1 / 5, 3 / 4, (1 / 3) / 4, (1 / 4) / 3]
        np.testing.assert_allclose(np.exp(log_probs[:4]), expected, atol=0.08)


def test_history_counts_and_the_future_does_not(trained: list[SurprisalCuts]) -> None:
    rows = [[0, 0, 0, 1, 1], [0, 0, 0, 1, 2], [1, 0, 0, 1, 1]]
    first, future, past = trained[0].log_probs(cil.Demonstrations.from_arrays(None, [np.array(r) for r in rows]))
    np.testing.assert_allclose(first[:4], future[:4], atol=1e-5)
    assert abs(first[3] - past[3]) > 1e-3


def test_seeds_differ_and_chunks_do_not(trained: list[SurprisalCuts]) -> None:
    demos = cil.demonstrate("symbols", num_demos=300, num_tasks=3, seed=2)
    table = trained[0].log_probs(demos)
    np.testing.assert_allclose(table[290], trained[0].log_probs(demos[[290]])[0], atol=1e-5)
    assert np.abs(table[0] - trained[1].log_probs(demos)[0]).max() > 1e-4


def test_settings_are_those_of_the_model_beside_it() -> None:
    beside = Config(num_segments=4, hidden_dim=24, inference="relaxed", codes="gaussian", beta_codes=0.5)
    settings = surprisal_settings(beside)
    assert (settings.hidden_dim, settings.num_segments, settings.num_skills, settings.recurrent) == (24, 1, 1, True)
    assert settings.termination_weight == NEGLIGIBLE
    floors = [each.resolved().sigma_floor or 0.0 for each in (settings, beside, Config())]
    assert 0 < floors[0] < min(floors[1:]), "boundaries do not decay where none are learned"
    assert surprisal_settings(dataclasses.replace(settings, num_skills=7)) == settings


def test_the_likelihood_that_is_trained_is_that_of_the_actions() -> None:
    cutter = LSTMSurprisal(Config(num_iterations=2, batch_size=4, hidden_dim=8)).fit(vector_demos())
    trained_on = cutter.model.segment(vector_demos()).log_likelihood
    np.testing.assert_allclose(trained_on, [row.sum() for row in cutter.log_probs(vector_demos())], atol=1e-3)


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one skill and a memory: train with surprisal_settings"):
        SurprisalCuts(small_model())
