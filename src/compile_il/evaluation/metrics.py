"""How good a segmentation is, where the truth is known (paper, appendix "Evaluation details").

Boundaries are scored as in the paper, but for those of empty segments (`boundary_f1`). What segments do is scored by
labels, the skill or the task type of each step, as in the literature on segmenting actions; all demonstrations are
counted together.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compile_il.data import DemonstrationError, Demonstrations
from compile_il.data.segments import Segments

Boundaries = Sequence[NDArray[np.integer]]


Labels = Sequence[NDArray[np.integer]]
"""Labels of steps: for each demonstration, an array with one whole number for each step."""


_NUM_DEALS = 5
"""Random orders of labels whose scores are averaged; one alone is off by about a per cent with hundreds of segments."""


class Scores(NamedTuple):
    """Scores of boundaries, between 0 and 1, over all demonstrations together.

    The paper averages over the boundaries of each demonstration first, which is the same where all have as many.
    """

    boundary_accuracy: float
    """Share of true boundaries that the found boundary of the same index hits exactly."""
    f1: float
    """Harmonic mean of precision and recall of boundary positions, whatever their index."""
    f1_tolerance_1: float
    """F1 of boundary positions, where one step off still counts as a hit."""
    count_accuracy: float
    """Share of demonstrations with the right number of segments."""


def boundary_accuracy(found: Boundaries, true: Boundaries) -> float:
    """1/(M-1) Σ_i 1[found b_i = true b_i], over all demonstrations; a boundary that is missing is a miss.

    It is 1 if there is no true boundary, however many are found: those are for precision and `count_accuracy` to tell.
    """
    pairs = _pairs(found, true)
    hits = sum(int(np.sum(f[: len(t)] == t[: len(f)])) for f, t in pairs)
    num_true = sum(len(t) for _, t in pairs)
    return hits / num_true if num_true else 1.0


def boundary_f1(found: Boundaries, true: Boundaries, tolerance: int = 0) -> float:
    """F1 = 2 precision recall / (precision + recall) of boundary positions (paper, "Evaluation details", F1 score).

    Precision is the share of found boundaries with a true one at most `tolerance` steps away, recall the share of true
    ones with a found one there; a boundary may serve as the match of several, and one that is named twice counts once.

    Deviation: the paper counts all predictions in precision, also those at the very end, behind which segments are
    empty. Here such segments are left out before anything is scored, as no steps belong to them and methods that have
    none are scored alike. So where a model is given more segments than there are, precision may be higher than the
    paper's, which has one wrong prediction more in each demonstration that ends with empty ones.
    """
    pairs = [(np.unique(f), np.unique(t)) for f, t in _pairs(found, true)]
    near = [np.abs(f[:, None] - t[None, :]) <= tolerance for f, t in pairs]
    num_found, num_true = sum(len(f) for f, _ in pairs), sum(len(t) for _, t in pairs)
    if num_found == 0 or num_true == 0:
        return float(num_found == num_true)
    precision = sum(int(n.any(axis=1).sum()) for n in near) / num_found
    recall = sum(int(n.any(axis=0).sum()) for n in near) / num_true
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _pairs(found: Boundaries, true: Boundaries) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Found and true boundaries of each demonstration as pairs of arrays; plain lists will do."""
    if len(found) != len(true) or not len(true):
        raise ValueError(f"There are boundaries of {len(found)} demonstrations and the truth about {len(true)}.")
    complaint = "The boundaries of demonstration {} are not a list of whole numbers."
    lists = enumerate(zip(found, true, strict=True))
    return [(_whole(f, complaint.format(i)), _whole(t, complaint.format(i))) for i, (f, t) in lists]


def _whole(values: Any, complaint: str) -> NDArray[np.int64]:
    """Returns a flat list of whole numbers as int64; anything else raises an error that says `complaint`."""
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise ValueError(complaint)
    if given.size and int(given.max()) > np.iinfo(np.int64).max:
        raise ValueError(complaint)
    return given.astype(np.int64)


