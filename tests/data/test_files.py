import contextlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.data.strategies import Recipe, recipes

IN_TMP_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
DEMOS = Demonstrations.from_arrays(
    [np.arange(6).reshape(3, 2), np.arange(8).reshape(4, 2)],
    [[0, 1], [2, 1, 0]],
    num_actions=4,
    boundaries=[[1], []],
    codes=[[7, 8], [9]],
).reveal(fraction=0.5)


@IN_TMP_PATH
@given(recipes())
def test_round_trip(tmp_path: Path, recipe: Recipe):
    demos = recipe.build()
    assert Demonstrations.load(demos.save(tmp_path / "demos.npz", overwrite=True)) == demos


@pytest.mark.parametrize(
    ("given_name", "written_name"),
    [("a.npz", "a.npz"), ("a", "a.npz"), ("a.demos", "a.demos"), ("a.b.c", "a.b.c")],
)
def test_the_path_is_the_one_given_with_npz_where_there_is_no_suffix(
    tmp_path: Path, given_name: str, written_name: str
):
    assert DEMOS.save(tmp_path / given_name) == tmp_path / written_name
    assert os.listdir(tmp_path) == [written_name]
    assert Demonstrations.load(tmp_path / given_name) == DEMOS
    assert Demonstrations.load(str(tmp_path / given_name)) == DEMOS


def test_a_file_without_suffix_that_exists_is_read(tmp_path: Path):
    DEMOS.save(tmp_path / "demos.npz").rename(tmp_path / "demos")
    assert Demonstrations.load(tmp_path / "demos") == DEMOS


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path):
    path = DEMOS.save(tmp_path / "demos.npz")
    with pytest.raises(FileExistsError, match=r"demos\.npz exists: .* pass overwrite=True"):
        DEMOS[:1].save(path)
    assert Demonstrations.load(path) == DEMOS
    DEMOS[:1].save(path, overwrite=True)
    assert Demonstrations.load(path) == DEMOS[:1]


