"""Scores segmentations against the truth (paper, appendix "Evaluation details"), and summarises scores of seeds.

Boundaries are scored as in the paper, but for those of empty segments (`boundary_f1`). What segments do is scored by
labels, the skill or the task type of each step, as in the literature on segmenting actions; all demonstrations are
counted together. Boundaries and labels may be arrays or plain lists.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.config import CompileError
from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.segments import Segments

Boundaries = Sequence[NDArray[np.integer]]
Labels = Sequence[NDArray[np.integer]]
"""Labels of steps: for each demonstration, an array with one whole number for each step."""

_NUM_SHUFFLES = 5
"""Random orders of labels whose scores are averaged; one alone is off by about a per cent with hundreds of segments."""


class Scores(NamedTuple):
    """Scores of boundaries, between 0 and 1, over all demonstrations together; the paper averages each one's first."""

    boundary_accuracy: float
    """Share of true boundaries that the predicted boundary of the same index hits exactly."""
    f1: float
    """Harmonic mean of precision and recall of boundary positions, whatever their index."""
    f1_tolerance_1: float
    """F1 of boundary positions, where one step off still counts as a hit."""
    count_accuracy: float
    """Share of demonstrations with the right number of segments."""


def score(found: Segments, demos: Demonstrations) -> Scores:
    """Scores the boundaries of a segmentation against the truth of the demonstrations."""
    return score_boundaries(found.boundaries, true_boundaries(demos))


def true_boundaries(demos: Demonstrations) -> Boundaries:
    """Returns the true boundaries of demonstrations, or raises an error where there are none."""
    if demos.truth.boundaries is None:
        raise DemonstrationError(
            "The true boundaries of these demonstrations are not known, and there is nothing to score: give them with "
            "demos.with_truth(boundaries=...), or use `compile-il segment` or `report`, which need no truth."
        )
    return demos.truth.boundaries


def score_boundaries(predicted: Boundaries, true: Boundaries) -> Scores:
    """Computes all scores of boundaries."""
    return Scores(
        boundary_accuracy=boundary_accuracy(predicted, true),
        f1=boundary_f1(predicted, true),
        f1_tolerance_1=boundary_f1(predicted, true, tolerance=1),
        count_accuracy=float(np.mean([len(p) == len(t) for p, t in _pairs(predicted, true, "boundaries")])),
    )


def boundary_accuracy(predicted: Boundaries, true: Boundaries) -> float:
    """Computes 1/(M-1) Σ_i 1[predicted b_i = true b_i] over all demonstrations; a missing boundary is a miss.

    It is 1 if there is no true boundary, however many are predicted: precision and `count_accuracy` are for those.
    """
    pairs = _pairs(predicted, true, "boundaries")
    hits = sum(int(np.sum(p[: len(t)] == t[: len(p)])) for p, t in pairs)
    num_true = sum(len(t) for _, t in pairs)
    return hits / num_true if num_true else 1.0


def boundary_f1(predicted: Boundaries, true: Boundaries, tolerance: int = 0) -> float:
    """Computes F1 = 2 precision recall / (precision + recall) of boundary positions (paper, "Evaluation details").

    Precision is the share of predicted boundaries with a true one at most `tolerance` steps away, recall the share of
    true ones with a predicted one there; a boundary may match several, and one that is listed twice counts once.

    Deviation: the paper counts predictions at the very end in precision, behind which segments are empty. Here empty
    segments are left out before anything is scored, so that methods without them are scored alike.
    """
    pairs = [(np.unique(p), np.unique(t)) for p, t in _pairs(predicted, true, "boundaries")]
    near = [np.abs(p[:, None] - t[None, :]) <= tolerance for p, t in pairs]
    num_predicted, num_true = sum(len(p) for p, _ in pairs), sum(len(t) for _, t in pairs)
    if num_predicted == 0 or num_true == 0:
        return float(num_predicted == num_true)
    precision = sum(int(n.any(axis=1).sum()) for n in near) / num_predicted
    recall = sum(int(n.any(axis=0).sum()) for n in near) / num_true
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


