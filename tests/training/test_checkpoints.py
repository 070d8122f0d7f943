"""Checkpoints: what is written is what is read, and damage never goes unnoticed."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.training.checkpoints import SUMS_FILE, Checkpoint, CheckpointError, Checkpoints
from compile_il.training.trainer import Trained


def state(seed: int) -> Trained:
    rng = np.random.default_rng(seed)
    params = {"weights": jnp.asarray(rng.normal(size=(2, 3, 4)), jnp.float32), "none": jnp.zeros((2, 0))}
    params["half"] = jnp.asarray(rng.normal(size=5), jnp.bfloat16)
    return Trained(params, {"count": jnp.asarray([seed, seed]), "odd": jnp.asarray([np.nan, -0.0, np.inf])})


BLANK = jax.tree.map(jnp.zeros_like, state(0))


def assert_same(one: Checkpoint | None, other: Checkpoint) -> None:
    assert one is not None
    assert one[1:] == other[1:]
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def latest(folder: Path, like: Trained = BLANK) -> Checkpoint | None:
    with closing(Checkpoints(folder)) as checkpoints:
        return checkpoints.latest(like)


FIRST, LAST = Checkpoint(state(1), 5, 1.25), Checkpoint(state(2), 17, 3.5)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    with closing(Checkpoints(folder)) as checkpoints:
        checkpoints.save(FIRST)
        checkpoints.save(LAST)
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "checkpoints"))


def test_the_last_one_is_read(folder: Path) -> None:
    assert_same(latest(folder), LAST)


def test_there_may_be_none(tmp_path: Path) -> None:
    assert latest(tmp_path / "new" / "checkpoints") is None


def test_few_are_kept_and_none_is_written_twice(folder: Path) -> None:
    third = Checkpoint(state(3), 18, 4.0)
    with closing(Checkpoints(folder)) as checkpoints:
        checkpoints.save(third)
        checkpoints.save(Checkpoint(state(4), 18, 5.0))
        assert_same(checkpoints.latest(BLANK), third)
    assert sorted(path.name for path in folder.iterdir()) == ["17", "18"]


def test_what_a_killed_run_was_writing_is_swept_away(folder: Path) -> None:
    shutil.copytree(folder / "17", folder / "20.orbax-checkpoint-tmp")
    assert_same(latest(folder), LAST)
    assert sorted(path.name for path in folder.iterdir()) == ["17", "5"]


def test_without_sums_the_numbers_are_still_checked(folder: Path) -> None:
    """A run may be killed after a checkpoint is complete and before its sums are written."""
    (folder / "17" / SUMS_FILE).unlink()
    (folder / "17" / f".{SUMS_FILE}.abc.part").write_text("{")
    assert_same(latest(folder), LAST)
    about = folder / "17" / "about" / "metadata"
    values = json.loads(about.read_text())
    for change in ({"seconds": 3.25}, {"iteration": 5}, {"digest": "0"}):
        about.write_text(json.dumps(values | change))
        with pytest.raises(CheckpointError, match="does not hold the numbers that were written"):
            latest(folder)


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "first": lambda data: bytes([data[0] ^ 0x55]) + data[1:],
    "middle": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "last": lambda data: data[:-1] + bytes([data[-1] ^ 0x80]),
    "longer": lambda data: data + b"}",
}
KINDS = [
    "_CHECKPOINT_METADATA",
    "commit_success.txt",
    SUMS_FILE,
    "about/*",
    "state/_METADATA",
    "state/*.ocdbt",
    "*/d/*",
]


def files(checkpoint: Path, kind: str) -> Iterator[Path]:
    found = [path for path in sorted(checkpoint.rglob(kind)) if path.is_file()]
    assert found, "Orbax has other files now"
    return iter(found)


@pytest.mark.parametrize("damage", [*DAMAGES, "gone"])
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_noticed(
    kind: str, damage: str, pristine: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in files(folder / "17", kind):
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(DAMAGES[damage](path.read_bytes()))
        try:
            assert_same(latest(folder), LAST)
        except CheckpointError as error:
            message = str(error)
            assert message.startswith(f"The checkpoint {folder / '17'} ")
            assert message.endswith("Delete that folder and resume again to go on from iteration 5.")
            assert "\n" not in message
        else:
            assert (kind, damage) == (SUMS_FILE, "gone")
        path.write_bytes((pristine / path.relative_to(folder)).read_bytes())
    assert_same(latest(folder), LAST)
    assert capfd.readouterr() == ("", ""), "only our words are to be heard"


def test_the_advice_works(folder: Path) -> None:
    def spoil(step: int) -> None:
        next(files(folder / str(step), "*/d/*")).write_bytes(b"")

    spoil(17)
    with pytest.raises(CheckpointError, match=r"17 .* Delete that folder and resume again to go on from iteration 5\."):
        latest(folder)
    shutil.rmtree(folder / "17")
    assert_same(latest(folder), FIRST)
    spoil(5)
    with pytest.raises(CheckpointError, match=r"5 .* Delete that folder and resume again to start from the beginning"):
        latest(folder)
    shutil.rmtree(folder / "5")
    assert latest(folder) is None


def test_other_shapes(folder: Path) -> None:
    wider = BLANK._replace(params=BLANK.params | {"weights": jnp.zeros((2, 3, 5))})
    with pytest.raises(CheckpointError, match="17 is of a model with other arrays: resume with the version"):
        latest(folder, wider)


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with closing(Checkpoints(folder)) as checkpoints:
        monkeypatch.setattr(checkpoints._manager, "save", fail)
        with pytest.raises(CheckpointError, match=r"18 cannot be written \(.*No space left.*then resume; earlier"):
            checkpoints.save(Checkpoint(state(3), 18, 4.0))
    assert_same(latest(folder), LAST)
