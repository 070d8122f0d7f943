"""Relaxed inference from `fit` to execution: learning, variants, labels, decoders, files, errors."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import compile_il as cil
from compile_il.config import Config
from compile_il.data import DemonstrationError
from compile_il.data.batch import Batch, batch_of
from compile_il.data.demonstrations import Demonstrations
from compile_il.data.labels import UNKNOWN
from compile_il.evaluation.evaluate import score_model
from compile_il.evaluation.execute import reconstruct, run_all
from compile_il.inference.engines import ENGINES
from compile_il.inference.relaxed.engine import temperature_at
from compile_il.inference.relaxed.skills import RelaxedSkills
from compile_il.inference.relaxed.supervision import supervision_of_batch
from compile_il.worlds import make_world
from compile_il.worlds.demonstrate import draw_batch, draw_levels
from tests.inference.exact.small import model_for, new_skills

SMALL = Config(inference="relaxed", num_iterations=3, batch_size=8, hidden_dim=16, num_maps=2, num_skills=4)


def vector_demos(num: int = 6, seed: int = 0, continuous: bool = False) -> Demonstrations:
    """Random walks of 6 to 9 steps."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(6, 10, num)
    observations = [rng.normal(size=(n + 1, 3)).astype(np.float32) for n in lengths]
    actions = [rng.normal(size=(n, 2)) if continuous else rng.integers(0, 3, n) for n in lengths]
    return Demonstrations.from_arrays(observations, actions, **({} if continuous else {"num_actions": 3}))


@pytest.fixture(scope="module")
def symbols_model() -> cil.Model:
    settings = {"num_iterations": 250, "batch_size": 64, "hidden_dim": 32, "learning_rate": 3e-3}
    return cil.fit("symbols", inference="relaxed", **settings)


def test_it_learns_the_symbols(symbols_model: cil.Model) -> None:
    """The criterion of the official toy: every action reconstructed, on lists longer than in training too."""
    for tasks in (3, 5):
        demos = cil.demonstrate("symbols", num_demos=256, num_tasks=tasks, seed=7)
        found = symbols_model.segment(demos, tasks)
        assert reconstruct(symbols_model.skills, demos, found).accuracy >= 0.99
        assert cil.score(found, demos).boundary_accuracy >= 0.99


def test_both_decoders_find_them(symbols_model: cil.Model) -> None:
    demos = cil.demonstrate("symbols", num_demos=64, seed=8)
    for decoder in ("recognition", "exact"):
        assert cil.score(symbols_model.segment(demos, decoder=decoder), demos).boundary_accuracy >= 0.99
    assert symbols_model.segment(demos, "unknown", decoder="exact", max_segments=5).count_probs[0].shape == (6,)
    fewer = dataclasses.replace(symbols_model.resolved, max_segments=4)
    at_most_four = dataclasses.replace(symbols_model, resolved=fewer)
    assert at_most_four.segment(demos, "unknown", decoder="exact").count_probs[0].shape == (5,)


def test_both_decoders_are_scored() -> None:
    demos = cil.demonstrate("symbols", num_demos=16, num_tasks=3, seed=5)
    model, scores = model_for(demos, SMALL.resolved()), {}
    for decoder in ("recognition", "exact"):
        scores[decoder] = score_model(model, demos, decoder=decoder)
        assert scores[decoder] == cil.score(model.segment(demos, decoder=decoder), demos)
        evaluation = cil.evaluate(model, "symbols", num_demos=16, num_tasks=3, seed=5, decoder=decoder)
        assert evaluation[:4] == scores[decoder]
    assert scores["exact"] != scores["recognition"] == score_model(model, demos)
    with pytest.raises(ValueError, match=r"best has no meaning for the recognition model"):
        score_model(model, demos, best="path")
    with pytest.raises(ValueError, match=r"This model has no recognition model"):
        cil.evaluate(model_for(demos), "symbols", decoder="recognition")


def test_probabilities_are_where_boundaries_are(symbols_model: cil.Model) -> None:
    found = symbols_model.segment(cil.demonstrate("symbols", num_demos=16, seed=9))
    for inner, probs in zip(found.boundaries, found.boundary_probs, strict=True):
        assert (probs[inner] > 0.5).all()
        assert (np.delete(probs, inner) < 0.5).all()
        assert ((probs >= 0) & (probs <= 1)).all()


def test_each_demonstration_has_its_own_count(symbols_model: cil.Model) -> None:
    demos = cil.demonstrate("symbols", num_demos=8, seed=9)
    counts = [1, 2, 3, 3, 2, 1, 3, 2]
    together = symbols_model.segment(demos, counts)
    for i, count in enumerate(counts):
        alone = symbols_model.segment(demos[i : i + 1], count)
        np.testing.assert_array_equal(together.boundaries[i], alone.boundaries[0])
        np.testing.assert_array_equal(together.skills[i], alone.skills[0])
        assert together.log_likelihood[i] == pytest.approx(alone.log_likelihood[0], abs=1e-4)


