"""Saved models come back whole, or not at all with an error that says what to do."""

import dataclasses
import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.files import checksum
from compile_il.data.segments import Segments
from compile_il.model.files import CONFIG_FILE, WEIGHTS_FILE, ModelError, load
from compile_il.training.fit import fit
from tests.inference.exact.small import SMALL, model_for, small_model, vector_demos


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model().save(tmp_path_factory.mktemp("models") / "runs" / "small")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def change(folder: Path, **values: object) -> None:
    path = folder / CONFIG_FILE
    description = json.loads(path.read_text()) | values
    del description["sha256"]
    sums = checksum(description, (folder / WEIGHTS_FILE).read_bytes())
    path.write_text(json.dumps(description | {"sha256": sums}))


def test_what_is_written(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]
    assert [path.name for path in saved.parent.iterdir()] == ["small"]
    description = json.loads((saved / CONFIG_FILE).read_text())
    assert description["format"] == 4
    assert description["settings"]["num_skills"] == 3
    names = safetensors.numpy.load_file(saved / WEIGHTS_FILE)
    assert {
        "policies.encoder.embedding.mean",
        "policies.heads.layers.0.weight",
        "policies.log_sigma",
        "stopping.layers.0.bias",
    } <= names.keys()


def test_segmentations_are_identical(saved: Path) -> None:
    loaded = load(saved)
    assert loaded.config == SMALL
    assert loaded.duration_rate == small_model().duration_rate
    before, after = small_model().segment(vector_demos()), loaded.segment(vector_demos())
    for field in dataclasses.fields(Segments):
        for a, b in zip(getattr(before, field.name), getattr(after, field.name), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["grid", "symbol"])
def test_other_spaces(kind: str, tmp_path: Path) -> None:
    frames = np.arange(6) % 3 if kind == "symbol" else np.zeros((6, 5, 5, 2), np.uint8)
    demos = Demonstrations.from_arrays([frames], [np.random.default_rng(0).normal(3, 2, (5, 2))])
    model = model_for(demos)
    again = load(model.save(tmp_path / "model"))
    assert again.skills.space == model.skills.space
    ours, theirs = (each.skills.policies.encoder.actions for each in (again, model))
    np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(ours.spread, theirs.spread)


def test_settings_that_labels_resolve_come_back(tmp_path: Path) -> None:
    model = fit(vector_demos(), config=SMALL, num_segments=[2, 3, 2, 1])
    again = load(model.save(tmp_path / "model"))
    assert (again.config, again.resolved) == (model.config, model.resolved)


def test_a_learned_length_comes_back(tmp_path: Path) -> None:
    model = fit(vector_demos(), config=SMALL, num_segments="unknown")
    assert model.expected_length != model.duration_rate
    again = load(model.save(tmp_path / "model"))
    assert again.expected_length == model.expected_length
    np.testing.assert_array_equal(
        again.segment(vector_demos(), 3).log_likelihood, model.segment(vector_demos(), 3).log_likelihood
    )


