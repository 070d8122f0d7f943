"""Reproduces the tables and figures of the paper: `python -m experiments.paper NAME`."""