def test_saved_and_loaded(symbols_model: cil.Model, tmp_path: Path) -> None:
    demos = cil.demonstrate("symbols", num_demos=8, seed=9)
    again = cil.load(symbols_model.save(tmp_path / "model"))
    expected, found = symbols_model.segment(demos), again.segment(demos)
    for a, b in zip(expected.skills + expected.boundaries, found.skills + found.boundaries, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(expected.log_likelihood, found.log_likelihood)


@pytest.mark.parametrize(
    ("settings", "continuous"),
    [
        ({"codes": "gaussian", "code_dim": 5, "readout": "attentive"}, True),
        ({"boundary_term": "lengths", "final_temperature": 0.1, "policy_layers": 2, "num_seeds": 2}, False),
    ],
)
def test_variants_train_save_and_act(settings: dict[str, Any], continuous: bool, tmp_path: Path) -> None:
    demos = vector_demos(continuous=continuous)
    model = cil.fit(demos, config=dataclasses.replace(SMALL, **settings), out=tmp_path / "run")
    model = cil.load(tmp_path / "run")
    found = model.segment(demos)
    assert np.isfinite(found.log_likelihood).all()
    code = found.skills[0][0]
    assert code.shape == ((5,) if settings.get("codes") == "gaussian" else ())
    running = model.begin(demos.observations[0][0], code)
    action = running.act()
    assert action.shape == ((2,) if continuous else ())
    assert running.arrive(action, demos.observations[0][1]) in (True, False)
    assert len(found.labels[0]) == demos.lengths[0]


def test_it_runs_in_a_world() -> None:
    world = make_world("grid-pickup", num_tasks=2)
    model = cil.fit(world, config=dataclasses.replace(SMALL, num_segments=2, half_precision=True))
    levels = draw_levels(world, jax.random.key(0), 3)
    done = run_all(model.skills, world, levels, jnp.zeros((3, 2), int), jnp.full((3,), 2))
    assert done.shape == (3,)


def loss_of(batch: Batch, demos: Demonstrations, **settings: Any) -> float:
    config = dataclasses.replace(SMALL, **settings).resolved()
    skills = new_skills(demos, config)
    losses = ENGINES[config.inference].make_losses(config, 3.0)
    keys = jax.random.split(jax.random.key(1), len(demos))
    return float(jnp.mean(eqx.filter_jit(losses)(skills, batch, keys, jnp.array(0)).total))


def test_padding_and_room_change_nothing() -> None:
    """Noise is drawn for padded times too, so it is kept away: at a temperature of (nearly) infinity none is left."""
    demos = vector_demos()
    short = loss_of(batch_of(demos.storage, 80, 9), demos, temperature=1e6)
    assert loss_of(batch_of(demos.storage, 96, 9), demos, temperature=1e6) == pytest.approx(short, abs=1e-4)
    assert np.isfinite(short)


def test_states_and_actions_are_normed_together() -> None:
    demos = vector_demos()
    skills = new_skills(demos, SMALL)
    assert isinstance(skills, RelaxedSkills)
    inputs = skills.read(batch_of(demos.storage, 80, 9)).inputs
    for row, length in zip(inputs, demos.lengths, strict=True):
        np.testing.assert_allclose(row[: length + 1].mean(axis=-1), 0.0, atol=1e-5)
        np.testing.assert_allclose(row[: length + 1].var(axis=-1), 1.0, rtol=1e-3)


def test_more_segments_than_steps_leave_some_empty() -> None:
    demos = vector_demos()
    model = cil.fit(demos, config=dataclasses.replace(SMALL, num_segments=int(demos.lengths.min()) + 1))
    found = model.segment(demos)
    assert (found.num_segments <= demos.lengths).all()
    for inner, length in zip(found.boundaries, demos.lengths, strict=True):
        assert (np.diff([0, *inner, length]) > 0).all()
    with pytest.raises(DemonstrationError, match="too few for 7 segments"):
        model.segment(demos, decoder="exact")


def labelled(demos: Demonstrations, **labels: Any) -> Batch:
    return batch_of(demos.with_labels(**labels).storage, 80, 9)


def test_labels_are_read_as_ends_and_codes() -> None:
    demos = vector_demos(2)
    steps = [np.zeros(n, int) for n in demos.lengths]
    steps[0][[2, 4]] = 1
    steps[1][:] = UNKNOWN
    codes = [np.repeat([3, 1, 2], [2, 2, n - 4]) for n in demos.lengths]
    supervision = supervision_of_batch(labelled(demos, boundaries=steps, codes=codes), 3, jnp.array([3, 3]))
    np.testing.assert_array_equal(supervision.ends, [[2, 4, demos.lengths[0]], [UNKNOWN, UNKNOWN, demos.lengths[1]]])
    np.testing.assert_array_equal(supervision.codes, [[3, 1, 2], [UNKNOWN] * 3])
    segment_codes = [np.array([1, UNKNOWN, 0]), np.array([], int)]
    supervision = supervision_of_batch(labelled(demos, segment_codes=segment_codes), 3, jnp.array([3, 3]))
    np.testing.assert_array_equal(supervision.codes, [[1, UNKNOWN, 0], [UNKNOWN] * 3])
    np.testing.assert_array_equal(supervision.ends[:, 0], [UNKNOWN, UNKNOWN])


@pytest.mark.parametrize("supervision", ["b", "z"])
def test_a_world_gives_true_labels(supervision: Any) -> None:
    world = make_world("grid-pickup", num_tasks=3)
    keys = jax.random.split(jax.random.key(5), 4)
    batch = draw_batch(world, keys, 400, 90, supervision)
    episodes = jax.vmap(world.episode)(keys)
    of_labels = supervision_of_batch(batch, 3, jnp.full(4, 3))
    for i in range(4):
        index = np.asarray(episodes.segment_index[i, : batch.lengths[i]])
        ends = [*np.flatnonzero(np.diff(index)) + 1, len(index)]
        np.testing.assert_array_equal(of_labels.ends[i, :2], ends[:2] if "b" in supervision else [UNKNOWN] * 2)
        tasks = episodes.level.tasks[i] if "z" in supervision else [UNKNOWN] * 3
        np.testing.assert_array_equal(of_labels.codes[i], tasks)


def test_labels_are_learned() -> None:
    """With all labels given, the recognition model says them after a short training, on data of random actions."""
    demos = vector_demos(8)
    cuts = [np.array([2, n - 2]) for n in demos.lengths]
    codes = [np.array([2, 0, 1])] * 8
    steps = [np.isin(np.arange(n), cut).astype(int) for n, cut in zip(demos.lengths, cuts, strict=True)]
    supervised = demos.with_labels(boundaries=steps, segment_codes=codes)
    config = dataclasses.replace(SMALL, num_iterations=150, learning_rate=1e-2, hidden_dim=32)
    model = cil.fit(supervised, config=config)
    found = model.segment(demos)
    right = [np.array_equal(a, b) for a, b in zip(found.boundaries, cuts, strict=True)]
    assert np.mean(right) >= 0.8  # one of eight is held out
    assert np.mean([np.array_equal(a, b) for a, b in zip(found.skills, codes, strict=True)]) >= 0.8
    respected = model.segment(supervised)
    for inner, cut in zip(respected.boundaries, cuts, strict=True):
        np.testing.assert_array_equal(inner, cut)


def test_the_temperature_falls_from_first_to_last() -> None:
    config = dataclasses.replace(SMALL, num_iterations=101, temperature=1.0, final_temperature=0.01)
    values = [float(temperature_at(config, jnp.array(i))) for i in (0, 50, 100)]
    np.testing.assert_allclose(values, [1.0, 0.1, 0.01], rtol=1e-5)
    assert float(temperature_at(SMALL, jnp.array(2))) == 1.0


def test_uses_that_make_no_sense_are_refused() -> None:
    demos = vector_demos()
    relaxed = model_for(demos, SMALL.resolved())
    with pytest.raises(ValueError, match=r"needs the number of segments: pass it, or decoder"):
        relaxed.segment(demos, "unknown")
    with pytest.raises(ValueError, match=r"best has no meaning for the recognition model"):
        relaxed.segment(demos, best="path")
    with pytest.raises(ValueError, match=r"decoder is 'greedy': use"):
        relaxed.segment(demos, decoder="greedy")
    exact = model_for(demos)
    with pytest.raises(ValueError, match=r"This model has no recognition model"):
        exact.segment(demos, decoder="recognition")
    gaussian = model_for(demos, dataclasses.replace(SMALL, codes="gaussian", code_dim=4).resolved())
    segments = gaussian.segment(demos.with_labels(segment_codes=[[2, -1, -1]] * len(demos)))
    for codes in segments.skills:
        np.testing.assert_array_equal(codes[0], 2 * np.eye(4)[2])
        assert codes.shape == (3, 4)
    with pytest.raises(ValueError, match=r"Codes of real numbers cannot be summed over"):
        gaussian.segment(demos, decoder="exact")


def test_gaussian_codes_are_refused_in_words_that_help() -> None:
    demos = vector_demos()
    model = model_for(demos, dataclasses.replace(SMALL, codes="gaussian", code_dim=4).resolved())
    assert repr(model).startswith("Model(codes of 4 numbers, 3 segments, ")
    with pytest.raises(ValueError, match=r"needs the number of segments: pass it\.$"):
        model.segment(demos, "unknown")
    with pytest.raises(ValueError, match=r"best has no meaning for the recognition model: leave it out\.$"):
        model.segment(demos, best="path")
    with pytest.raises(ValueError, match=r'no posterior to draw from: use segment, or train with codes="categorical"'):
        model.sample(demos)
    seen = demos.observations[0][0]
    for wrong in (3, np.zeros(5), np.array([0, np.nan, 0, 0]), np.array(["a"] * 4)):
        with pytest.raises(ValueError, match=r"of 4 finite numbers, such as found.skills\[0\]\[0\] .* was given"):
            model.act(seen, wrong)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            {"boundaries": [[0, 1, 0, 0, 0, 0, 0]]},
            r"demonstration 0 give 1 of 2 boundaries: .* needs all",
        ),
        ({"codes": [[1] * 7]}, r"demonstration 0 give 0 of 2 boundaries: .* not of steps"),
        ({"segment_codes": [[1, 1, 40]], "settings": {"codes": "gaussian"}}, r"raise code_dim to at least 41"),
        ({"segment_codes": [[1, 1, 2]], "settings": {"supervision": "z"}}, r"supervision is 'z', which is for worlds"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(labels: dict[str, Any], message: str) -> None:
    demos = Demonstrations.from_arrays([np.zeros((8, 2))], [np.zeros(7, int)], num_actions=2)
    settings = {"codes": "categorical"} | labels.pop("settings", {})
    with pytest.raises(DemonstrationError, match=message):
        cil.fit(demos.with_labels(**labels), config=dataclasses.replace(SMALL, **settings))


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(SMALL, codes="gaussian", code_dim=4), Config()])
def test_skills_that_there_are_not_are_refused_when_segmenting(config: Config) -> None:
    demos = vector_demos()
    model = model_for(demos, dataclasses.replace(config, num_skills=4, hidden_dim=8))
    for labels in ({"segment_codes": [[4, 1, 0]] * 6}, {"codes": [[4] + [UNKNOWN] * (n - 1) for n in demos.lengths]}):
        with pytest.raises(DemonstrationError, match="labels of demonstration 0 name skill 4, and there are 4"):
            model.segment(demos.with_labels(**labels))


