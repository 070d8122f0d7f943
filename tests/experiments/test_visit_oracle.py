"""The Bayes-optimal observer against posteriors worked out by hand, and against all task lists tried one by one."""

import functools
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from compile_il.data.demonstrations import Demonstration, Demonstrations
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations.visit_oracle import (
    Beliefs,
    Moves,
    Run,
    believe,
    likeliest_places,
    main,
    observe,
    score_given_number,
    score_unknown_number,
)
from tests.twins.grid_twin import TwinGrid, TwinLevel, level_from_ascii

N, E, S, W = range(4)


@functools.cache
def visits(num_demos: int) -> Demonstrations:
    return demonstrate("grid-visit", num_demos=num_demos, num_tasks=3, seed=5)


def play(picture: str, tasks: str) -> Demonstrations:
    """The twin's expert on a hand-drawn level."""
    level = level_from_ascii(picture.split(), [ord(letter) - ord("A") for letter in tasks])
    twin = TwinGrid(level, kind="visit")
    frames, actions = [twin.observation()], []
    while not twin.terminated:
        actions.append(twin.expert_action())
        twin.step(actions[-1])
        frames.append(twin.observation())
    return Demonstrations.from_arrays([np.array(frames)], [np.array(actions)], num_actions=8)


def moves_of(demos: Demonstrations) -> Moves:
    (moves,) = observe(demos)
    return moves


def probs(beliefs: Beliefs, i: int) -> dict[int, float]:
    return {int(t): float(p) for t, p in zip(beliefs.times, beliefs.boundary_probs[i], strict=True) if p > 0}


WALKED_OVER = "###### #@ABC# #....# #....# #...B# ######"


def test_walking_over_an_object_looks_like_visiting_it() -> None:
    """A, C: 1/4 * 1/3. B, C: 2/4 * 1/2, three times as much."""
    demo = play(WALKED_OVER, "BC")
    assert demo[0].actions.tolist() == [E, E, E]
    beliefs = believe(moves_of(demo), 2)
    assert probs(beliefs, 0) == pytest.approx({1: 1 / 4, 2: 3 / 4})
    assert beliefs.evidence == pytest.approx(1 / 3)
    assert beliefs.best.tolist() == likeliest_places(beliefs).tolist() == [2]
    assert beliefs.best_prob == pytest.approx(1 / 4)


def test_other_numbers_of_tasks() -> None:
    moves = moves_of(play(WALKED_OVER, "AC"))
    assert believe(moves, 1).evidence == pytest.approx(1 / 4)
    three, nothing = believe(moves, 3), believe(moves, 4)
    assert three.evidence == pytest.approx(1 / 4 * 2 / 3 * 1 / 2)
    assert three.best.tolist() == [1, 2]
    assert nothing.evidence == nothing.best_prob == nothing.boundary_probs.any() == 0


def test_turning_where_the_other_expert_would_not_removes_the_doubt() -> None:
    """After A, the way to C is south at once; this one went on over A to B."""
    demo = play("##### #@AB# #...# #C..# #####", "BC")
    assert demo[0].actions.tolist() == [E, E, S, S, W, W]
    moves = moves_of(demo)
    beliefs = believe(moves, 2)
    assert probs(beliefs, 0) == pytest.approx({2: 1.0})
    assert beliefs.evidence == pytest.approx(1 / 3 * 1 / 2)
    assert believe(moves, 3).evidence == pytest.approx(1 / 3 * 1 / 2 * 1 / 2)
    assert score_unknown_number([moves], [np.array([2])])["f1"] == 1.0


def test_a_task_ends_on_the_first_object_of_its_type() -> None:
    demo = play("###### #@BAB# #....# #....# #....# ######", "AB")
    assert demo[0].actions.tolist() == [E, E, E]
    moves = moves_of(demo)
    assert probs(believe(moves, 2), 0) == pytest.approx({2: 1.0})
    assert believe(moves, 1).evidence == 0  # B alone would have ended after one step


