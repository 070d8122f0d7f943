"""Segmenting demonstrations: shapes, counts, labels, and what is refused."""

import dataclasses
import json
import warnings
from typing import Any

import jax
import numpy as np
import pytest

from compile_il.config import Config, ConfigError
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.segment_counts import CountWarning
from compile_il.data.segments import Segments
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.metrics import score
from compile_il.inference.exact.segment_scores import unknown_count
from compile_il.model import model as segmenting
from tests.inference.exact.small import SMALL, model_for, small_model, vector_demos

COUNT_UNKNOWN = dataclasses.replace(SMALL, num_segments=None, segment_cost=2.0)


def assert_same(one: Segments, other: Segments, rtol: float = 0.0) -> None:
    for field in dataclasses.fields(Segments):
        for a, b in zip(getattr(one, field.name), getattr(other, field.name), strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_one_entry_per_demonstration() -> None:
    demos = vector_demos()
    found = small_model().segment(demos)
    assert len(found) == len(demos) == 4
    assert found.num_segments.tolist() == [3, 3, 3, 3]
    assert found.log_likelihood.shape == (4,)
    for i, n in enumerate(demos.lengths):
        inner = found.boundaries[i]
        assert len(inner) == 2
        assert 0 < inner[0] < inner[1] < n
        assert len(found.labels[i]) == len(found.boundary_probs[i]) == n
        starts, ends = [0, *inner], [*inner, n]
        for skill, start, end in zip(found.skills[i], starts, ends, strict=True):
            assert (found.labels[i][start:end] == skill).all()
        np.testing.assert_allclose(found.boundary_probs[i].sum(), 2, rtol=1e-4)
        np.testing.assert_allclose(found.count_probs[i], [0, 0, 0, 1], atol=1e-5)


def test_segments_can_be_compared() -> None:
    one, other = (small_model().segment(vector_demos()) for _ in range(2))
    assert one == other
    assert one != dataclasses.replace(other, skills=[skills + 1 for skills in other.skills])
    assert one != small_model().segment(vector_demos()[:2])
    assert one != "something else"


def test_counts_may_differ() -> None:
    found = small_model().segment(vector_demos(), [2, 3, 1, 4])
    assert found.num_segments.tolist() == [2, 3, 1, 4]
    assert [len(inner) for inner in found.boundaries] == [1, 2, 0, 3]
    np.testing.assert_allclose([p.sum() for p in found.boundary_probs], [1, 2, 0, 3], rtol=1e-4, atol=1e-5)


def test_counts_may_be_unknown() -> None:
    found = small_model(COUNT_UNKNOWN).segment(vector_demos())
    for i, n in enumerate(vector_demos().lengths):
        assert 1 <= found.num_segments[i] <= min(n, 5)
        assert found.count_probs[i].shape == (6,)
        np.testing.assert_allclose(found.count_probs[i].sum(), 1, rtol=1e-4)
        expected = (found.count_probs[i] * np.arange(6)).sum() - 1
        np.testing.assert_allclose(found.boundary_probs[i].sum(), expected, rtol=1e-3, atol=1e-4)


def test_counts_may_be_given_in_training_and_unknown_later() -> None:
    given, unknown = small_model(), small_model(COUNT_UNKNOWN)
    found = given.segment(vector_demos(), "unknown")
    assert [p.shape for p in found.count_probs] == [(6,)] * 4
    assert all((p[1:5] > 1e-6).sum() > 1 for p in found.count_probs), "other numbers were not considered"
    np.testing.assert_array_equal(found.num_segments, [len(inner) + 1 for inner in found.boundaries])
    assert_same(unknown.segment(vector_demos(), "unknown"), unknown.segment(vector_demos()))
    with pytest.raises(DemonstrationError, match=r"""num_segments is 'many': use a number, a list, or "unknown"."""):
        given.segment(vector_demos(), "many")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        (np.zeros((6, 5, 6, 2), np.uint8), [0, 1, 0, 2, 0], "grid 5x6x2, 3 discrete actions"),
        (np.zeros((6, 7)), np.zeros((5, 2)), "vector of 7, continuous actions of width 2"),
        (np.array([0, 3, 1, 2, 0, 1]), [0, 1, 0, 2, 0], "4 symbols, 3 discrete actions"),
        (None, [0, 1, 0, 2, 0], "no states, 3 discrete actions"),
    ],
)
def test_a_model_is_one_line(observations: np.ndarray | None, actions: list[int] | np.ndarray, words: str) -> None:
    frames = None if observations is None else [observations]
    demos = Demonstrations.from_arrays(frames, [np.asarray(actions)])
    assert repr(model_for(demos)) == f"Model(3 skills, 3 segments, {words}, exact)"
    assert repr(model_for(demos, COUNT_UNKNOWN)) == f"Model(3 skills, any number of segments, {words}, exact)"


