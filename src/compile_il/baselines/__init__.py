"""Segments demonstrations in other ways, each as good as its idea allows.

All follow one protocol: `fit` learns from training demonstrations, and what it returns cuts others into segments.

    cutter = ChangePoints(method="kernel").fit(train)
    cuts = cutter.segment(demos, num_segments=3)
    evaluate_cuts(cuts, demos)

| baseline | idea |
|---|---|
| `EqualCuts` | segments of equal length |
| `ChangePoints` | ruptures: where features change most, by squared distance or by a kernel |
| `HiddenMarkov` | hmmlearn: states of a Gaussian hidden Markov model |
| `LSTMSurprisal` | the paper's: actions that a policy with a memory does not expect |
| `vae_bc_settings` | the paper's, for imitation: one code for the whole demonstration, no boundaries |

Change points and hidden Markov models need the extra `baselines`. What they look at is best chosen on levels that are
not reported:

    choice = best_on([ChangePoints(view=view) for view in views_for(train)], train, validation)
"""

from compile_il.baselines.base import Baseline, best_on, evaluate_cuts
from compile_il.baselines.change_points import ChangePoints, EqualCuts
from compile_il.baselines.features import View, views_for
from compile_il.baselines.hmm import HiddenMarkov
from compile_il.baselines.learned import LSTMSurprisal, SurprisalCuts, surprisal_settings, vae_bc_settings, without_end

__all__ = [
    "Baseline",
    "ChangePoints",
    "EqualCuts",
    "HiddenMarkov",
    "LSTMSurprisal",
    "SurprisalCuts",
    "View",
    "best_on",
    "evaluate_cuts",
    "surprisal_settings",
    "vae_bc_settings",
    "views_for",
    "without_end",
]
