"""Speed, measured; not part of the tests."""