@pytest.mark.filterwarnings("ignore::compile_il.data.segment_counts.CountWarning")
def test_segments_that_cost_are_fewer() -> None:
    costly = dataclasses.replace(COUNT_UNKNOWN, segment_cost=1e3)
    assert small_model(costly).segment(vector_demos()).num_segments.tolist() == [1, 1, 1, 1]


def test_samples_are_drawn_from_the_posterior() -> None:
    model, demos = small_model(COUNT_UNKNOWN), vector_demos()
    # One demonstration many times over is many draws of it in one call.
    many = demos[np.zeros(2000, int)]
    drawn, exact = model.sample(many, seed=1), model.segment(demos)
    starts = np.zeros((2000, demos.lengths[0]))
    for row, inner in zip(starts, drawn.boundaries, strict=True):
        row[inner] = 1
    np.testing.assert_allclose(starts.mean(axis=0), exact.boundary_probs[0], atol=0.05)
    counts = np.bincount(drawn.num_segments, minlength=6) / 2000
    np.testing.assert_allclose(counts, exact.count_probs[0], atol=0.05)
    np.testing.assert_allclose(drawn.log_likelihood[0], exact.log_likelihood[0], rtol=1e-4)
    assert len({tuple(skills) for skills in drawn.skills}) > 5
    given = model.sample(demos, [2, 3, 1, 4])
    assert given.num_segments.tolist() == [2, 3, 1, 4]
    assert_same(given, model.sample(demos, [2, 3, 1, 4], seed=0))
    relaxed = model_for(demos, Config(inference="relaxed", codes="gaussian", hidden_dim=8, num_skills=2).resolved())
    with pytest.raises(ValueError, match="cannot be summed over"):
        relaxed.sample(demos)


def test_parts_are_joined_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small_model().segment(vector_demos())
    monkeypatch.setattr(segmenting, "_DEMOS_PER_CALL", 3)
    assert_same(small_model().segment(vector_demos()), whole, rtol=1e-4)


def test_labels_are_respected() -> None:
    free, demos = small_model().segment(vector_demos()), vector_demos()
    boundaries, codes = [], []
    for inner, skills, n in zip(free.boundaries, free.skills, demos.lengths, strict=True):
        # Labels: a boundary that was not predicted, none where one was, and another skill for the first step.
        steps = np.full(n, -1)
        steps[inner] = 0
        steps[np.setdiff1d(np.arange(1, n), inner)[0]] = 1
        boundaries.append(steps)
        codes.append(np.append((skills[0] + 1) % 3, np.full(n - 1, -1)))
    found = small_model().segment(demos.with_labels(boundaries=boundaries, codes=codes), 2)
    for i, steps in enumerate(boundaries):
        assert found.boundaries[i].tolist() == np.flatnonzero(steps == 1).tolist()
        assert found.labels[i][0] == codes[i][0]
        np.testing.assert_allclose(found.boundary_probs[i], steps == 1, atol=1e-5)


def test_labels_that_contradict_the_count() -> None:
    demos = vector_demos().with_labels(boundaries=[None, [0, 1, 1, 1, 0, 0, 0, 0, 0], None, None])
    with pytest.raises(DemonstrationError, match="Demonstration 1 has no segmentation into that many segments"):
        small_model().segment(demos, 3)


def test_labels_that_name_a_skill_too_many() -> None:
    demos = vector_demos().with_labels(codes=[[3] * 5, None, None, None])
    with pytest.raises(DemonstrationError, match="labels of demonstration 0 name skill 3, and there are 3 skills"):
        small_model().segment(demos)


def test_too_short() -> None:
    with pytest.raises(DemonstrationError, match=r"Demonstration 3 has 4 steps, too few for 5 segments: lower"):
        small_model().segment(vector_demos(), 5)
    with pytest.raises(
        DemonstrationError,
        match=r"Demonstration 3 has 4 steps, too few for 5 segments: lower num_segments, give a list",
    ):
        small_model().segment(vector_demos(), [1, 1, 1, 5])
    with pytest.raises(DemonstrationError, match=r"num_segments is 0: use at least 1"):
        small_model().segment(vector_demos(), [1, 0, 1, 1])


