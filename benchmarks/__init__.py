"""Measures speed; not part of the tests."""
