"""Training: what is held out, what is refused, which seed is kept, and that it learns."""

import dataclasses
import functools
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from compile_il.baselines.features import Features, View
from compile_il.config import NO_COUNTS, Config, ConfigError
from compile_il.data.batch import Batch, batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.data.segment_counts import attach_counts, counts_from_labels, with_counts
from compile_il.data.spaces import check_numbering, scaling_of, space_of
from compile_il.data.validation import DemonstrationError
from compile_il.evaluation.evaluate import evaluate
from compile_il.evaluation.metrics import score
from compile_il.model.files import ModelError, load
from compile_il.model.model import Model
from compile_il.training.feeds import WorldBatches
from compile_il.training.fit import HeldOutScores, best_of, fit, score_seeds
from compile_il.training.loop import Stopped, TrainingError
from compile_il.training.runs import EVENTS_FOLDER, read_log
from compile_il.training.sources import hold_out, make_source
from compile_il.training.trainer import Trained, Trainer, learning_rates
from compile_il.worlds.demonstrate import demonstrate
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.symbols import SymbolsWorld
from tests.inference.exact.small import SMALL, vector_demos


def weights(model: Model) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model.skills, eqx.is_array))]


def assert_same_weights(one: Model, other: Model) -> None:
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_array_equal(a, b)


def held_out_likelihood(model: Model, demos: Demonstrations) -> float:
    return float(model.segment(demos).log_likelihood.mean())


@pytest.mark.parametrize(("num_demos", "num_held_out"), [(2, 1), (4, 1), (25, 2), (3000, 256)])
def test_some_demonstrations_are_held_out(num_demos: int, num_held_out: int) -> None:
    demos = Demonstrations.from_arrays(None, [np.full(3, i) for i in range(num_demos)])
    kept, held_out = hold_out(demos, seed=1)
    assert len(held_out) == num_held_out
    together = [int(actions[0]) for part in (kept, held_out) for actions in part.actions]
    assert sorted(together) == list(range(num_demos))
    again = hold_out(demos, seed=1)[1]
    assert [a[0] for a in again.actions] == [a[0] for a in held_out.actions]


def test_a_single_demonstration_is_trained_on_and_compared_on() -> None:
    source = make_source(vector_demos(1), SMALL)
    assert len(source.demos) == len(source.held_out) == 1


@pytest.mark.parametrize(
    ("settings", "labels", "message"),
    [
        (
            {"num_segments": 5},
            {},
            r"Demonstration 3 has 4 steps, too few for 5 segments: lower .* None .* a list .*lengths >= 5\]",
        ),
        ({"longest_segment": 2}, {}, r"Demonstration 1 has 9 steps, more than 3 segments of up to 2: raise"),
        (
            {"num_segments": None, "max_segments": 2, "longest_segment": 4},
            {},
            r"Demonstration 1 has 9 steps, more than 2 segments of up to 4: raise",
        ),
        (
            {"num_segments": 2},
            {"boundaries": [[-1, 1, 1, -1, -1], None, None, None]},
            "Demonstration 0 has no segmentation that agrees with its labels and the settings",
        ),
        (
            {"num_skills": 2},
            {"codes": [None, None, [-1] * 6 + [2], None]},
            r"The labels of demonstration 2 name skill 2, and there are 2 skills: raise num_skills to at least 3",
        ),
    ],
)
def test_demonstrations_that_the_settings_do_not_allow(
    settings: dict[str, Any], labels: dict[str, Any], message: str
) -> None:
    with pytest.raises(DemonstrationError, match=message):
        make_source(vector_demos().with_labels(**labels), dataclasses.replace(SMALL, **settings))


def trained(trainer: Trainer) -> list[Model]:
    state = trainer.start()
    for iteration in range(trainer.config.num_iterations):
        state, losses = trainer.step(state, iteration)
        assert np.isfinite(losses.total).all()
    return trainer.models(state)


TWO_SEEDS = dataclasses.replace(SMALL, num_seeds=2, num_iterations=4)


