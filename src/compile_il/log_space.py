"""The one constant that sums in log space share."""

LOG_ZERO = -1e30
"""Log of an impossible event: far below any real score, yet finite, so that sums and gradients stay numbers."""
