"""The duration factor against SciPy's Poisson."""

import numpy as np
import pytest
from scipy.stats import poisson

from compile_il.exact.durations import poisson_log_duration


@pytest.mark.parametrize(("rate", "longest"), [(0.5, 4), (3.0, 10), (20.0, 12), (150.0, 400)])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_poisson_of_at_least_one_step(rate: float, weight: float, longest: int) -> None:
    durations = np.arange(1, longest + 1)
    expected = weight * (poisson.logpmf(durations, rate) - np.log(1 - poisson.pmf(0, rate)))
    found = poisson_log_duration(rate, weight, longest)
    assert found.shape == (longest + 1,)
    np.testing.assert_allclose(found[1:], expected, rtol=1e-4, atol=1e-4)


def test_how_long_a_segment_may_be_changes_nothing_else() -> None:
    np.testing.assert_array_equal(poisson_log_duration(7.0, 0.3, 5), poisson_log_duration(7.0, 0.3, 90)[:6])


def test_sums_to_one() -> None:
    np.testing.assert_allclose(np.exp(poisson_log_duration(4.0, 1.0, 60)[1:]).sum(), 1.0, rtol=1e-5)