_Pairs = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Predicted and true boundaries, or labels, of each demonstration."""


def _pairs(predicted: Sequence[Any], true: Sequence[Any], name: str) -> _Pairs:
    """Pairs the lists of the same demonstrations; refuses all but flat lists of whole numbers."""
    if len(predicted) != len(true) or not len(true):
        raise CompileError(
            f"There are {name} of {len(predicted)} and of {len(true)} demonstrations: give both of the same."
        )
    pairs = [(np.asarray(one), np.asarray(other)) for one, other in zip(predicted, true, strict=True)]
    for i, values in ((i, values) for i, pair in enumerate(pairs) for values in pair):
        if values.ndim != 1 or (values.size and not np.issubdtype(values.dtype, np.integer)):
            raise CompileError(
                f"The {name} of demonstration {i} are {values.dtype} of shape {values.shape}, not a list of whole "
                "numbers (Gaussian codes are no labels)."
            )
    return [(one.astype(np.int64), other.astype(np.int64)) for one, other in pairs]


class LabelScores(NamedTuple):
    """Scores of how well skills agree with task types, between 0 and 1, however skills are numbered.

    All but `nmi` match skills one to one with task types, as for `agreement`. Scores by chance are those of the same
    segments with shuffled skills: they are far from zero where there are few types, or few demonstrations for many
    skills.
    """

    agreement: float
    """max_σ 1/N Σ_t 1[σ(skill_t) = type_t] over one-to-one maps σ from skills to task types (Hungarian method)."""
    nmi: float
    """Normalised mutual information with task types; it forgives several skills for one type."""
    mean_iou: float
    """Mean over task types of steps in common over steps of either."""
    segmental_f1_50: float
    """F1 of whole segments that overlap by 50 % with one of the same type."""
    agreement_by_chance: float
    nmi_by_chance: float


def score_labels(predicted: Labels, true: Labels) -> LabelScores:
    """Compares the skill of each step with its true task type."""
    matched = match_labels(predicted, true)
    shuffled = [shuffled_labels(predicted, seed) for seed in range(_NUM_SHUFFLES)]
    return LabelScores(
        agreement=_share_equal(matched, true),
        nmi=normalised_mutual_information(predicted, true),
        mean_iou=mean_iou(matched, true),
        segmental_f1_50=segmental_f1(matched, true, overlap=0.50),
        agreement_by_chance=float(np.mean([_share_equal(match_labels(labels, true), true) for labels in shuffled])),
        nmi_by_chance=float(np.mean([normalised_mutual_information(labels, true) for labels in shuffled])),
    )


def _share_equal(matched: Labels, true: Labels) -> float:
    return float(np.mean(np.concatenate(matched) == np.concatenate(true)))


def step_labels(boundaries: Boundaries, codes: Labels, lengths: Sequence[int] | NDArray[np.integer]) -> Labels:
    """Returns the code of each step, from inner boundaries, codes of the segments between them, and lengths."""
    lists = zip(boundaries, codes, lengths, strict=True)
    return [np.asarray(names)[np.searchsorted(inner, np.arange(n), side="right")] for inner, names, n in lists]


def shuffled_labels(labels: Labels, seed: int) -> Labels:
    """Shuffles the labels of segments over all demonstrations; segments stay where they are."""
    runs = [_runs(np.asarray(part)) for part in labels]
    shuffled = np.random.default_rng(seed).permutation(np.concatenate([run.labels for run in runs]))
    by_demo = np.split(shuffled, np.cumsum([len(run.labels) for run in runs])[:-1])
    return [np.repeat(names, run.ends - run.starts) for names, run in zip(by_demo, runs, strict=True)]


def match_labels(predicted: Labels, true: Labels) -> Labels:
    """Renames each predicted label to the one true label that the best matching gives it.

    The matching is one to one and has the most steps in common. Labels without a partner, where there are more of them
    than true ones, become negative numbers, which are no true label.
    """
    from scipy.optimize import linear_sum_assignment  # takes half a second, which most uses of the package need not pay

    pairs = _label_pairs(predicted, true)
    our_labels, their_labels, counts = _count_pairs(pairs)
    # Labels without a partner are numbered below every true label, so that none is right by chance.
    names = min(int(their_labels.min()), 0) - 1 - np.arange(len(our_labels))
    rows, columns = linear_sum_assignment(counts, maximize=True)
    names[rows] = their_labels[columns]
    return [names[np.searchsorted(our_labels, part)] for part, _ in pairs]


def normalised_mutual_information(predicted: Labels, true: Labels) -> float:
    """Computes 2 I(predicted; true) / (H(predicted) + H(true)) over steps; 1 where either side has one label."""
    _, _, counts = _count_pairs(_label_pairs(predicted, true))
    joint = counts / sum(map(len, true))
    entropies = _entropy(joint.sum(axis=1)) + _entropy(joint.sum(axis=0))
    if entropies == 0:
        return 1.0
    return max(2 * (entropies - _entropy(joint.ravel())) / entropies, 0.0)


def _entropy(probs: NDArray[np.float64]) -> float:
    positive = probs[probs > 0]
    return float(-np.sum(positive * np.log(positive)))


def _count_pairs(pairs: _Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the labels of either side, and the number of steps with each pair of them."""
    predicted, true = map(np.concatenate, zip(*pairs, strict=True))
    ours, our_index = np.unique(predicted, return_inverse=True)
    theirs, their_index = np.unique(true, return_inverse=True)
    counts = np.bincount(our_index * len(theirs) + their_index, minlength=len(ours) * len(theirs))
    return ours, theirs, counts.reshape(len(ours), len(theirs))


