"""Infers boundaries and skills exactly, by sums over all segmentations."""
