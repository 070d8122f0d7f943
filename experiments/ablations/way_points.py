"""Segments recordings of a point robot that visits some of five way-points, without the number of visits.

Five kinds of recordings: commands are velocities or forces, observations hold the place alone or the velocity too, and
there are 2 to 5 visits, or 6 to 10 short ones. Models are trained in four ways: by default, so that the mean length of
segments is learned; with more seeds; without a factor for lengths (`duration_weight`); and with the true mean length
(`duration_rate`).

    python -m experiments.ablations.way_points --out results/way-points-cpu.json
"""

import dataclasses
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

from compile_il.config import TEST_SEED, Config
from compile_il.data import Demonstrations
from compile_il.evaluation.evaluate import label_scores, score_model
from compile_il.training.fit import fit
from experiments.ablations import runner

WAY_POINTS = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [2.0, 2.0]])
STEP, REACH = 0.3, 0.35
NOISE, FORCE_NOISE = 0.1, 0.3
"""Standard deviations of the noise of velocities and of forces as commands."""
STIFFNESS, DAMPING = 2.0, 2.2
"""Force on a point with a mass, for each unit of distance and of velocity."""
NUM_STILL = 2
"""Steps for which a point with a mass stays at each way-point."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """Commands and observations of one kind of recordings."""

    force: bool
    """Whether commands are forces on a point with a mass rather than velocities."""
    velocity_seen: bool
    """Whether observations hold the velocity besides the place."""
    visits: tuple[int, int] = (2, 5)
    """Fewest and most way-points that a demonstration visits."""
    scale: float = 1.0
    """Factor of the distances between way-points."""


RECORDINGS = {
    "velocity commands, place": Recording(force=False, velocity_seen=False),
    "velocity commands, place and velocity": Recording(force=False, velocity_seen=True),
    "forces, place": Recording(force=True, velocity_seen=False),
    "forces, place and velocity": Recording(force=True, velocity_seen=True),
    "the same, 6 to 10 visits": Recording(force=True, velocity_seen=True, visits=(6, 10), scale=0.5),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "by default": {},
    "five seeds": {"num_seeds": 5},
    "lengths do not count": {"duration_weight": 0.0},
    "mean length given": {"duration_rate": None},
}
"""Settings of each way of training; a rate of None stands for the true mean length of segments."""


@dataclasses.dataclass(frozen=True)
class Run(runner.Run):
    """Train on recordings of a point robot, with the number of segments unknown."""

    recordings: tuple[str, ...] = tuple(RECORDINGS)
    """Names of the recordings."""
    num_seeds: int = 3
    """Number of models of each recording and way, one after the other."""
    num_iterations: int = 500
    """Number of steps of each training."""
    num_demos: int = 300
    """Number of demonstrations that models are trained on."""
    num_test: int = 100
    """Number of demonstrations that models are scored on."""


def main(run: Run) -> None:
    """Trains and scores all models; writes the result file after each way."""
    about = run.to_json() | {"test_seed": TEST_SEED, "ways": SETTINGS}
    results = runner.Results(run.out, about, range(run.num_seeds))
    figures: dict[str, Any] = {}
    for name in run.recordings:
        demos, test = (
            record(RECORDINGS[name], number, seed) for number, seed in ((run.num_demos, 0), (run.num_test, TEST_SEED))
        )
        figures[name] = {}
        for way, settings in SETTINGS.items():
            rate = {"duration_rate": mean_length(demos)} if "duration_rate" in settings else {}
            config = Config(num_segments=None, num_iterations=run.num_iterations, **settings | rate)
            figures[name][way] = [scores(demos, test, config, seed) for seed in range(run.num_seeds)]
            results.write(figures, f"{name} {way}", runner.means(figures[name][way]))


def mean_length(demos: Demonstrations) -> float:
    """Returns the true mean length of segments in steps."""
    counts = demos.truth.num_segments
    assert counts is not None, "recordings have boundaries"
    return float(demos.lengths.sum() / counts.sum())


def scores(demos: Demonstrations, test: Demonstrations, config: Config, seed: int) -> dict[str, float]:
    """Trains one model, or the best of several, without the truth, and scores it on other demonstrations."""
    model = fit(demos, config=dataclasses.replace(config, seed=seed * config.num_seeds), progress=False)
    found = model.segment(test)
    agreement = label_scores(found.labels, test)["agreement"]
    lengths = {"expected_length": model.expected_length, "true_length": mean_length(demos)}
    values = score_model(model, test)._asdict() | {"agreement": agreement} | lengths
    return {name: round(value, 4) for name, value in values.items()}


def record(recording: Recording, num_demos: int, seed: int) -> Demonstrations:
    """Makes demonstrations of one kind, with their truth."""
    rng = np.random.default_rng(seed)
    episodes = [_episode(recording, rng) for _ in range(num_demos)]
    observations, actions, ends, targets = zip(*episodes, strict=True)
    seen = [states if recording.velocity_seen else states[:, :2] for states in observations]
    return Demonstrations.from_arrays(seen, actions, boundaries=[each[:-1] for each in ends], codes=targets)


def _episode(
    recording: Recording, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[int], list[int]]:
    """Returns states (place and velocity), commands, the end of each visit, and the way-point that it is to."""
    points = recording.scale * WAY_POINTS
    place, velocity, still = rng.uniform(0, points.max(), 2), np.zeros(2), 0
    states, commands, ends, targets = [np.r_[place, velocity]], list[NDArray[np.float64]](), list[int](), list[int]()
    for _ in range(rng.integers(recording.visits[0], recording.visits[1] + 1)):
        targets.append(int(rng.choice([point for point in range(len(points)) if [point] != targets[-1:]])))
        still = 0
        while still <= (NUM_STILL if recording.force else 0):
            ahead = points[targets[-1]] - place
            noise = rng.normal(0, FORCE_NOISE if recording.force else NOISE, 2)
            if recording.force:
                command = STIFFNESS * ahead - DAMPING * velocity + noise
                velocity = velocity + STEP * command
            else:
                command = velocity = ahead / max(float(np.linalg.norm(ahead)), 1.0) + noise
            place = place + STEP * velocity
            commands.append(command)
            states.append(np.r_[place, velocity])
            still += bool(np.linalg.norm(points[targets[-1]] - place) < REACH)
        ends.append(len(commands))
    return np.array(states), np.array(commands), ends, targets


if __name__ == "__main__":
    main(tyro.cli(Run))
