"""What decoders say of a relaxed model, beside plain sums: the recognition model's cuts, and every segmentation."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

from compile_il.config import Config
from compile_il.data.batch import batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.inference.exact import engine as exact
from compile_il.inference.exact.segment_scores import point_mass
from compile_il.inference.relaxed.decode import decode_by_recognition
from compile_il.inference.relaxed.skills import RelaxedSkills
from tests.twins import relaxed_twin as twin
from tests.twins.enumerate_segmentations import Path, log_sum, paths
from tests.twins.read_networks import (
    action_prob,
    action_vectors,
    policy_table,
    recognition_inputs,
    recognition_of,
    seen_by_policies,
)
from tests.twins.test_relaxed_losses import (
    CONFIG,
    FLOOR,
    LABEL_CODES,
    LABEL_ENDS,
    LENGTHS,
    demonstrations,
    networks,
    with_labels,
)

RATE, MAX_LENGTH, MOST = 2.5, 10, 4
COUNTS = (3, 4, 4, 1)
"""Segments of each demonstration without labels; four in three steps leave one empty."""
SEED = 17
"""Of networks that cut where something is left; most of those that are not trained go to the end at once."""
GAUSSIAN = {"codes": "gaussian", "readout": "attentive"}
FORGETFUL: dict[str, Any] = {"recurrent": True, "forgetful": True}


class Segment(NamedTuple):
    end: int
    code: Any
    log_prob: float  # of its boundary, its code and its actions


def cut_up(
    skills: RelaxedSkills, demos: Demonstrations, i: int, count: int, config: Config, labelled: bool
) -> list[Segment]:
    """One segment after the other, each with all that it adds to the log-likelihood."""
    length, vectors, p = LENGTHS[i], action_vectors(demos, i), recognition_of(skills.recognition)
    inputs = recognition_inputs(skills, demos.observations[i], vectors)
    ends, codes = (LABEL_ENDS.get(i), LABEL_CODES.get(i)) if labelled else (None, None)
    begin, segments = 0, []
    for m in range(count):
        end, logits = length, p.code_bias  # an empty segment has seen nothing
        if begin < length:
            known = length if m == count - 1 else ends and ends[m]
            spare = (
                count - 1 - m if codes else 0
            )  # a step for each segment that is still to come, where they are listed
            end, _, logits = twin.cut(p, inputs, begin, length, known, config.readout, spare)
        code, log_prob = choose(logits, config, codes and codes[m])
        behind = (np.arange(length + 1) >= begin).astype(float)
        seen = seen_by_policies(skills, demos.observations[i], vectors, behind)
        for t in range(begin, end):
            log_prob += np.log(action_prob(skills, seen[t], vectors[t], code, FLOOR))
        if m < count - 1:
            log_prob += np.log(twin.boundary_prior(begin, length, length + 1, RATE)[end])
        segments.append(Segment(end, code, log_prob))
        begin = end
    return segments


def choose(logits: np.ndarray, config: Config, label: int | None) -> tuple[Any, float]:
    """The code of a segment and its log prior, or less the divergence from it where it is an inferred Gaussian."""
    if config.codes == "categorical":
        return int(np.argmax(logits)) if label is None else label, -np.log(config.num_skills)
    mean, log_variance = np.split(logits, 2)
    expected = np.zeros(config.code_dim) if label is None else np.sqrt(config.code_dim) * np.eye(config.code_dim)[label]
    return mean if label is None else expected, -twin.gaussian_code_kl(mean - expected, log_variance)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(
    ("settings", "continuous"),
    [({}, False), (GAUSSIAN, True), (FORGETFUL, False), (GAUSSIAN | FORGETFUL, True)],
    ids=["categorical", "gaussian", "forgetful", "forgetful, gaussian"],
)
def test_the_likelihood_of_segments_by_recognition(settings: dict[str, Any], continuous: bool, labelled: bool) -> None:
    """Actions given codes, boundaries given those before them, and codes; the last boundary is known."""
    config, demos = dataclasses.replace(CONFIG, **settings), demonstrations(continuous)
    skills = networks(demos, config, SEED)
    demos = with_labels(demos) if labelled else demos
    counts = (3,) * len(LENGTHS) if labelled else COUNTS
    log_counts = jnp.stack([point_mass(count, MOST) for count in counts])
    batch = batch_of(demos.storage, sum(LENGTHS) + 12, MAX_LENGTH)
    found = decode_by_recognition(skills, batch, log_counts, RATE, config.readout)
    assert (found.num_segments[:2] >= 3).all()
    for i, count in enumerate(counts):
        segments = cut_up(skills, demos, i, count, config, labelled)
        np.testing.assert_array_equal(found.ends[i][:count], [segment.end for segment in segments])
        codes = np.array([segment.code for segment in segments])
        np.testing.assert_allclose(found.skills[i][:count], codes, rtol=1e-5, atol=1e-6)
        total = sum(segment.log_prob for segment in segments)
        np.testing.assert_allclose(found.log_likelihood[i], total, rtol=1e-5)


def every_path(policy: np.ndarray, count_probs: np.ndarray) -> list[Path]:
    """All segmentations of one demonstration, with the paper's priors: uniform skills, and a Poisson of one or more."""
    length, num_skills = policy.shape
    durations, nothing = np.arange(length + 1), np.zeros_like(policy)
    log_duration = poisson.logpmf(durations, RATE) - np.log(poisson.sf(0, RATE))
    scores = np.log(policy), nothing, nothing, np.full(num_skills, -np.log(num_skills)), log_duration
    return [
        path._replace(log_prob=path.log_prob + np.log(count_probs[m]))
        for m in range(1, len(count_probs))
        for path in paths(*scores, length=length, num_segments=m)
    ]


def test_sums_over_all_segmentations() -> None:
    demos, count_probs = demonstrations(continuous=True), np.array([1e-30, 0.3, 0.2, 0.5])
    skills = networks(demos, CONFIG)
    batch = batch_of(demos.storage, sum(LENGTHS) + 12, MAX_LENGTH)
    log_counts = jnp.tile(jnp.log(jnp.asarray(count_probs)), (len(demos), 1))
    found = exact.decode(skills, CONFIG, RATE, batch, log_counts, "path")
    for i, length in enumerate(LENGTHS):
        every = every_path(policy_table(skills, demos.observations[i], action_vectors(demos, i), FLOOR), count_probs)
        total, best = log_sum([path.log_prob for path in every]), max(every, key=lambda path: path.log_prob)
        np.testing.assert_allclose(found.log_likelihood[i], total, rtol=1e-5)
        num_segments = int(found.num_segments[i])
        assert tuple(found.ends[i][:num_segments].tolist()) == best.ends
        assert tuple(found.skills[i][:num_segments].tolist()) == best.skills
        boundary_probs, by_count = np.zeros(length), np.zeros(len(count_probs))
        for path in every:
            boundary_probs[list(path.ends[:-1])] += np.exp(path.log_prob - total)
            by_count[len(path.ends)] += np.exp(path.log_prob - total)
        np.testing.assert_allclose(found.boundary_probs[i][:length], boundary_probs, atol=1e-5)
        np.testing.assert_allclose(found.count_probs[i], by_count, atol=1e-5)
