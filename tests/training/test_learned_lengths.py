"""Where neither the number of segments nor their length is known, training finds both."""

import pytest

from compile_il.config import TEST_SEED, Config
from compile_il.evaluation.evaluate import score_model
from compile_il.training.fit import fit
from experiments.ablations.way_points import RECORDINGS, mean_length, record


@pytest.mark.slow
def test_visits_of_a_point_robot_are_counted() -> None:
    recording = RECORDINGS["forces, place and velocity"]
    demos = record(recording, 300, seed=0)
    model = fit(demos, config=Config(num_segments=None), progress=False)
    assert score_model(model, record(recording, 100, seed=TEST_SEED)).count_accuracy > 0.85
    assert model.duration_rate < 0.5 * mean_length(demos)
    assert model.expected_length == pytest.approx(mean_length(demos), rel=0.15)