def test_existing_models_are_replaced_on_request_only(tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    with pytest.raises(FileExistsError, match=r"model exists: choose another name, or pass overwrite=True"):
        small_model().save(tmp_path / "model")
    other = small_model(seed=1)
    other.save(tmp_path / "model", overwrite=True)
    np.testing.assert_array_equal(
        load(tmp_path / "model").skills.stopping.layers[0].weight, other.skills.stopping.layers[0].weight
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_other_folders_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"holds thesis\.tex, which is no part of a model"):
        small_model().save(tmp_path, overwrite=True)
    with pytest.raises(FileExistsError, match=r"thesis\.tex exists: choose another name"):
        small_model().save(tmp_path / "thesis.tex", overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_place_where_nobody_can_write() -> None:
    with pytest.raises(OSError, match=r"^/proc/model cannot be written \(.*\): name a folder somewhere else"):
        small_model().save("/proc/model")


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "arm.npz").touch()
    with pytest.raises(ModelError, match=r"arm\.npz is a file: name the folder of a model"):
        load(tmp_path / "arm.npz")


def test_a_write_that_fails_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = (folder / WEIGHTS_FILE).read_bytes()
    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left"):
        small_model(seed=1).save(folder, overwrite=True)
    assert (folder / WEIGHTS_FILE).read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["copy"]


def truncate_weights(folder: Path) -> None:
    path = folder / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(folder: Path) -> None:
    data = bytearray((folder / WEIGHTS_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / WEIGHTS_FILE).write_bytes(data)


def truncate_config(folder: Path) -> None:
    path = folder / CONFIG_FILE
    path.write_text(path.read_text()[:-20])


def another_digit(folder: Path) -> None:
    path = folder / CONFIG_FILE
    text = path.read_text()
    assert text.count('"num_segments": 3') == 2
    path.write_text(text.replace('"num_segments": 3', '"num_segments": 2', 1))


def not_text(folder: Path) -> None:
    (folder / CONFIG_FILE).write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize(
    ("damage", "file", "message"),
    [
        (
            truncate_weights,
            CONFIG_FILE,
            rf"or {WEIGHTS_FILE} does not hold what was written: it is damaged",
        ),
        (flip_a_bit, CONFIG_FILE, rf"or {WEIGHTS_FILE} does not hold what was written"),
        (truncate_config, CONFIG_FILE, r"is not JSON .*: it is damaged\. Copy the folder again"),
        (not_text, CONFIG_FILE, "is not JSON"),
        (another_digit, CONFIG_FILE, r"does not hold what was written: .* changed by hand\. Undo"),
        (lambda folder: (folder / WEIGHTS_FILE).unlink(), WEIGHTS_FILE, "cannot be read .*name the folder of a model"),
        (lambda folder: (folder / CONFIG_FILE).unlink(), CONFIG_FILE, "cannot be read"),
        (shutil.rmtree, CONFIG_FILE, "cannot be read"),
        (lambda folder: change(folder, format=2), CONFIG_FILE, "has format 2, and this version of compile-il reads 4"),
        (lambda folder: (folder / CONFIG_FILE).write_text("[]"), CONFIG_FILE, "has format None"),
        (lambda folder: change(folder, settings={"colour": 1}), CONFIG_FILE, "There is no setting colour"),
        (lambda folder: change(folder, resolved={"num_skills": "3"}), CONFIG_FILE, "does not describe a model"),
        (lambda folder: change(folder, space=None), CONFIG_FILE, "does not describe a model"),
        (lambda folder: change(folder, duration_rate="fast"), CONFIG_FILE, "does not describe a model"),
    ],
)
def test_damage_is_named(folder: Path, damage: Callable[[Path], object], file: str, message: str) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=rf"copy/{file} .*{message}"):
        load(folder)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"num_skills": 4},
            r"has float32\[3, 8, 8\] as policies\.heads\.layers\.0\.weight, where its settings ask for .*\[4, 8, 8\]",
        ),
        ({"shared_termination": True}, r"has .* as stopping\.layers\.1\.weight, where"),
    ],
)
def test_weights_that_do_not_fit_the_settings(folder: Path, changed: dict[str, object], message: str) -> None:
    change(folder, resolved=SMALL.resolved().to_json() | changed)
    with pytest.raises(ModelError, match=rf"{WEIGHTS_FILE} {message}"):
        load(folder)


def test_weights_of_another_space(folder: Path) -> None:
    description = json.loads((folder / CONFIG_FILE).read_text())
    change(
        folder, space=description["space"] | {"observation_kind": "symbol", "observation_shape": [], "num_symbols": 3}
    )
    with pytest.raises(ModelError, match=r"has no array as policies\.encoder\.embedding\.table\.weight, where .* Undo"):
        load(folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config.json cannot be read \(No such file or directory\): name the folder"):
        load(tmp_path / "nothing")
