"""Scores segmentations and skills, and writes results."""