def score_boundaries(found: Boundaries, true: Boundaries) -> Scores:
    """Returns all scores of the boundaries found in one set of demonstrations."""
    return Scores(
        boundary_accuracy=boundary_accuracy(found, true),
        f1=boundary_f1(found, true),
        f1_tolerance_1=boundary_f1(found, true, tolerance=1),
        count_accuracy=float(np.mean([len(f) == len(t) for f, t in _pairs(found, true)])),
    )


class LabelScores(NamedTuple):
    """How well skills agree with task types, between 0 and 1.

    How skills are numbered makes no difference, unless several matchings agree equally often: one of them is taken.
    """

    agreement: float
    """max_σ 1/N Σ_t 1[σ(found_t) = true_t] over one-to-one maps σ from skills to task types (Hungarian method).

    The share of steps with the right task type, each skill standing for one type and each type for one skill."""
    nmi: float
    """Normalised mutual information with task types; unlike the others it forgives several skills for one type."""
    mean_iou: float
    """Mean over task types of steps in common over steps of either, with skills matched as for `agreement`."""
    segmental_f1_10: float
    """F1 of whole segments that overlap by 10 % with one of the same type, with skills matched as for `agreement`."""
    segmental_f1_25: float
    """F1 of whole segments that overlap by 25 % with one of the same type, with skills matched as for `agreement`."""
    segmental_f1_50: float
    """F1 of whole segments that overlap by 50 % with one of the same type, with skills matched as for `agreement`."""
    agreement_by_chance: float
    """The agreement of the same segments with skills dealt out to them at random: what a model has that says nothing
    about task types. It is far from zero where there are few types, or few demonstrations for many skills."""
    nmi_by_chance: float
    """The mutual information `nmi` of the same segments with skills dealt out to them at random."""


def step_labels(boundaries: Boundaries, codes: Labels, lengths: Sequence[int] | NDArray[np.integer]) -> Labels:
    """The code of each step, from inner boundaries, the codes of the segments between them, and numbers of steps."""
    if not len(boundaries) == len(codes) == len(lengths):
        raise ValueError(
            f"There are boundaries of {len(boundaries)} demonstrations, codes of {len(codes)} and lengths of "
            f"{len(lengths)}: give all three of the same."
        )
    return [_labels_of(i, *each) for i, each in enumerate(zip(boundaries, codes, lengths, strict=True))]


def _labels_of(number: int, inner: NDArray[np.integer], codes: NDArray[np.integer], length: int) -> NDArray[np.int64]:
    complaint = f"Demonstration {number}: give one code more than inner boundaries, all whole numbers."
    starts, names = _whole(inner, complaint), _whole(codes, complaint)
    if len(names) != len(starts) + 1:
        raise ValueError(complaint)
    if (np.diff(starts, prepend=0, append=length) < 1).any():
        raise ValueError(
            f"The boundaries of demonstration {number} are {starts.tolist()}, and it has {length} steps: give the "
            "first step of each segment but the first, in order, with at least one step in each."
        )
    return names[np.searchsorted(starts, np.arange(length), side="right")]


def score_labels(found: Labels, true: Labels) -> LabelScores:
    """Compares the skill of each step with its true task type."""
    matched = match_labels(found, true)
    random = [shuffled_labels(found, seed) for seed in range(_NUM_DEALS)]
    return LabelScores(
        agreement=_share_equal(matched, true),
        nmi=normalised_mutual_information(found, true),
        mean_iou=mean_iou(matched, true),
        segmental_f1_10=segmental_f1(matched, true, overlap=0.10),
        segmental_f1_25=segmental_f1(matched, true, overlap=0.25),
        segmental_f1_50=segmental_f1(matched, true, overlap=0.50),
        agreement_by_chance=float(np.mean([_share_equal(match_labels(labels, true), true) for labels in random])),
        nmi_by_chance=float(np.mean([normalised_mutual_information(labels, true) for labels in random])),
    )


