"""Segments by a Gaussian hidden Markov model (hmmlearn): skills are states, boundaries where the state changes."""

import dataclasses
import logging
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import logsumexp

from compile_il.baselines.base import Cuts, counts_of, import_baseline_library, require_demonstrations, strongest
from compile_il.baselines.features import MOST_ROWS, Features, View
from compile_il.config import CompileError
from compile_il.data import DemonstrationError, Demonstrations

WEAK = 1e-3
"""Weight of priors in steps: as good as none, but a state that loses all its steps has a mean to return to."""


@dataclasses.dataclass(frozen=True)
class HiddenMarkov:
    """Settings of a hidden Markov model: Gaussians of diagonal covariance, fitted by expectation maximisation."""

    num_states: int = 10
    """Number of states, by default as many as CompILE has skills."""
    num_restarts: int = 5
    """Number of trainings from different starts (k-means of the features); the most likely one is kept."""
    num_iterations: int = 50
    """Most steps of expectation maximisation in each training."""
    view: View = dataclasses.field(default_factory=lambda: View(relative=True))
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_states", "num_restarts", "num_iterations"):
            if getattr(self, name) < 1:
                raise CompileError(f"{name} is {getattr(self, name)}: use at least 1.")

    def fit(self, demos: Demonstrations) -> "HiddenMarkovCuts":
        """Trains several times, and returns the most likely model."""
        require_demonstrations(demos)
        import_baseline_library("hmmlearn.hmm")
        if demos.num_steps < self.num_states:
            raise DemonstrationError(
                f"There are {demos.num_steps} steps, too few for {self.num_states} states: lower num_states."
            )
        features = Features.of(demos, self.view)
        rows, lengths = np.concatenate(features(demos)), demos.lengths
        logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # of likelihoods at a standstill
        with warnings.catch_warnings(), import_baseline_library("threadpoolctl").threadpool_limits(1):
            # Products of small matrices take longer with several threads; k-means warns of few distinct features.
            warnings.filterwarnings("ignore", module="sklearn")
            models = [self._untrained(rows, restart).fit(rows, lengths) for restart in range(self.num_restarts)]
            best = max(models, key=lambda model: model.score(rows, lengths))
        return HiddenMarkovCuts(features, best)

    def _untrained(self, rows: NDArray[np.float64], restart: int) -> Any:
        """Returns a model to start from; hmmlearn's own k-means is the best of ten, and restarts would be alike."""
        rng = np.random.default_rng([self.seed, restart])
        some = rows[rng.choice(len(rows), min(len(rows), MOST_ROWS), replace=False)]
        seed = int(rng.integers(1 << 31))
        model = import_baseline_library("hmmlearn.hmm").GaussianHMM(
            self.num_states,
            "diag",
            n_iter=self.num_iterations,
            init_params="stc",
            random_state=seed,
            startprob_prior=1 + WEAK,
            transmat_prior=1 + WEAK,
            means_weight=WEAK,
        )
        clusters = import_baseline_library("sklearn.cluster").KMeans(self.num_states, n_init=1, random_state=seed)
        model.means_ = clusters.fit(some).cluster_centers_
        return model


@dataclasses.dataclass(frozen=True)
class HiddenMarkovCuts:
    """A trained hidden Markov model, which cuts where its state changes."""

    features: Features
    model: Any
    """A trained `hmmlearn.hmm.GaussianHMM`."""

    def segment(self, demos: Demonstrations, num_segments: int | Sequence[int]) -> Cuts:
        """Cuts where the state changes along the most probable path (Viterbi).

        Where the path has too many changes, those stay that are most probable under the posterior over all paths,
        P(z_t ≠ z_{t-1} | x); where it has too few, the most probable of the other steps join them. A segment's label
        is the state with most posterior probability in it.
        """
        counts = counts_of(demos, num_segments)
        boundaries, labels = zip(*map(self._cut, self.features(demos), counts), strict=True)
        return Cuts(list(boundaries), list(labels))

    def _cut(self, rows: NDArray[np.float64], num_segments: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        path = self.model.predict(rows)
        posterior = posterior_of(self.model, rows)
        on_path = np.diff(path, prepend=path[0]) != 0
        # The path's changes come first if there are too few, and alone if there are too many.
        inner = strongest(posterior.change_probs + on_path, num_segments - 1)
        segment_index = np.searchsorted(inner, np.arange(len(rows)), side="right")
        mass = np.stack([posterior.state_probs[segment_index == m].sum(axis=0) for m in range(num_segments)])
        return inner, mass.argmax(axis=1)[segment_index].astype(np.int32)


class StatePosterior(NamedTuple):
    """Probabilities of each step's hidden state z_t, given all steps x of a demonstration."""

    state_probs: Float[np.ndarray, "T K"]
    """P(z_t = k | x)."""
    change_probs: Float[np.ndarray, " T"]
    """P(z_t ≠ z_{t-1} | x); zero at the first step."""


def posterior_of(model: Any, rows: Float[np.ndarray, "T D"]) -> StatePosterior:
    """Computes probabilities of states and of changes by sums over all paths; hmmlearn keeps the latter to itself.

    With α_t(k) = p(x_0..x_t, z_t = k) and β_t(k) = p(x_{t+1}.. | z_t = k),

        P(z_t = k | x) ∝ α_t(k) β_t(k),    P(z_t = z_{t-1} | x) = Σ_k α_{t-1}(k) A_kk p(x_t | k) β_t(k) / p(x).
    """
    variances = np.diagonal(model.covars_, axis1=1, axis2=2)
    distances = (rows[:, None] - model.means_) ** 2 / variances
    emission = -0.5 * np.sum(distances + np.log(2 * np.pi * variances), axis=-1)
    with np.errstate(divide="ignore"):  # what never happened in training has probability zero
        log_start, log_next = np.log(model.startprob_), np.log(model.transmat_)
    forward, backward = np.zeros_like(emission), np.zeros_like(emission)
    forward[0] = log_start + emission[0]
    for t in range(1, len(rows)):
        forward[t] = logsumexp(forward[t - 1][:, None] + log_next, axis=0) + emission[t]
    for t in range(len(rows) - 2, -1, -1):
        backward[t] = logsumexp(log_next + emission[t + 1] + backward[t + 1], axis=1)
    log_total = logsumexp(forward[-1])
    stay = forward[:-1] + np.diagonal(log_next) + emission[1:] + backward[1:] - log_total
    change_probs = 1 - np.exp(logsumexp(stay, axis=1))
    return StatePosterior(np.exp(forward + backward - log_total), np.append(0.0, np.clip(change_probs, 0, 1)))
