"""Experiments: what is trained, with which settings and seeds, and how it is scored."""