def _share_equal(matched: Labels, true: Labels) -> float:
    return float(np.mean(np.concatenate(matched) == np.concatenate(true)))


def shuffled_labels(labels: Labels, seed: int) -> Labels:
    """Labels of the same segments, dealt out to them in a random order over all demonstrations."""
    runs = [_runs(np.asarray(part)) for part in labels]
    shuffled = np.random.default_rng(seed).permutation(np.concatenate([run.labels for run in runs]))
    dealt = np.split(shuffled, np.cumsum([len(run.labels) for run in runs])[:-1])
    return [np.repeat(names, run.ends - run.starts) for names, run in zip(dealt, runs, strict=True)]


def match_labels(found: Labels, true: Labels) -> Labels:
    """Found labels in the words of the truth: each is renamed to the one task type that the best matching gives it.

    The matching is one to one and has the most steps in common. Labels that are left over, where there are more of them
    than types, become negative numbers, which are no type.
    """
    from scipy.optimize import linear_sum_assignment  # takes half a second, which most uses of the package need not pay

    ours, theirs = _checked_labels(found, true)
    counts = _count_pairs(ours, theirs)
    # Labels that are left over are numbered below every true label, so that none is right by chance.
    lowest = min(int(counts.true.min()), 0)
    names = lowest - 1 - np.arange(len(counts.found))
    rows, columns = linear_sum_assignment(counts.pairs, maximize=True)
    names[rows] = counts.true[columns]
    return [names[np.searchsorted(counts.found, part)] for part in ours]


def normalised_mutual_information(found: Labels, true: Labels) -> float:
    """2 I(found; true) / (H(found) + H(true)), over steps; 1 where there is one label on either side."""
    joint = _count_pairs(*_checked_labels(found, true)).pairs / sum(map(len, true))
    entropies = _entropy(joint.sum(axis=1)) + _entropy(joint.sum(axis=0))
    if entropies == 0:
        return 1.0
    return max(2 * (entropies - _entropy(joint.ravel())) / entropies, 0.0)


def mean_iou(found: Labels, true: Labels) -> float:
    """Mean over true labels c of |found = c and true = c| / |found = c or true = c|, counted in steps.

    Labels must have the same meaning on both sides; see `match_labels`.
    """
    ours, theirs = map(np.concatenate, _checked_labels(found, true))
    masks = [(ours == label, theirs == label) for label in np.unique(theirs)]
    return float(np.mean([np.sum(a & b) / np.sum(a | b) for a, b in masks]))


def segmental_f1(found: Labels, true: Labels, overlap: float) -> float:
    """F1 of segments, where one is found if it overlaps enough with a true one of its label (Lea et al., CVPR 2017).

    A segment is a run of steps with one label. From left to right, each found segment is compared with the true segment
    of the same label of which it shares most, measured as steps in common over steps of either. It is a hit if that is
    at least `overlap` and no other has hit the same before. Deviation: hits are counted over all demonstrations, as
    boundaries are, where Lea et al. average the F1 of each.

    Labels must have the same meaning on both sides; see `match_labels`.
    """
    if not 0 < overlap <= 1:
        raise ValueError(f"overlap is {overlap}: use a share above 0 and up to 1, such as 0.5.")
    ours, theirs = ([_runs(part) for part in parts] for parts in _checked_labels(found, true))
    hits = sum(_num_hits(f, t, overlap) for f, t in zip(ours, theirs, strict=True))
    return 2 * hits / (sum(len(f.labels) for f in ours) + sum(len(t.labels) for t in theirs))


class Summary(NamedTuple):
    """One score over several seeds."""

    mean: float
    std: float
    """Standard deviation with ddof = 1; NaN for a single seed."""
    low: float
    """Lower end of the 95 % interval of the mean."""
    high: float


