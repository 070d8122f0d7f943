"""Computes what can be reached on grid-visit by a Bayes-optimal observer who knows the world and its expert.

Walking over an object on the way looks the same as visiting it as a task, so that some boundaries stay uncertain. The
observer weighs all task lists z_1 .. z_M by their prior (rule 7 of `docs/worlds.md`) and keeps those under which the
expert (rules 9 and 14), who is deterministic, would have taken exactly the actions that were seen. A task ends on the
first object of its type, so that a list and its boundaries b_1 .. b_M = T imply each other, and with

    w(t', t) = p(z_t | z_t') if the expert for z_t goes from step t' to its first arrival at step t, else 0

where z_t is the type of the object under the player before step t, sums over lists are a recursion over the steps at
which the player arrives on an object:

    α_i(t) = Σ_{t'} α_{i-1}(t') w(t', t),   β_i(t') = Σ_t w(t', t) β_{i+1}(t),   P(b_i = t) = α_i(t) β_i(t) / α_M(T)

python -m experiments.ablations.visit_oracle --out results/visit-oracle.json
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float, Int, UInt8

from compile_il.config import TEST_SEED
from compile_il.data import Demonstration, Demonstrations
from compile_il.evaluation.metrics import boundary_accuracy, boundary_f1, score_boundaries
from compile_il.worlds import bitboard as boards
from compile_il.worlds.demonstrate import demonstrate
from experiments.ablations import runner

NO_OBJECT = -1
MAX_TASKS = 8
"""Most tasks that are considered where their number is not given: 1 to 8, all with the same probability."""


class Moves(NamedTuple):
    """The steps at which the player stands on an object, and the transitions between them that an expert may make."""

    times: Int[np.ndarray, " A"]
    """0, then each step before which the player arrived on an object; the last one is T."""
    weights: Float[np.ndarray, "A A"]
    """w(t', t) of the module's docstring, for each two of `times`."""


class Beliefs(NamedTuple):
    """What the observer believes about one demonstration of M tasks."""

    evidence: float
    """Prior probability of all task lists that explain the demonstration."""
    times: Int[np.ndarray, " A"]
    boundary_probs: Float[np.ndarray, "inner A"]
    """P(b_i = times[a]) for the M - 1 inner boundaries."""
    best: Int[np.ndarray, " inner"]
    """Inner boundaries of the most probable task list."""
    best_prob: float
    """Prior probability of the most probable task list."""


@jax.jit
def expert_moves(frames: UInt8[Array, "B size size channels"]) -> Int[Array, "B types cells"]:
    """Returns the expert's move on each cell towards each type, for levels given by their first frames (rule 14)."""

    def of_type(goals: UInt8[Array, "size size"], walls: UInt8[Array, "size size"]) -> Int[Array, " cells"]:
        flow = boards.flow_to(boards.from_cells(goals == 1), boards.from_cells(walls == 0))
        return jax.vmap(flow.at)(jnp.arange(goals.size)).astype(jnp.int8)

    of_level = jax.vmap(of_type, in_axes=(0, None))
    return jax.vmap(of_level)(jnp.moveaxis(frames[..., :-2], -1, 1), frames[..., -2])


def moves_of(demo: Demonstration, expert: Int[np.ndarray, "types cells"]) -> Moves:
    """Returns the moves between objects that a demonstration leaves possible, whatever the number of tasks."""
    frames = demo.observations
    num_types = len(expert)
    cells = frames[:, :, :, num_types + 1].reshape(len(frames), -1).argmax(axis=1)
    objects = frames[0, :, :, :num_types].reshape(-1, num_types)
    types = np.where(objects.any(axis=1), objects.argmax(axis=1), NO_OBJECT)[cells]
    types[0] = NO_OBJECT  # before the first action no task is done
    arrivals = 1 + np.flatnonzero(types[1:] != NO_OBJECT)
    if len(arrivals) == 0 or arrivals[-1] != len(demo):
        raise ValueError("The demonstration does not end on an object: it was cut; raise max_steps.")
    times = np.append(0, arrivals)
    # How often until each step the move was not the one towards each type, and how often the type was arrived at.
    strays = np.pad(np.cumsum(expert[:, cells[:-1]] != demo.actions, axis=1), ((0, 0), (1, 0)))
    arrived = np.cumsum(types == np.arange(num_types)[:, None], axis=1)
    task, start, end = types[times][None, :], times[:, None], times[None, :]
    straight = strays[task, end] == strays[task, start]
    first = arrived[task, np.maximum(end - 1, 0)] == arrived[task, start]
    # p(z | previous z) for the types at each pair of steps: n_z / (n - n_previous), and 0 for equal types (rule 7).
    num_objects = np.where(task == NO_OBJECT, 0, objects.sum(axis=0, dtype=np.int64)[task])
    prior = np.where(task == task.T, 0.0, num_objects / (objects.sum(dtype=np.int64) - num_objects.T))
    return Moves(times, np.where((start < end) & straight & first, prior, 0.0))


def believe(moves: Moves, num_tasks: int) -> Beliefs:
    """Sums over all task lists of a given length, and finds the most probable one of them."""
    times, weights = moves
    num_times = len(times)
    forward, backward, best = (np.zeros((num_tasks + 1, num_times)) for _ in range(3))
    origin = np.zeros((num_tasks + 1, num_times), int)
    forward[0, 0] = best[0, 0] = backward[num_tasks, -1] = 1.0
    for i in range(num_tasks):
        forward[i + 1] = forward[i] @ weights
        options = best[i][:, None] * weights
        best[i + 1], origin[i + 1] = options.max(axis=0), options.argmax(axis=0)
    for i in reversed(range(num_tasks)):
        backward[i] = weights @ backward[i + 1]
    evidence = forward[num_tasks, -1]
    path = [num_times - 1]
    for i in range(num_tasks, 1, -1):
        path.append(origin[i, path[-1]])
    inner = forward[1:num_tasks] * backward[1:num_tasks]
    return Beliefs(
        evidence=float(evidence),
        times=times,
        boundary_probs=inner / evidence if evidence else inner,
        best=times[path[:0:-1]],
        best_prob=float(best[num_tasks, -1]),
    )


def observe(demos: Demonstrations) -> list[Moves]:
    """Returns the moves of each demonstration of a visit world."""
    first_frames = demos.storage.observations.values[demos.storage.observations.starts]
    experts = np.asarray(expert_moves(first_frames))
    return [moves_of(demo, expert) for demo, expert in zip(demos, experts, strict=True)]


def likeliest_places(beliefs: Beliefs) -> Int[np.ndarray, " inner"]:
    """Returns the guess that maximises expected F1: the M - 1 times that are likeliest to be any boundary."""
    places = beliefs.boundary_probs.sum(axis=0).argsort(kind="stable")[::-1][: len(beliefs.boundary_probs)]
    return np.sort(beliefs.times[places])


def score_given_number(moves: list[Moves], true: list[np.ndarray], num_tasks: int) -> dict[str, Any]:
    """Scores an observer who is given the number of tasks: what is expected, and how it turned out."""
    beliefs = [believe(each, num_tasks) for each in moves]
    tops = np.array([b.boundary_probs.max(axis=1) for b in beliefs])
    places = np.array([np.sort(b.boundary_probs.sum(axis=0))[::-1][: num_tasks - 1] for b in beliefs])
    likeliest_each = [b.times[b.boundary_probs.argmax(axis=1)] for b in beliefs]  # maximises expected accuracy
    return {
        "expected_boundary_accuracy": float(tops.mean()),
        "standard_error": float(tops.mean(axis=1).std() / np.sqrt(len(tops))),
        "boundary_accuracy": boundary_accuracy(likeliest_each, true),
        "expected_f1": float(places.mean()),
        "f1": boundary_f1([likeliest_places(b) for b in beliefs], true),
        "most_probable_list": score_boundaries([b.best for b in beliefs], true)._asdict(),
    }


def score_unknown_number(moves: list[Moves], true: list[np.ndarray]) -> dict[str, float]:
    """Scores the most probable list, number of tasks included, where all numbers are as probable before."""
    beliefs = ([believe(each, num_tasks) for num_tasks in range(1, MAX_TASKS + 1)] for each in moves)
    likeliest = [max(candidates, key=lambda one: one.best_prob).best for candidates in beliefs]
    return score_boundaries(likeliest, true)._asdict()


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Score a Bayes-optimal observer on grid-visit."""

    num_demos: int = 1024
    """Number of demonstrations for each number of tasks."""


def main(run: Run) -> None:
    """Observes demonstrations, scores the observer, and writes the result file."""
    results = runner.Results(run.out, run.to_json() | {"world": "grid-visit"}, [TEST_SEED])
    figures: dict[str, dict[str, Any]] = {"known_number": {}, "unknown_number": {}}
    for tasks in ("3", "5"):
        demos = demonstrate("grid-visit", num_demos=run.num_demos, num_tasks=int(tasks), seed=TEST_SEED)
        moves, true = observe(demos), demos.truth.boundaries or []
        figures["known_number"][tasks] = score_given_number(moves, true, int(tasks))
        figures["unknown_number"][tasks] = score_unknown_number(moves, true)
        results.write(figures, tasks, {name: scores[tasks] for name, scores in figures.items()})


if __name__ == "__main__":
    main(tyro.cli(Run))
