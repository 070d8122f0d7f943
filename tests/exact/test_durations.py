"""The duration factor against SciPy's Poisson."""

import numpy as np
import pytest
from scipy.stats import poisson

from compile_il.exact.durations import poisson_log_duration


@pytest.mark.parametrize(("rate", "longest"), [(0.5, 4), (3.0, 10), (20.0, 12), (150.0, 400)])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_truncated_and_renormalised(rate: float, weight: float, longest: int) -> None:
    durations = np.arange(1, longest + 1)
    inside = poisson.cdf(longest, rate) - poisson.cdf(0, rate)
    expected = weight * (poisson.logpmf(durations, rate) - np.log(inside))
    found = poisson_log_duration(rate, weight, longest)
    assert found.shape == (longest + 1,)
    np.testing.assert_allclose(found[1:], expected, rtol=1e-4, atol=1e-4)


def test_sums_to_one() -> None:
    np.testing.assert_allclose(np.exp(poisson_log_duration(4.0, 1.0, 9)[1:]).sum(), 1.0, rtol=1e-5)