def test_the_best_seed_on_data_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    demos = vector_demos(20)
    trainer = Trainer(TWO_SEEDS, make_source(demos, TWO_SEEDS))
    models = trained(trainer)
    likelihoods = [held_out_likelihood(model, trainer.source.held_out) for model in models]
    assert likelihoods[0] != likelihoods[1]
    best = int(np.argmax(likelihoods))
    kept = fit(demos, config=TWO_SEEDS, progress=True)
    assert_same_weights(kept, models[best])
    values = [f"{value:.2f}" for value in likelihoods]
    message = f"Kept seed {best} of 2: held-out log-likelihood {values[best]}, the others {values[1 - best]}."
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_seed_that_diverged_is_never_the_best() -> None:
    assert best_of([HeldOutScores(value, None) for value in (np.nan, -9.0, -5.0)], 1) == 2
    assert best_of([HeldOutScores(value, None) for value in (-7.0, -np.inf, np.nan)], 1) == 0


def test_rates_stay_or_fall_to_zero() -> None:
    config = Config(num_iterations=100, learning_rate=1e-3, cooldown=0.0)
    rates = learning_rates(config)
    assert [float(rates(n)) for n in (0, 50, 99)] == pytest.approx([1e-3] * 3)
    rates = learning_rates(dataclasses.replace(config, cooldown=0.2))
    assert [float(rates(n)) for n in (0, 80, 90, 100)] == pytest.approx([1e-3, 1e-3, 5e-4, 0.0])


def test_training_can_start_again() -> None:
    trainer = Trainer(SMALL, make_source(vector_demos(), SMALL))
    runs = []
    for _ in range(2):
        state, losses = trainer.start(), []
        for iteration in range(20):
            state, loss = trainer.step(state, iteration)
            losses.append(float(loss.total[0]))
        runs.append(losses)
    assert runs[0] == runs[1]
    assert np.mean(runs[0][-5:]) < np.mean(runs[0][:5])


GRIDS = dataclasses.replace(SMALL, num_segments=2, num_seeds=2)


@functools.cache
def losses_of(config: Config, ahead: int = 1) -> np.ndarray:
    """The first four losses on small grids."""
    trainer = Trainer(config, make_source(GridWorld(num_tasks=2, num_objects=2, size=5, max_steps=12), config))
    assert isinstance(trainer.batches, WorldBatches)
    trainer.batches.ahead = ahead
    state, losses = trainer.start(), []
    for iteration in range(4):
        state, loss = trainer.step(state, iteration)
        losses.append(np.asarray(loss.total))
    return np.stack(losses)


def test_drawing_batches_ahead_changes_no_batch() -> None:
    np.testing.assert_allclose(losses_of(GRIDS), losses_of(GRIDS, ahead=3), rtol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"inference": "relaxed"}])
def test_a_step_is_compiled_once(settings: dict[str, Any]) -> None:
    config = dataclasses.replace(SMALL, **settings)
    trainer = Trainer(config, make_source("symbols", config))
    state = trainer.start()
    for iteration in range(3):
        state, _ = trainer.step(state, iteration)
    assert trainer._step._cache_size() == 1


def test_half_precision_starts_where_full_precision_does() -> None:
    half = losses_of(dataclasses.replace(GRIDS, half_precision=True))
    np.testing.assert_allclose(half, losses_of(GRIDS), rtol=0.02)
    assert (half != losses_of(GRIDS)).any(), "nothing was computed in half precision"


def events(folder: Path) -> dict[str, dict[int, float]]:
    reader = EventAccumulator(str(folder / EVENTS_FOLDER))
    reader.Reload()
    return {name: {e.step: e.value for e in reader.Scalars(name)} for name in reader.Tags()["scalars"]}


