"""Exact inference: boundaries and skills summed out by dynamic programming."""