def summarise(values: Sequence[float], *, num_resamples: int = 10_000, seed: int = 0) -> Summary:
    """Mean, spread and a 95 % interval of the mean by the percentile bootstrap.

    With few seeds the interval is narrow, as a resample never leaves their range: of five it covers the mean of what
    they were drawn from about 85 times in 100.
    """
    given = np.asarray(values, np.float64)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"Values have the shape {given.shape}: give a list with one number for each seed.")
    if not np.isfinite(given).all():
        raise ValueError(f"Values are {list(values)}: leave out what is no number.")
    chosen = np.random.default_rng(seed).integers(0, len(given), (num_resamples, len(given)))
    low, high = np.percentile(given[chosen].mean(axis=1), [2.5, 97.5])
    std = float(given.std(ddof=1)) if len(given) > 1 else float("nan")
    return Summary(float(given.mean()), std, float(low), float(high))


class _Counts(NamedTuple):
    """Number of steps with each pair of a found and a true label."""

    found: NDArray[np.integer]
    true: NDArray[np.integer]
    pairs: NDArray[np.int64]


def _count_pairs(found: list[NDArray[np.int64]], true: list[NDArray[np.int64]]) -> _Counts:
    ours, our_index = np.unique(np.concatenate(found), return_inverse=True)
    theirs, their_index = np.unique(np.concatenate(true), return_inverse=True)
    pairs = np.bincount(our_index * len(theirs) + their_index, minlength=len(ours) * len(theirs))
    return _Counts(ours, theirs, pairs.reshape(len(ours), len(theirs)))


def _checked_labels(found: Labels, true: Labels) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Found and true labels as arrays, one for each demonstration; plain lists will do."""
    if len(found) != len(true) or len(true) == 0:
        raise ValueError(f"There are labels of {len(found)} and of {len(true)} demonstrations: give both of the same.")
    pairs = [_checked_pair(i, f, t) for i, (f, t) in enumerate(zip(found, true, strict=True))]
    return [f for f, _ in pairs], [t for _, t in pairs]


def _checked_pair(number: int, found: Any, true: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if len(found) != len(true) or len(true) == 0:
        raise ValueError(
            f"Demonstration {number} has {len(found)} found labels and {len(true)} true ones: give one for each step."
        )
    ours, theirs = (
        _whole(
            part,
            f"Labels of demonstration {number} are {part.dtype} of shape {part.shape}: give one whole number for each "
            "step. Gaussian codes are not labels.",
        )
        for part in map(np.asarray, (found, true))
    )
    return ours, theirs


def _entropy(probs: NDArray[np.float64]) -> float:
    some = probs[probs > 0]
    return float(-np.sum(some * np.log(some)))


class _Runs(NamedTuple):
    """Stretches of equal labels in one demonstration; ends are exclusive."""

    labels: NDArray[np.integer]
    starts: NDArray[np.integer]
    ends: NDArray[np.integer]


def _runs(labels: NDArray[np.integer]) -> _Runs:
    starts = np.append(0, 1 + np.flatnonzero(labels[1:] != labels[:-1]))
    return _Runs(labels[starts], starts, np.append(starts[1:], len(labels)))


def _num_hits(found: _Runs, true: _Runs, overlap: float) -> int:
    used = np.zeros(len(true.labels), bool)
    for label, start, end in zip(*found, strict=True):
        shared = np.minimum(end, true.ends) - np.maximum(start, true.starts)
        either = np.maximum(end, true.ends) - np.minimum(start, true.starts)
        iou = np.where(label == true.labels, np.maximum(shared, 0) / either, 0.0)
        best = int(np.argmax(iou))
        if iou[best] >= overlap:
            used[best] = True
    return int(used.sum())


def score(found: Segments, demos: Demonstrations) -> Scores:
    """Scores the boundaries found against the truth of the demonstrations."""
    if demos.truth.boundaries is None:
        raise unknown_truth()
    return score_boundaries(found.boundaries, demos.truth.boundaries)


def unknown_truth() -> DemonstrationError:
    """Returns the error for demonstrations whose truth is not known, and that cannot be scored."""
    return DemonstrationError("The true boundaries of these demonstrations are not known: there is nothing to score.")