def test_other_spaces() -> None:
    other = Demonstrations.from_arrays([np.zeros((6, 3))], [np.zeros(5, int)], num_actions=4)
    with pytest.raises(DemonstrationError, match=r"\(vector of 3, 4 .*\) are not as in training \(vector of 2, "):
        small_model().segment(other)
    continuous = Demonstrations.from_arrays([np.zeros((6, 2))], [np.zeros((5, 4))])
    with pytest.raises(DemonstrationError, match="same spaces"):
        small_model().segment(continuous)


def test_symbols_and_continuous_actions() -> None:
    rng = np.random.default_rng(0)
    demos = Demonstrations.from_arrays([np.array([0, 2, 1, 2, 0, 1])], [rng.normal(10, 5, (5, 2))])
    model = model_for(demos)
    found = model.segment(demos)
    assert found.num_segments.tolist() == [3]
    assert np.isfinite(found.log_likelihood).all()
    unseen = Demonstrations.from_arrays([np.array([0, 3, 1, 2, 0, 1])], [rng.normal(10, 5, (5, 2))])
    with pytest.raises(DemonstrationError, match=r"\(4 symbols, .* not as in training \(3 symbols"):
        model.segment(unseen)


def test_score_needs_the_truth() -> None:
    found = small_model().segment(vector_demos())
    with pytest.raises(
        DemonstrationError, match=r"true boundaries of these demonstrations are not known.*`compile-il segment`"
    ):
        score(found, vector_demos())
    assert score(found, vector_demos().with_truth(boundaries=found.boundaries)).boundary_accuracy == 1


def test_some_counts_may_be_known() -> None:
    """Where a list says None the number is inferred as if no number were given; the others are as given."""
    demos, model = vector_demos(), small_model()
    found = model.segment(demos, [2, None, 3, None], max_segments=4)
    unknown, given = model.segment(demos, "unknown", max_segments=4), model.segment(demos, [2, 1, 3, 1])
    for i, other in enumerate((given, unknown, given, unknown)):
        assert len(found.skills[i]) == len(other.skills[i])
        np.testing.assert_array_equal(found.boundaries[i], other.boundaries[i])
        np.testing.assert_allclose(found.log_likelihood[i], other.log_likelihood[i], rtol=1e-5)
    assert found.count_probs[0].tolist() == [0, 0, 1, 0, 0]
    assert model.segment(demos, np.array(2)).num_segments.tolist() == [2] * 4
    with pytest.raises(ValueError, match="max_segments has no meaning where the number of segments is given"):
        model.segment(demos, [2, 1, 3, 1], max_segments=4)


def test_warns_of_counts_that_crowd_the_largest_one() -> None:
    """Where that many fit in and no label says so; the others are certain, which looks as if all were well."""
    demos, model = vector_demos(), small_model()
    with pytest.warns(
        CountWarning,
        match="4 of 4 demonstrations have as many segments as were considered, 1: raise max_segments, such as to 2",
    ):
        model.segment(demos, "unknown", max_segments=1)
    labelled = demos.with_labels(segment_codes=[[0]] * 4)
    with warnings.catch_warnings(action="error"):
        model.segment(labelled, "unknown", max_segments=1)
        model.segment(demos, 1)
        short = Demonstrations.from_arrays(
            [each[:2] for each in demos.observations], [each[:1] for each in demos.actions]
        )
        model_for(short).segment(short, "unknown", max_segments=1)


def test_warns_of_demonstrations_that_are_one_segment_each() -> None:
    demos, model = vector_demos(), small_model()
    dear = dataclasses.replace(
        model, resolved=dataclasses.replace(model.resolved, num_segments=None, segment_cost=100.0)
    )
    with pytest.warns(CountWarning, match="4 of 4 demonstrations have one segment each"):
        assert dear.segment(demos).num_segments.tolist() == [1] * 4
    with warnings.catch_warnings(action="error"):
        dear.segment(demos, 1)
        dear.segment(demos.with_labels(segment_codes=[[0]] * 4))


@pytest.mark.parametrize("count", [[2, 3], [], 2.5, [2, None, 2], [2, None, 2.5, 2], [[2] * 4], [[2], [2, 2]]])
def test_counts_that_are_none(count: Any) -> None:
    with pytest.raises(DemonstrationError, match="give a whole number, or one for each of the 4 demonstrations"):
        small_model().segment(vector_demos(), count)


def test_a_largest_number_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_segments is 0: use a whole number of at least 1\."):
        small_model().segment(vector_demos(), "unknown", max_segments=0)


