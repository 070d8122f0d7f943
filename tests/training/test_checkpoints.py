"""Checkpoints: what is written is what is read, and damage never goes unnoticed."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.model.files import CONFIG_FILE, WEIGHTS_FILE
from compile_il.training.checkpoints import Checkpoint, CheckpointError, Checkpoints
from compile_il.training.trainer import Trained


def state(seed: int) -> Trained:
    rng = np.random.default_rng(seed)
    params = {"weights": jnp.asarray(rng.normal(size=(2, 3, 4)), jnp.float32), "none": jnp.zeros((2, 0))}
    params["half"] = jnp.asarray(rng.normal(size=5), jnp.float16)
    return Trained(params, {"count": jnp.asarray([seed, seed]), "odd": jnp.asarray([np.nan, -0.0, np.inf])})


BLANK = jax.tree.map(jnp.zeros_like, state(0))


def assert_same(one: Checkpoint, other: Checkpoint) -> None:
    assert one[1:] == other[1:]
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def latest(folder: Path, like: Trained = BLANK) -> Checkpoint:
    return Checkpoints(folder).latest(like)


FIRST, LAST = Checkpoint(state(1), 5, 1.25), Checkpoint(state(2), 17, 3.5)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    checkpoints = Checkpoints(folder)
    checkpoints.save(FIRST)
    checkpoints.save(LAST)
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "checkpoints"))


def test_the_last_one_is_read(folder: Path) -> None:
    assert_same(latest(folder), LAST)


def test_there_may_be_none(tmp_path: Path) -> None:
    assert latest(tmp_path / "new" / "checkpoints") == Checkpoint(BLANK, 0, 0.0)


def test_few_are_kept_and_none_is_written_twice(folder: Path) -> None:
    third = Checkpoint(state(3), 18, 4.0)
    checkpoints = Checkpoints(folder)
    checkpoints.save(third)
    checkpoints.save(Checkpoint(state(4), 18, 5.0))
    assert_same(checkpoints.latest(BLANK), third)
    assert sorted(path.name for path in folder.iterdir()) == ["17", "18"]


def test_what_a_killed_run_was_writing_is_swept_away(folder: Path) -> None:
    shutil.copytree(folder / "17", folder / ".20.abc.part")
    assert_same(latest(folder), LAST)
    assert sorted(path.name for path in folder.iterdir()) == ["17", "5"]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "first": lambda data: bytes([data[0] ^ 0x55]) + data[1:],
    "middle": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "last": lambda data: data[:-1] + bytes([data[-1] ^ 0x80]),
    "longer": lambda data: data + b"}",
}


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_damage_is_noticed(name: str, damage: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folder / "17" / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(CheckpointError) as refusal:
        latest(folder)
    message = str(refusal.value)
    assert message.startswith(f"The checkpoint {folder / '17'} is damaged")
    assert message.endswith("delete that folder and resume again to go on from iteration 5.")
    assert capfd.readouterr() == ("", ""), "only our words are to be heard"


def test_what_is_said_of_the_numbers_is_checked_too(folder: Path) -> None:
    about = folder / "17" / CONFIG_FILE
    values = json.loads(about.read_text())
    for change in ({"seconds": 3.25}, {"iteration": 5}, {"sha256": "0"}, {"format": 1}):
        about.write_text(json.dumps(values | change))
        with pytest.raises(CheckpointError, match="is damaged, or of another version"):
            latest(folder)


def test_the_advice_works(folder: Path) -> None:
    def spoil(step: int) -> None:
        (folder / str(step) / WEIGHTS_FILE).write_bytes(b"")

    spoil(17)
    with pytest.raises(CheckpointError, match=r"17 .* delete that folder and resume again to go on from iteration 5\."):
        latest(folder)
    shutil.rmtree(folder / "17")
    assert_same(latest(folder), FIRST)
    spoil(5)
    with pytest.raises(CheckpointError, match=r"5 .* delete that folder and resume again to start from the beginning"):
        latest(folder)
    shutil.rmtree(folder / "5")
    assert latest(folder).iteration == 0


def test_other_shapes(folder: Path) -> None:
    wider = BLANK._replace(params=BLANK.params | {"weights": jnp.zeros((2, 3, 5))})
    with pytest.raises(CheckpointError, match=r"17 is damaged, or of another version .* Resume with that"):
        latest(folder, wider)


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(CheckpointError, match=r"18 cannot be written \(.*No space left.*then resume; earlier"):
        Checkpoints(folder).save(Checkpoint(state(3), 18, 4.0))
    assert_same(latest(folder), LAST)
    assert sorted(path.name for path in folder.iterdir()) == ["17", "5"]