def test_a_run_leaves_log_curves_checkpoints_and_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos, folder = vector_demos(20), tmp_path / "run"
    model = fit(demos, config=TWO_SEEDS, out=folder, progress=False)
    assert capsys.readouterr() == ("", ""), "nothing was to be shown"
    assert {path.name for path in folder.iterdir()} == {
        ".lock",
        "run.json",
        "log.jsonl",
        "tensorboard",
        "checkpoints",
        "model",
    }
    assert_same_weights(load(folder), model)
    rows = read_log(folder)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    held_out = make_source(demos, TWO_SEEDS).held_out
    assert rows[-1]["held_out_log_likelihood"] == held_out_likelihood(model, held_out)
    for row in rows:
        assert row["boundary_accuracy"] is None, "the truth is not known"
        of_seed = row["by_seed"][row["seed"]]
        assert (row["loss"], row["held_out_log_likelihood"]) == (of_seed["loss"], of_seed["log_likelihood"])
        assert row["held_out_log_likelihood"] == max(entry["log_likelihood"] for entry in row["by_seed"])
    curves = events(folder)
    assert curves.keys() == {"loss", "held_out_log_likelihood", "seconds"}
    for name, curve in curves.items():
        assert curve == pytest.approx({row["iteration"]: row[name] for row in rows}, rel=1e-6), name


def test_the_log_of_a_relaxed_run_has_the_terms_of_its_loss_and_its_temperature(tmp_path: Path) -> None:
    settings = {"inference": "relaxed", "temperature": 1.0, "final_temperature": 0.01}
    fit(vector_demos(), config=TWO_SEEDS, num_iterations=3, out=tmp_path, progress=False, **settings)
    rows, terms = read_log(tmp_path), ("reconstruction", "codes", "boundaries", "termination")
    assert [row["temperature"] for row in rows] == pytest.approx([1.0, 0.1, 0.01], rel=1e-5)
    for row in rows:
        for entry in (row, *row["by_seed"]):
            assert sum(entry[f"loss_{name}"] for name in terms) == pytest.approx(entry["loss"], rel=1e-5)
        assert row["by_seed"][row["seed"]].items() >= {(f"loss_{name}", row[f"loss_{name}"]) for name in terms}
    assert events(tmp_path).keys() >= {"temperature", *(f"loss_{name}" for name in terms)}