def mean_iou(predicted: Labels, true: Labels) -> float:
    """Computes the mean over true labels c of |predicted = c and true = c| / |predicted = c or true = c|, in steps.

    Labels must have the same meaning on both sides; see `match_labels`.
    """
    ours, theirs = map(np.concatenate, zip(*_label_pairs(predicted, true), strict=True))
    masks = [(ours == label, theirs == label) for label in np.unique(theirs)]
    return float(np.mean([np.sum(a & b) / np.sum(a | b) for a, b in masks]))


def segmental_f1(predicted: Labels, true: Labels, overlap: float) -> float:
    """Computes the F1 of segments that overlap enough with a true one of their label (Lea et al., CVPR 2017).

    A segment is a run of steps with one label. From left to right, each predicted segment is compared with the true
    segment of the same label of which it shares most, measured as steps in common over steps of either. It is a hit if
    that is at least `overlap` and no other has hit the same before. Deviation: hits are counted over all
    demonstrations, as boundaries are, where Lea et al. average the F1 of each.

    Labels must have the same meaning on both sides; see `match_labels`.
    """
    if not 0 < overlap <= 1:
        raise CompileError(f"overlap is {overlap}: use a share above 0 and up to 1, such as 0.5.")
    pairs = [(_runs(one), _runs(other)) for one, other in _label_pairs(predicted, true)]
    hits = sum(_num_hits(one, other, overlap) for one, other in pairs)
    return 2 * hits / sum(len(runs.labels) for pair in pairs for runs in pair)


def _label_pairs(predicted: Labels, true: Labels) -> _Pairs:
    pairs = _pairs(predicted, true, "labels")
    for i, (one, other) in enumerate(pairs):
        if len(one) != len(other) or not len(other):
            raise CompileError(
                f"Demonstration {i} has {len(one)} predicted labels and {len(other)} true ones: give one for each step."
            )
    return pairs


class _Runs(NamedTuple):
    """Runs of equal labels in one demonstration; ends are exclusive."""

    labels: NDArray[np.integer]
    starts: NDArray[np.integer]
    ends: NDArray[np.integer]


def _runs(labels: NDArray[np.integer]) -> _Runs:
    starts = np.append(0, 1 + np.flatnonzero(labels[1:] != labels[:-1]))
    return _Runs(labels[starts], starts, np.append(starts[1:], len(labels)))


def _num_hits(predicted: _Runs, true: _Runs, overlap: float) -> int:
    hit = np.zeros(len(true.labels), bool)
    for label, start, end in zip(*predicted, strict=True):
        shared = np.minimum(end, true.ends) - np.maximum(start, true.starts)
        either = np.maximum(end, true.ends) - np.minimum(start, true.starts)
        iou = np.where(label == true.labels, np.maximum(shared, 0) / either, 0.0)
        hit[np.argmax(iou)] |= iou.max() >= overlap
    return int(hit.sum())


class Summary(NamedTuple):
    """One score over several seeds."""

    mean: float
    std: float
    """Standard deviation with ddof = 1; NaN for a single seed."""
    low: float
    """Lower end of the 95 % interval of the mean."""
    high: float


def summarise(values: Sequence[float], *, num_resamples: int = 10_000, seed: int = 0) -> Summary:
    """Computes mean, spread and a 95 % interval of the mean by the percentile bootstrap.

    With few seeds the interval is narrow, as a resample never leaves their range: of five it covers the mean of what
    they were drawn from about 85 times in 100.
    """
    scores = np.asarray(values, np.float64)
    if scores.ndim != 1 or len(scores) == 0:
        raise CompileError(f"Values have the shape {scores.shape}: give a list with one number for each seed.")
    if not np.isfinite(scores).all():
        raise CompileError(f"Values are {list(values)}: leave out what is no number.")
    chosen = np.random.default_rng(seed).integers(0, len(scores), (num_resamples, len(scores)))
    low, high = np.percentile(scores[chosen].mean(axis=1), [2.5, 97.5])
    std = float(scores.std(ddof=1)) if len(scores) > 1 else float("nan")
    return Summary(float(scores.mean()), std, float(low), float(high))