def test_worlds_with_unusable_labels_are_refused() -> None:
    config = dataclasses.replace(SMALL, supervision="z")
    with pytest.raises(DemonstrationError, match=r"there are 4 skills: raise num_skills to at least 10"):
        cil.fit("grid-pickup", config=config)
    with pytest.raises(DemonstrationError, match=r"lists have 4 tasks, and num_segments is 3"):
        cil.fit(make_world("grid-pickup", num_tasks=4), config=config)


def test_labels_count_whatever_others_have() -> None:
    demos = cil.demonstrate("symbols", num_demos=2, seed=3)
    model = model_for(demos, SMALL.resolved())
    cut = [np.zeros(n, int) for n in demos.lengths]
    cut[0][5] = 1
    cut[1][:] = UNKNOWN
    found = model.segment(demos.with_labels(boundaries=cut), [2, 3])
    assert found.boundaries[0].tolist() == [5]
    with pytest.raises(DemonstrationError, match=r"demonstration 0 give 1 of 2 boundaries"):
        model.segment(demos.with_labels(boundaries=cut), 3)


@pytest.mark.parametrize("inference", ["exact", "relaxed"])
def test_half_precision_with_vectors_is_close_and_keeps_scales(inference: Any) -> None:
    demos = vector_demos(continuous=True)
    config = dataclasses.replace(SMALL, inference=inference, num_segments=2).resolved()
    skills = new_skills(demos, config)
    batch = batch_of(demos.storage, int(demos.num_frames), demos.max_length)
    keys = jax.random.split(jax.random.key(1), len(demos))
    losses = eqx.filter_jit(ENGINES[config.inference].make_losses(config, 3.0))
    half = skills.in_half_precision()
    full_loss, half_loss = (losses(which, batch, keys, jnp.array(0)).total for which in (skills, half))
    np.testing.assert_allclose(half_loss, full_loss, rtol=0.03)
    assert (half_loss != full_loss).any()
    for kept in (half.policies.log_sigma, half.policies.encoder.actions.spread):
        assert kept.dtype == jnp.float32