def test_the_model_comes_back_from_the_last_checkpoint_and_training_may_be_prolonged(tmp_path: Path) -> None:
    demos = vector_demos(20)
    whole = fit(demos, config=SMALL, num_iterations=5)
    fit(demos, config=SMALL, out=tmp_path)
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(ModelError, match="holds an unfinished run"):
        load(tmp_path)
    with open(tmp_path / "log.jsonl", "ab") as file:
        file.write(b'{"iteration": 3, "lo')
    again = fit(demos, config=SMALL, out=tmp_path, resume=True)
    assert_same_weights(load(tmp_path), again)
    assert_same_weights(fit(demos, config=SMALL, num_iterations=5, out=tmp_path, resume=True), whole)
    assert [row["iteration"] for row in read_log(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_signal_stops_between_two_steps_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demos, step = vector_demos(20), Trainer.step

    def interrupted(trainer: Trainer, state: Trained, iteration: int) -> Any:
        if iteration == 1:
            signal.raise_signal(signal.SIGINT)
        return step(trainer, state, iteration)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        with pytest.raises(
            Stopped,
            match=r"2 of 3; all is saved, and can be used as it is. To go on, .*resume=True \(--resume\)",
        ):
            fit(demos, config=SMALL, out=tmp_path)
    trainer = Trainer(SMALL, make_source(demos, SMALL))
    state = trainer.start()
    for iteration in range(2):
        state, _ = trainer.step(state, iteration)
    assert_same_weights(load(tmp_path), trainer.models(state)[0])
    assert load(tmp_path).config.num_iterations == 2
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]
    resumed = fit(demos, config=SMALL, out=tmp_path, resume=True)
    assert_same_weights(resumed, fit(demos, config=SMALL))
    assert load(tmp_path).config.num_iterations == 3
    assert [row["iteration"] for row in read_log(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize(("when", "usable"), [(0, False), (2, True)])
def test_a_signal_in_the_first_or_the_last_step(
    when: int, usable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that has learned nothing is not handed out; one that has learned all is, and the caller stops."""
    start, step = Trainer.start, Trainer.step

    def signalled_start(trainer: Trainer) -> Trained:
        if when == 0:
            signal.raise_signal(signal.SIGINT)
        return start(trainer)

    def signalled_step(trainer: Trainer, state: Trained, iteration: int) -> Any:
        if iteration == when == 2:
            signal.raise_signal(signal.SIGINT)
        return step(trainer, state, iteration)

    monkeypatch.setattr(Trainer, "start", signalled_start)
    monkeypatch.setattr(Trainer, "step", signalled_step)
    words = "3 of 3; all is saved, and can be used" if usable else r"0 of 3; all is saved\."
    with pytest.raises(Stopped, match=words):
        fit(vector_demos(), config=SMALL, out=tmp_path)
    assert (tmp_path / "model").exists() == usable


def test_numbers_of_numpy_are_written_as_plain_ones(tmp_path: Path) -> None:
    model = fit(vector_demos(), config=SMALL, learning_rate=np.float32(1e-3), seed=np.int64(0), out=tmp_path / "run")
    assert load(tmp_path / "run").config == model.config


def test_what_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(DemonstrationError, match="too few for 5 segments"):
        fit(vector_demos(), config=SMALL, num_segments=5, out=folder)
    with pytest.raises(ConfigError, match="num_skills is 0: use a whole number of at least 1"):
        fit(vector_demos(), config=SMALL, num_skills=0, out=folder)
    assert not folder.exists()


@pytest.mark.slow
def test_grid_pickup_is_learned_without_labels_within_a_minute(as_shipped: dict[str, str], tmp_path: Path) -> None:
    """On a processor of two cores; the minute includes levels, compiling (where no program is kept) and training."""
    command = [sys.executable, "-m", "tests.training.minute_run", str(tmp_path / "model")]
    done = subprocess.run(command, env=as_shipped, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if jax.default_backend() == "cpu":
        assert float(done.stdout) <= 60
    model = load(tmp_path / "model")
    scores = evaluate(model, "grid-pickup", num_tasks=3, num_demos=512)
    assert scores.boundary_accuracy >= 0.98
    assert scores.f1_tolerance_1 >= 0.98
    assert scores.count_accuracy == 1
    assert scores.reconstruction is not None
    assert scores.reconstruction >= 0.6  # of five actions; this short a training stops far from the best policies


def test_a_hundred_demonstrations_are_enough_for_boundaries() -> None:
    demos = demonstrate("grid-pickup", num_demos=612, num_tasks=3, seed=5)
    model = fit(demos[:100], num_segments=3, num_iterations=200, progress=False)
    unseen = demos[100:]
    assert score(model.segment(unseen), unseen).boundary_accuracy >= 0.97


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"num_segments": 2}, {"boundaries": [[0] * 5, None, None, None]}),
        ({"num_segments": 2, "num_skills": 3}, {"codes": [[0, 1, 1, 2, 2], None, None, None]}),
        ({"num_segments": 3, "longest_segment": 3}, {"boundaries": [None, [0] * 6 + [-1] * 3, None, None]}),
        (
            {"num_segments": None},
            {"codes": [[-1, 1, -1, 0, -1], None, None, None], "segment_codes": [[0, 1], None, None, None]},
        ),
    ],
)
def test_labels_that_together_leave_nothing(settings: dict[str, Any], labels: dict[str, Any], tmp_path: Path) -> None:
    demos, config = vector_demos().with_labels(**labels), dataclasses.replace(SMALL, **settings)
    index = next(i for i, entry in enumerate(next(iter(labels.values()))) if entry)
    with pytest.raises(DemonstrationError, match=f"Demonstration {index} has no segmentation that agrees"):
        fit(demos, config=config, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_segments": 3, "longest_segment": 2}, r"has \d+ steps, more than 3 segments of up to 2: raise longest"),
        ({"num_segments": None, "max_segments": 2, "supervision": "b"}, "3 tasks, and max_segments is 2: make it 3"),
        (
            {"inference": "relaxed", "supervision": "z", "num_skills": 2},
            r"name skill 4, and there are 2 skills: raise num_skills to at least 5",
        ),
    ],
)
def test_a_world_that_leaves_no_segmentation(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DemonstrationError, match=message):
        fit(SymbolsWorld(num_tasks=3), config=dataclasses.replace(SMALL, **settings))


def test_a_demonstration_without_a_segmentation_teaches_nothing() -> None:
    """One that a world makes too short for all segments leaves the loss and the gradient of the others as they are."""
    demos = vector_demos()
    trainer = Trainer(SMALL, make_source(demos, SMALL))
    batch = jax.tree.map(lambda leaf: leaf[None, None], batch_of(demos.storage, 32, demos.max_length))
    keys = jax.random.split(jax.random.key(0), (1, 1, len(demos)))

    @jax.jit
    def gradients(params: Any, batch: Batch) -> Any:
        return trainer._gradients(params, (batch,), keys, iteration=jnp.array(0))

    short = batch._replace(lengths=batch.lengths.copy())
    short.lengths[0, 0, 3] = 2  # steps, of three segments
    without = short._replace(fits=np.array([[[True, True, True, False]]]))
    params = trainer.start().params
    found, expected = (gradients(params, each) for each in (short, without))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert np.abs(found[0].total) < 1e3


def test_a_world_whose_demonstrations_are_too_short(tmp_path: Path) -> None:
    with pytest.raises(DemonstrationError, match=r"too few for 4 segments: .* None where it is not known\.$"):
        fit(SymbolsWorld(num_tasks=1), config=dataclasses.replace(SMALL, num_segments=4), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_labels_do_not_count_as_predictions() -> None:
    demos = vector_demos()
    labelled = demos.with_labels(boundaries=[[-1, 0, 0, 1, 0], None, None, None])
    trainer = Trainer(SMALL, make_source(demos, SMALL))
    standings = []
    for held_out in (demos, labelled):
        trainer.source = trainer.source._replace(held_out=held_out)
        standings.append(score_seeds(trainer, trainer.start()))
    assert standings[0] == standings[1]


def test_counts_of_labels_are_no_setting() -> None:
    demos = vector_demos().with_labels(segment_codes=[[UNKNOWN] * 3] * 4)
    with pytest.raises(ConfigError, match="There is no setting segment_counts"):
        fit(demos, config=SMALL, segment_counts=True)


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
def test_labels_change_nothing_where_a_number_is_given(inference: str) -> None:
    """They must agree with it."""
    config = dataclasses.replace(SMALL, inference=inference)
    demos = vector_demos()
    source = make_source(demos.with_labels(segment_codes=[[UNKNOWN] * 3] * 4), config)
    assert source.segment_counts == NO_COUNTS
    with pytest.raises(DemonstrationError, match=r"codes of 2 segments, and there are 3|0 has no segmentation"):
        make_source(demos.with_labels(segment_codes=[[UNKNOWN] * 2] * 4), config)


def test_settings_of_a_model_are_those_that_were_given(tmp_path: Path) -> None:
    """So that another training may begin with them, and what is not said is chosen anew."""
    demos, config = vector_demos(), dataclasses.replace(SMALL, num_iterations=1)
    for same in (fit(demos, config=config, out=tmp_path), load(tmp_path)):
        assert same.config == config
        assert (same.resolved.shared_termination, same.resolved.termination_weight) == (False, 1.0)
    unknown = fit(demos, config=config, num_segments=None)
    assert (unknown.resolved.shared_termination, unknown.resolved.termination_weight) == (True, 3.0)
    assert unknown.skills.termination_weight == 3.0
    assert fit(demos, config=config, inference="relaxed").resolved.sigma_floor == 0.25


class Plain:
    """A world of somebody's own, whose objects differ in nothing but where they lie."""

    num_tasks = 3

    def __init__(self) -> None:
        world = SymbolsWorld(num_tasks=3)
        self.num_actions, self.episode, self.observe = world.num_actions, world.episode, world.observe


def test_a_run_on_a_world_of_ones_own_goes_on_with_another_object(tmp_path: Path) -> None:
    fit(Plain(), config=SMALL, num_iterations=1, out=tmp_path)
    fit(Plain(), config=SMALL, num_iterations=2, out=tmp_path, resume=True)
    assert [row["iteration"] for row in read_log(tmp_path)] == [1, 2]


def test_training_that_diverges_raises() -> None:
    with pytest.raises(TrainingError, match=r"diverged by iteration 2\. Train again with a lower learning_rate"):
        fit(vector_demos(), config=dataclasses.replace(SMALL, num_iterations=3, learning_rate=1e30))


def test_a_last_step_that_diverges_raises(tmp_path: Path) -> None:
    """Its loss is still that of the weights before it."""
    last = dataclasses.replace(SMALL, num_iterations=1, learning_rate=1e38, cooldown=0.0)
    with pytest.raises(TrainingError, match="diverged by iteration 1"):
        fit(vector_demos(), config=last, out=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()


def test_weights_that_are_no_numbers_make_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody looks, and so nothing was scored."""
    step = Trainer.step

    def spoil(self: Trainer, state: Trained, iteration: int) -> Any:
        after, loss = step(self, state, iteration)
        return after._replace(params=jax.tree.map(lambda leaf: leaf * jnp.nan, after.params)), loss

    monkeypatch.setattr(Trainer, "step", spoil)
    with pytest.raises(TrainingError, match="diverged by iteration 1"):
        fit(vector_demos(), config=dataclasses.replace(SMALL, num_iterations=1), progress=False)


def test_training_that_diverges_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether anybody looks or not."""
    seen = []
    step = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, state, i: seen.append(i) or step(self, state, i))
    with pytest.raises(TrainingError, match="diverged by iteration 5"):
        fit(vector_demos(), config=dataclasses.replace(SMALL, num_iterations=100, learning_rate=1e30), progress=False)
    assert len(seen) == 5


def test_one_seed_that_diverges_leaves_the_others() -> None:
    config = dataclasses.replace(SMALL, num_seeds=2)
    trainer = Trainer(config, make_source(vector_demos(), config))
    start = trainer.start()
    spoilt = start._replace(params=jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), start.params))
    standings = score_seeds(trainer, spoilt)
    assert np.isnan(standings[0].log_likelihood)
    assert np.isfinite(standings[1].log_likelihood)
    assert best_of(standings, 1) == 1


def test_units_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    observations, actions = [rng.normal(size=(9, 2))] * 3, [rng.normal(size=(8, 2))] * 3
    scales = [
        scaling_of(Demonstrations.from_arrays([o * u for o in observations], [a * u for a in actions]))
        for u in (1.0, 1e-5, 1e5)
    ]
    for unit, scale in zip((1.0, 1e-5, 1e5), scales, strict=True):
        np.testing.assert_allclose(scale.action_spread, unit * scales[0].action_spread, rtol=1e-4)
        np.testing.assert_allclose(scale.observation_spread, unit * scales[0].observation_spread, rtol=1e-4)
    constant = scaling_of(Demonstrations.from_arrays([np.full((5, 1), 1e30)] * 2, [np.full((4, 1), 0.3)] * 2))
    assert (constant.action_spread, constant.observation_spread) == (0.0, 1.0)


def test_units_of_grids_do_not_matter() -> None:
    """Images of bytes are as good as those of ones; grids of ones are what they were."""
    rng = np.random.default_rng(0)
    ones, actions = [rng.integers(0, 2, (7, 5, 5, 2)) for _ in range(3)], [rng.integers(0, 2, 6) for _ in range(3)]
    losses, seen = [], []
    for unit in (np.uint8(1), np.uint8(255), 1e-3, -1e4):
        demos = Demonstrations.from_arrays([each * unit for each in ones], actions, num_actions=2)
        model = fit(demos, config=SMALL, num_iterations=1, effects=True)
        losses.append(model.segment(demos).log_likelihood)
        seen.append(model.skills.space.grid_unit)
    np.testing.assert_allclose(seen, [1, 255, 1e-3, 1e4], rtol=1e-6)
    for loss in losses[1:3]:
        np.testing.assert_allclose(loss, losses[0], rtol=1e-4)
    assert np.isfinite(losses[3]).all()
    nothing = Demonstrations.from_arrays([np.zeros((7, 5, 5, 2))], [actions[0]], num_actions=2)
    assert space_of(nothing).grid_unit == 1


def test_each_demonstration_may_have_its_own_number_of_segments() -> None:
    demos = vector_demos()
    counts = [2, 3, 2, 1]
    labelled = demos.with_labels(segment_codes=[[UNKNOWN] * m for m in counts])
    model = fit(labelled, config=dataclasses.replace(SMALL, num_segments=None, max_segments=4))
    assert model.segment(labelled).num_segments.tolist() == counts
    # Numbers that labels give can be given as a list, with the same settings as one number.
    listed = fit(demos, config=dataclasses.replace(SMALL, num_segments=None, max_segments=4), num_segments=counts)
    assert (listed.config, listed.resolved) == (model.config, model.resolved)
    known = dataclasses.replace(SMALL, num_segments=3).resolved()
    for name in ("duration_weight", "shared_termination", "termination_weight"):
        assert getattr(listed.resolved, name) == getattr(known, name)
    assert listed.duration_rate == pytest.approx(listed_rate(demos, counts))


def listed_rate(demos: Demonstrations, counts: list[int]) -> float:
    """Mean length of the demonstrations that are trained on by their mean number of segments."""
    kept, _ = hold_out(with_counts(demos, counts), SMALL.seed)
    return float(kept.lengths.mean() / counts_from_labels(kept).mean())


def test_a_list_of_counts_must_fit() -> None:
    demos = vector_demos()
    with pytest.raises(DemonstrationError, match=r"a world makes new demonstrations|use one number"):
        fit("symbols", config=SMALL, num_segments=[2, 3])
    with pytest.raises(DemonstrationError, match="labels of demonstration 1 give codes of 2 segments"):
        fit(demos.with_labels(segment_codes=[None, [0, 1], None, None]), config=SMALL, num_segments=[2, 3, 2, 1])


def test_some_counts_may_be_known() -> None:
    """The likelihood of each demonstration is that of its number where a list says it, and of any where it does not."""
    demos = vector_demos()
    model = fit(demos, config=SMALL, num_segments=[2, None, 7, None], num_iterations=1, change_rule=False)
    assert (model.resolved.num_segments, model.resolved.max_segments) == (None, 7)
    assert (model.config.num_segments, model.config.max_segments) == (None, 5)
    labelled = with_counts(demos, [2, None, 7, None])
    assert labelled.labels is not None
    assert labelled.labels.segment_codes is not None
    assert [len(codes) for codes in labelled.labels.segment_codes] == [2, 0, 7, 0]
    assert model.segment(labelled).num_segments[[0, 2]].tolist() == [2, 7]
    with pytest.raises(ConfigError, match="relaxed inference needs their number"):
        fit(demos, config=SMALL, num_segments=None, inference="relaxed")


def test_as_many_are_considered_as_are_given() -> None:
    """Of all demonstrations in labels, or of some in a list."""
    demos = vector_demos()
    for data, given in ((demos, [3, 4, None, 2]), (with_counts(demos, [3, 4, 2, 2]), None)):
        model = fit(data, config=SMALL, num_segments=given, max_segments=3)
        assert (model.config.max_segments, model.resolved.max_segments) == (3, 4)
        assert model.log_counts(demos, "unknown", "exact").shape == (4, 5)


def test_a_long_list_of_counts_is_not_shown() -> None:
    demos = vector_demos(20)
    with pytest.raises(
        DemonstrationError, match=r"num_segments is \[2, 2, .*, with 19 entries: .* one for each of the 20 d"
    ):
        fit(demos, config=SMALL, num_segments=[2] * 19)
    with pytest.raises(DemonstrationError, match=r"num_segments is \[2, 2, 2, 2\.5, .*: give"):
        fit(demos, config=SMALL, num_segments=[2] * 3 + [2.5] + [2] * 16)


def test_num_segments_may_be_called_unknown() -> None:
    assert attach_counts(vector_demos(), SMALL, {"num_segments": "unknown"})[1].num_segments is None
    with pytest.raises(ConfigError, match="use a whole number of at least 1 or 'unknown' or None"):
        fit(vector_demos(), config=SMALL, num_segments="three")


@pytest.mark.parametrize("what", [None, [np.zeros((3, 2))], 7])
def test_only_demonstrations_and_worlds_are_fitted(what: Any) -> None:
    with pytest.raises(DemonstrationError, match=r"make them with Demonstrations.from_arrays"):
        fit(what, config=SMALL)


@pytest.mark.parametrize("config", [{"num_skills": 3}, {}, "exact"])
@pytest.mark.parametrize("counts", [3, [2, 2, 2, 2]])
def test_only_a_config_is_one(config: Any, counts: Any) -> None:
    with pytest.raises(ConfigError, match=r"config is a (dict|str): pass Config.*as \*\*settings"):
        fit(vector_demos(), config=config, num_segments=counts)


def test_nothing_to_resume() -> None:
    with pytest.raises(ValueError, match="nothing to resume: give the folder"):
        fit(vector_demos(), config=SMALL, resume=True)


def test_images_with_their_channels_first() -> None:
    demos = Demonstrations.from_arrays([np.zeros((4, 3, 32, 32), np.uint8)], [np.zeros(3, int)], num_actions=2)
    with pytest.raises(DemonstrationError, match=r"grids of 3x32x32: .*channels come first.*np\.moveaxis"):
        fit(demos, config=SMALL)


@pytest.mark.parametrize("file", ["mine.npz", Path("runs/mine")])
def test_a_file_is_no_world(file: Any) -> None:
    with pytest.raises(DemonstrationError, match=rf"'{file}' is not the name of a world: .*Demonstrations\.load"):
        fit(file, config=SMALL)


def test_numbers_of_segments_that_relaxed_inference_cannot_have() -> None:
    settings: dict[str, Any] = {"inference": "relaxed", "num_skills": 2}
    with pytest.raises(ConfigError, match="relaxed inference needs their number"):
        fit(vector_demos(), num_segments=[2, 2, None, 2], **settings)
    with pytest.raises(
        DemonstrationError, match="Demonstration 1 has 9 steps, too few for 1000000 segments: lower num"
    ):
        fit(vector_demos(), num_segments=10**6, **settings)


def test_grids_too_small_for_the_network() -> None:
    demos = Demonstrations.from_arrays([np.zeros((4, 4, 4, 2), np.uint8)], [np.zeros(3, int)], num_actions=2)
    with pytest.raises(DemonstrationError, match="grids of 4x4x2: two convolutions need 5 rows"):
        fit(demos, config=SMALL)


@pytest.mark.parametrize("largest", [100_000, 2**30])
def test_sparse_numbers_of_symbols(largest: int) -> None:
    demos = Demonstrations.from_arrays([np.array([0, 5, largest, 5, 0])] * 2, [[0, 1, 1, 0]] * 2)
    message = rf"Observations are numbered up to {largest}, and only 3 .*np\.unique\(values, return_inverse=True\)"
    with pytest.raises(DemonstrationError, match=message):
        fit(demos, config=SMALL)
    with pytest.raises(DemonstrationError, match=message):
        Features.of(demos, View())


def test_more_actions_than_can_be_learned_of() -> None:
    demos = Demonstrations.from_arrays(None, [[0, 1, 1, 0]] * 2, num_actions=2**24)
    with pytest.raises(DemonstrationError, match=r"Actions are numbered up to 16777215, and only 2 .*np\.unique"):
        fit(demos, config=SMALL)


def test_dense_numbers_of_symbols_may_be_large() -> None:
    frames = np.arange(0, 200_000, 100) + 1
    check_numbering(Demonstrations.from_arrays([frames], [np.zeros(len(frames) - 1, int)], num_actions=100_000))