def try_all_lists(demo: Demonstration, num_tasks: int) -> dict[tuple[int, ...], float]:
    """Boundaries of each task list under which the twin's expert acts as was seen, and the list's prior."""
    frame = demo.observations[0]
    objects = [(int(r), int(c), int(k)) for r, c, k in zip(*np.nonzero(frame[..., :10]), strict=True)]
    player = tuple(int(x[0]) for x in np.nonzero(frame[..., 11]))
    types = [k for _, _, k in objects]
    weights = {}
    for tasks in itertools.product(set(types), repeat=num_tasks):
        weight = 1.0
        for before, task in zip((None, *tasks), tasks, strict=False):
            choices = [k for k in types if k != before]
            weight *= choices.count(task) / len(choices)
        ends = seen_under(TwinLevel((frame[..., 10] == 1).tolist(), objects, player, list(tasks)), demo.actions)
        if weight and ends is not None:
            weights[tuple(ends[:-1])] = weight
    return weights


def seen_under(level: TwinLevel, actions: np.ndarray) -> list[int] | None:
    """Where tasks end, if the expert on this level takes these actions and no more."""
    twin, ends = TwinGrid(level, kind="visit"), []
    for t, action in enumerate(actions.tolist()):
        if twin.terminated or twin.expert_action() != action:
            return None
        before = twin.task_index
        twin.step(action)
        if twin.task_index > before:
            ends.append(t + 1)
    return ends if twin.terminated else None


def test_against_all_task_lists() -> None:
    demos = visits(512)
    doubtful = [i for i, moves in enumerate(observe(demos)) if np.max(believe(moves, 3).boundary_probs[0]) < 0.99]
    for i in [*doubtful[:8], 0, 1]:
        weights, beliefs = try_all_lists(demos[i], 3), believe(observe(demos[[i]])[0], 3)
        total = sum(weights.values())
        assert beliefs.evidence == pytest.approx(total)
        assert beliefs.best_prob == pytest.approx(max(weights.values()))
        assert weights[tuple(beliefs.best.tolist())] == pytest.approx(beliefs.best_prob)
        for m in range(2):
            expected: dict[int, float] = {}
            for inner, weight in weights.items():
                expected[inner[m]] = expected.get(inner[m], 0.0) + weight / total
            assert probs(beliefs, m) == pytest.approx(expected)


def test_the_truth_is_always_possible() -> None:
    demos = visits(512)
    for demo, moves in zip(demos, observe(demos), strict=True):
        assert demo.truth.boundaries is not None
        path = np.searchsorted(moves.times, [0, *demo.truth.boundaries, len(demo)])
        assert (moves.weights[path[:-1], path[1:]] > 0).all()
        np.testing.assert_allclose(believe(moves, 3).boundary_probs.sum(axis=1), 1)


def test_what_is_expected_comes_true() -> None:
    demos = visits(512)
    assert demos.truth.boundaries is not None
    scores = score_given_number(observe(demos), demos.truth.boundaries, 3)
    for name in ("boundary_accuracy", "f1"):
        expected = scores[f"expected_{name}"]
        assert 0.9 < expected < 1
        # Boundaries of one demonstration go together, so that only demonstrations count as draws.
        assert abs(scores[name] - expected) < 4 * np.sqrt(expected * (1 - expected) / 512)
    assert scores["most_probable_list"]["boundary_accuracy"] <= scores["boundary_accuracy"] + 0.01


def test_what_has_no_boundaries_is_refused() -> None:
    demo = play(WALKED_OVER, "BC")[0]
    frames, actions = np.concatenate([demo.observations, demo.observations[:1]]), np.append(demo.actions, W)
    with pytest.raises(ValueError, match="does not end on an object: it was cut; raise max_steps"):
        moves_of(Demonstrations.from_arrays([frames], [actions], num_actions=8))


def test_the_command_writes_a_result(tmp_path: Path) -> None:
    main(Run(out=tmp_path / "oracle.json", num_demos=8))
    result = json.loads((tmp_path / "oracle.json").read_text())
    assert result["config"]["world"] == "grid-visit"
    assert 0.5 < result["figures"]["known_number"]["3"]["boundary_accuracy"] <= 1
    assert set(result["figures"]["unknown_number"]) == {"3", "5"}