def test_folders_must_exist_and_files_be_no_folders(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing: make it first"):
        DEMOS.save(tmp_path / "missing" / "demos.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        DEMOS.save(tmp_path / "folder.npz", overwrite=True)
    with pytest.raises(FileNotFoundError, match=r"no file .*demos\.npz"):
        Demonstrations.load(tmp_path / "demos")


@pytest.mark.parametrize("path", ["", ".", "/", "..", "missing/..", "folder", "folder/"])
def test_a_path_that_names_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises((FileNotFoundError, IsADirectoryError), match=r"name a file to write, such as .*new\.npz"):
        DEMOS.save(path, overwrite=True)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == []


def test_saving_through_a_link_keeps_the_link(tmp_path: Path):
    real = DEMOS[:1].save(tmp_path / "real.npz")
    (tmp_path / "link.npz").symlink_to("real.npz")
    assert DEMOS.save(tmp_path / "link.npz", overwrite=True) == tmp_path / "link.npz"
    assert (tmp_path / "link.npz").is_symlink()
    assert Demonstrations.load(real) == DEMOS


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = DEMOS.save(tmp_path / "demos.npz")

    def fail(file: Any, **_: Any) -> None:
        file.write(b"half of it")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        DEMOS[:1].save(path, overwrite=True)
    assert os.listdir(tmp_path) == ["demos.npz"]
    assert Demonstrations.load(path) == DEMOS


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path):
    (tmp_path / "other").touch()
    assert DEMOS.save(tmp_path / "demos.npz").stat().st_mode == (tmp_path / "other").stat().st_mode


def edited(path: Path, **changes: Any) -> Path:
    """The file, with some fields replaced, and those that are None left out."""
    with np.load(DEMOS.save(path)) as archive:
        fields = {name: value for name, value in {**archive, **changes}.items() if value is not None}
    if "fields" not in changes:
        fields["fields"] = [name for name in fields if name != "fields"]
    np.savez(path, **fields)
    return path


def test_an_edited_file_that_makes_sense_is_read(tmp_path: Path):
    assert Demonstrations.load(edited(tmp_path / "demos.npz")) == DEMOS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": None}, "'format_version' is missing.*Copy the file again, or write it anew"),
        ({"format_version": 3}, "has format 3, and this compile-il reads up to 2. Upgrade"),
        ({"format_version": "one"}, "format_version is .*'one'.*; use a whole number"),
        ({"fields": None}, "'fields' is missing"),
        ({"fields": ["format_version", "true_kodes"]}, "'actions' is missing, or not among those listed"),
        ({"fields": 5}, "'5' is missing"),
        ({"frames": None}, "'frames' is missing"),
        ({"actions": None}, "'actions' is missing"),
        ({"lengths": None}, "'lengths' is missing"),
        ({"num_actions": 2}, "Episode 1, step 0: action 2 is not among the 2 actions"),
        ({"num_actions": 4.0}, "num_actions is .*; use a whole number"),
        ({"lengths": [2, 2]}, "do not add up to the 5 actions"),
        ({"lengths": [2.0, 3.0]}, "lengths is float64"),
        ({"lengths": [[2, 3]]}, r"lengths is int64 of shape \(1, 2\)"),
        ({"lengths": [5, 0]}, "Episode 1 has no steps"),
        ({"frames": np.zeros((6, 2))}, "do not add up to the 6 frames"),
        ({"frames": np.zeros((7, 2, 2))}, r"Each observation has shape \(2, 2\)"),
        ({"frames": np.full((7, 2), np.nan)}, "Episode 0, observation 0 holds NaN"),
        ({"frames": np.full((7, 2), "a")}, "Frames have dtype <U1"),
        ({"actions": np.zeros(5)}, "num_actions is 4, but the actions are float64"),
        ({"actions": np.array(0)}, "Actions are a single number"),
        ({"true_boundaries": [9]}, r"Episode 0: entry \d of boundar.* is 9, .*lie within"),
        (
            {"true_boundaries": [[1]]},
            "'true_boundaries', or what counts its entries, is not a list of integers",
        ),
        ({"true_boundaries": [0.5]}, "boundaries of episode 0 are float64"),
        ({"num_true_boundaries": None}, "'num_true_boundaries' is missing"),
        ({"num_true_boundaries": [1]}, "boundaries must have one entry for each of the 2 episodes"),
        ({"num_true_boundaries": [1, 1]}, "do not add up to the 1 entries in 'true_boundaries'"),
        ({"num_true_boundaries": [2, -1]}, "'true_boundaries', or what counts its entries"),
        ({"num_true_codes": [1, 2]}, "Episode 0 of length 2: the number of its codes is 1, and should be 2"),
        ({"label_codes": [0, 0]}, "do not add up to the 2 entries in 'label_codes'"),
        ({"label_boundaries": [0, 5, 0, 0, 0]}, "Episode 0: entry 1 of boundaries is 5"),
        ({"label_segments": [1]}, "'num_label_segments' is missing"),
        ({"label_segments": [1], "num_label_segments": [1, 1]}, "do not add up to the 1 entries in 'label_segments'"),
        ({"label_segments": [1, -3], "num_label_segments": [0, 2]}, "Episode 1: entry 1 of segment_codes is -3"),
        (
            {"label_segments": [1] * 4, "num_label_segments": [0, 4]},
            "Episode 1 of length 3: the number of its segment_codes is 4",
        ),
        ({"frames": np.array([None, {}])}, "holds Python objects, which are never read.*Store arrays of numbers"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, changes: dict[str, Any], message: str):
    path = edited(tmp_path / "demos.npz", **changes)
    with pytest.raises(DemonstrationError, match=rf"(?s)Cannot load .*demos\.npz: .*{message}"):
        Demonstrations.load(path)


def test_the_format_is_the_first_that_holds_everything(tmp_path: Path):
    listed = DEMOS.with_labels(segment_codes=[None, [4, -1]])
    with np.load(listed.save(tmp_path / "demos.npz"), allow_pickle=False) as archive:
        assert archive["format_version"] == 2
        assert archive["label_segments"].tolist() == [4, -1]
        assert archive["num_label_segments"].tolist() == [0, 2]
    assert Demonstrations.load(tmp_path / "demos.npz") == listed


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", npy(np.zeros(3)), b"PK\x03\x04 and no more"])
def test_what_is_no_npz_file_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "demos.npz"
    path.write_bytes(content)
    with pytest.raises(DemonstrationError, match=r"Cannot load .*demos\.npz: it is not an npz file.*Copy the file"):
        Demonstrations.load(path)


def test_a_zip_of_other_things_is_refused(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "demos.npz", "w") as archive:
        archive.writestr("format_version.npy", b"not an array")
    with pytest.raises(DemonstrationError, match=r"format_version is .*; use a whole number"):
        Demonstrations.load(tmp_path / "demos.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("readme.txt", b"hello")
    with pytest.raises(DemonstrationError, match="'format_version' is missing"):
        Demonstrations.load(tmp_path / "other.npz")


@IN_TMP_PATH
@given(st.data())
def test_a_truncated_or_damaged_file_never_passes_for_another(tmp_path: Path, data: st.DataObject):
    whole = DEMOS.save(tmp_path / "demos.npz", overwrite=True).read_bytes()
    if data.draw(st.booleans()):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        place, flips = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
        damaged = whole[:place] + bytes([whole[place] ^ flips]) + whole[place + 1 :]
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with contextlib.suppress(DemonstrationError):  # any other kind of error fails the test
        assert Demonstrations.load(tmp_path / "damaged.npz") == DEMOS  # the flip hit a date, or the like


def test_others_can_read_the_arrays(tmp_path: Path):
    with np.load(DEMOS.save(tmp_path / "demos.npz"), allow_pickle=False) as archive:
        assert archive["format_version"] == 1
        assert archive["frames"].dtype == np.float32
        assert archive["lengths"].tolist() == [2, 3]
