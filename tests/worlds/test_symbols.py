"""Runs of repeated symbols."""

import itertools

import jax
import numpy as np
from scipy import stats

import compile_il as cil
from compile_il.worlds.demonstrate import draw_episodes
from compile_il.worlds.symbols import SymbolsWorld


def test_runs_are_distinct_symbols_of_one_to_four() -> None:
    demos = cil.demonstrate("symbols", num_demos=2000, num_tasks=4)
    assert demos.observation_shape == (0,)
    assert demos.num_actions == 5
    for actions, boundaries, codes in zip(demos.actions, demos.truth.boundaries, demos.truth.codes, strict=True):
        runs = [(symbol, len(list(group))) for symbol, group in itertools.groupby(actions.tolist())]
        assert [symbol for symbol, _ in runs] == codes.tolist()
        assert len(set(codes.tolist())) == 4
        assert all(1 <= length <= 4 for _, length in runs)
        assert boundaries.tolist() == np.cumsum([length for _, length in runs])[:-1].tolist()


def test_symbols_and_lengths_are_uniform() -> None:
    episodes = draw_episodes(SymbolsWorld(), jax.random.key(0), 0, 20_000)
    tasks = np.asarray(episodes.level.tasks)
    first_run = (np.asarray(episodes.segment_index) == 0).sum(axis=1)
    assert stats.chisquare(np.bincount(tasks[:, 2])).pvalue > 1e-4
    assert stats.chisquare(np.bincount(first_run)[1:]).pvalue > 1e-4


def test_a_cut_demonstration_lists_the_runs_it_began() -> None:
    demos = cil.demonstrate("symbols", num_demos=500, num_tasks=5, max_steps=3)
    assert demos.lengths.max() == 3
    for actions, boundaries, codes in zip(demos.actions, demos.truth.boundaries, demos.truth.codes, strict=True):
        assert codes.tolist() == [symbol for symbol, _ in itertools.groupby(actions.tolist())]
        assert len(boundaries) == len(codes) - 1
