"""What holds for all baselines, and the one that does not look."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compile_il
from compile_il.baselines.base import Baseline, Cuts, Segmenter, best_on, evaluate_cuts, strongest
from compile_il.baselines.change_points import ChangePoints, EqualCuts
from compile_il.baselines.hmm import HiddenMarkov
from compile_il.baselines.learned import LSTMSurprisal
from compile_il.config import Config
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.baselines.cases import plateaus

SMALL = Config(num_iterations=2, batch_size=4, hidden_dim=8)
ALL = [
    EqualCuts(),
    ChangePoints("dynp"),
    ChangePoints("kernel"),
    HiddenMarkov(num_states=3, num_restarts=1, num_iterations=3),
    LSTMSurprisal(SMALL),
]


@pytest.mark.parametrize("baseline", ALL, ids=lambda each: f"{type(each).__name__}-{getattr(each, 'method', '')}")
def test_every_baseline_cuts_into_the_given_number_of_segments(baseline: Any) -> None:
    demos = plateaus(6)
    assert isinstance(baseline, Baseline)
    fitted = baseline.fit(demos)
    assert isinstance(fitted, Segmenter)
    counts = [1, 2, 3, 4, int(demos.lengths[4]), 3]
    found = fitted.segment(demos, counts)
    for inner, count, length in zip(found.boundaries, counts, demos.lengths, strict=True):
        assert inner.dtype == np.int32
        assert len(inner) == count - 1
        assert (np.diff(inner, prepend=0, append=length) > 0).all()
    if found.labels is not None:
        assert [len(row) for row in found.labels] == list(demos.lengths)
    with pytest.raises(DemonstrationError, match=r"too few for 99 segments"):
        fitted.segment(demos, 99)
    with pytest.raises(DemonstrationError, match=r"give a whole number, or one for each of the 6"):
        fitted.segment(demos, [1, 2])
    with pytest.raises(DemonstrationError, match=r"given a str: make them of a world"):
        fitted.segment("grid-pickup", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("baseline", ALL[1:], ids=lambda each: f"{type(each).__name__}-{getattr(each, 'method', '')}")
def test_other_spaces_are_refused(baseline: Any) -> None:
    wider = Demonstrations.from_arrays([np.zeros((5, 7))], [np.zeros(4, int)], num_actions=2)
    with pytest.raises(DemonstrationError, match=r"(?s)these demonstrations .* same spaces"):
        baseline.fit(plateaus(6)).segment(wider, 2)


@pytest.mark.parametrize(("baseline", "library"), [(ChangePoints(), "ruptures"), (HiddenMarkov(), "hmmlearn.hmm")])
def test_a_missing_library_is_named_with_its_extra(baseline: Any, library: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # importing it now fails
    with pytest.raises(ImportError, match=rf"needs {library}, an extra: pip install 'compile-il\[baselines\]'"):
        baseline.fit(plateaus(6))


@pytest.mark.parametrize("baseline", [EqualCuts(), ChangePoints(), HiddenMarkov()], ids=["equal", "ruptures", "hmm"])
def test_the_name_of_a_world_is_refused(baseline: Any) -> None:
    with pytest.raises(DemonstrationError, match=r"given a str: make them of a world with cil\.demonstrate"):
        baseline.fit("grid-pickup")


def test_equal_cuts_by_hand() -> None:
    demos = Demonstrations.from_arrays(None, [np.zeros(7, int), np.zeros(4, int), np.zeros(9, int)], num_actions=2)
    found = EqualCuts().fit(demos).segment(demos, [3, 4, 3]).boundaries
    np.testing.assert_array_equal(np.concatenate(found), [2, 4, 1, 2, 3, 3, 6])


@given(st.integers(1, 40), st.data())
def test_equal_cuts_differ_by_a_step_at_most(length: int, data: Any) -> None:
    count = data.draw(st.integers(1, length))
    demos = Demonstrations.from_arrays(None, [np.zeros(length, int)], num_actions=2)
    (inner,) = EqualCuts().segment(demos, count).boundaries
    durations = np.diff(inner, prepend=0, append=length)
    assert len(durations) == count
    assert durations.max() - durations.min() <= 1


def test_scores_are_those_of_models() -> None:
    """Of four true boundaries two are found, and of 12 steps 10 have the right type."""
    steps = [np.zeros(6, int)] * 2
    demos = Demonstrations.from_arrays(None, steps, num_actions=2).with_truth([[2, 4], [2, 4]], [[5, 6, 7], [5, 6, 7]])
    found = [np.array([2, 4], np.int32), np.array([1, 5], np.int32)]
    only_cuts = evaluate_cuts(Cuts(found, None), demos)
    assert (only_cuts.boundary_accuracy, only_cuts.count_accuracy) == (0.5, 1.0)
    assert (only_cuts.agreement, only_cuts.online, only_cuts.reconstruction) == (None, None, None)
    labelled = evaluate_cuts(Cuts(found, [np.array([1, 1, 2, 2, 3, 3]), np.array([1, 2, 2, 2, 2, 3])]), demos)
    assert labelled.agreement == 10 / 12
    unnamed = demos.with_truth(demos.truth.boundaries)
    assert evaluate_cuts(Cuts(found, [np.zeros(6, int)] * 2), unnamed) == only_cuts
    with pytest.raises(DemonstrationError, match=r"nothing to score: give them with demos\.with_truth"):
        evaluate_cuts(Cuts(found, None), demos.with_truth())


def test_what_is_not_a_baseline_needs_none() -> None:
    """Only experiments import them."""
    source = Path(compile_il.__file__).parent
    knowing = [path.relative_to(source) for path in source.rglob("*.py") if "compile_il.baselines" in path.read_text()]
    assert {path.parts[0] for path in knowing} == {"baselines"}


def test_the_strongest_steps_in_order_of_time() -> None:
    scores = np.array([9.0, 0.1, 0.7, 0.7, 0.9, 0.2])
    np.testing.assert_array_equal(strongest(scores, 2), [2, 4])  # never step 0, and of equal ones the first
    np.testing.assert_array_equal(strongest(scores, 0), [])
    np.testing.assert_array_equal(strongest(scores, 5), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(strongest(np.tile([0.0, 1.0, 2.0], 100), 3), [2, 5, 8])


def test_labels_of_validation_levels_are_hidden_while_settings_are_chosen() -> None:
    class Peeping(EqualCuts):
        def segment(self, demos: Demonstrations, num_segments: Any) -> Cuts:
            assert demos.labels is None
            return super().segment(demos, num_segments)

    labelled = plateaus(6).reveal()
    assert labelled.labels is not None
    assert best_on([Peeping()], labelled, labelled).baseline == Peeping()