@pytest.mark.filterwarnings("ignore::compile_il.data.segment_counts.CountWarning")
@pytest.mark.parametrize("num_segments", [3, "unknown"])
def test_neighbours_change_nothing(num_segments: Any) -> None:
    """Neither padding nor how many demonstrations there are; one is long enough for the others to be padded further."""
    lengths = (5, 9, 40)
    demos = Demonstrations.from_arrays(
        [np.random.default_rng(n).normal(size=(n + 1, 2)).astype(np.float32) for n in lengths],
        [np.random.default_rng(n).integers(0, 4, n) for n in lengths],
        num_actions=4,
    )
    together = small_model().segment(demos, num_segments)
    for i in range(len(demos)):
        alone = small_model().segment(demos[i : i + 1], num_segments)
        np.testing.assert_allclose(alone.log_likelihood[0], together.log_likelihood[i], rtol=1e-5)
        np.testing.assert_allclose(alone.count_probs[0], together.count_probs[i], rtol=1e-4)
        np.testing.assert_array_equal(alone.boundaries[0], together.boundaries[i])


def test_the_prior_over_the_number_of_segments_is_one() -> None:
    for cost in (0.0, 2.0):
        prior = np.exp(unknown_count(12, cost))
        np.testing.assert_allclose(prior.sum(), 1.0, rtol=1e-6)
        np.testing.assert_allclose(prior[2:] / prior[1:-1], np.exp(-cost), rtol=1e-5)
        assert prior[0] == 0


def test_only_demonstrations_are_segmented() -> None:
    with pytest.raises(DemonstrationError, match=r"this is a Demonstration: .* demos\[\[i\]\]"):
        small_model().segment(vector_demos()[0])  # type: ignore[arg-type]
    with pytest.raises(DemonstrationError, match=r"this is a list: make them with Demonstrations.from_arrays"):
        small_model().segment([np.zeros((3, 2))])  # type: ignore[arg-type]


def test_segments_are_printed_in_a_line() -> None:
    assert repr(small_model().segment(vector_demos())) == "Segments(4 demonstrations, 12 segments)"


def test_rows_are_one_plain_record_per_segment() -> None:
    nothing = np.zeros(0, np.float32)
    probs = [np.zeros(9, np.float32), np.zeros(4, np.float32)]
    inner = [np.array([2, 5], np.int32), np.zeros(0, np.int32)]
    skills = [np.array([3, 0, 3], np.int32), np.array([1], np.int32)]
    found = Segments(inner, skills, probs, [nothing, nothing], np.zeros(2, np.float32))
    assert found.rows() == [
        {"demonstration": 0, "segment": 0, "start": 0, "end": 2, "skill": 3},
        {"demonstration": 0, "segment": 1, "start": 2, "end": 5, "skill": 0},
        {"demonstration": 0, "segment": 2, "start": 5, "end": 9, "skill": 3},
        {"demonstration": 1, "segment": 0, "start": 0, "end": 4, "skill": 1},
    ]
    assert json.loads(json.dumps(found.rows())) == found.rows()
    gaussian = dataclasses.replace(found, skills=[np.eye(3, 2, dtype=np.float32), np.ones((1, 2), np.float32)])
    assert [row["skill"] for row in gaussian.rows()] == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    assert json.loads(json.dumps(gaussian.rows())) == gaussian.rows()


def test_rows_say_what_the_lists_say() -> None:
    demos = vector_demos()
    found = small_model().segment(demos)
    rows = found.rows()
    assert len(rows) == found.num_segments.sum()
    for row in rows:
        i = row["demonstration"]
        assert set(found.labels[i][row["start"] : row["end"]]) == {row["skill"]}
        assert (row["start"] == 0) == (row["segment"] == 0)
        assert (row["end"] == demos.lengths[i]) == (row["segment"] == found.num_segments[i] - 1)


def test_a_long_demonstration_is_not_segmented_many_times() -> None:
    assert segmenting.rows_per_call(1, 9) == 1
    assert segmenting.rows_per_call(4, 9) == 4
    assert segmenting.rows_per_call(5, 30_000) == 2


def test_skills_act_one_by_one() -> None:
    demos, model = vector_demos(), small_model()
    seen, arrived = demos.observations[0][:2]
    for skill in range(3):
        action = model.act(seen, skill)
        outputs = model.skills.policies.outputs(model.skills.policies.encoder.embedding(jax.numpy.asarray(seen)))
        assert action == np.argmax(outputs[skill])
        assert model.is_done(seen, action, arrived, skill) in (True, False)
    for skill in (-1, 3):
        with pytest.raises(ValueError, match=f"There is no skill {skill}: the model has 0 to 2"):
            model.act(seen, skill)
