import sys
from pathlib import Path
from typing import Any

import gymnasium
import minari
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from minari.data_collector import EpisodeBuffer

from compile_il.data.demonstrations import Demonstrations
from compile_il.data.validation import DemonstrationError
from tests.data.strategies import Recipe, recipes

DEMOS = Demonstrations.from_arrays(
    [np.arange(6).reshape(3, 2), np.arange(8).reshape(4, 2)],
    [[0, 1], [2, 1, 0]],
    num_actions=4,
    boundaries=[[1], []],
    codes=[[7, 8], [9]],
).reveal(fraction=0.5)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recipes(segment_codes=False))
def test_round_trip(recipe: Recipe):
    demos = recipe.build()
    demos.to_minari("test/demos-v0", overwrite=True)
    assert Demonstrations.from_minari("test/demos-v0") == demos


def test_frames_of_any_size_survive_exactly():
    """Minari takes frames of 32 x 32 x 3 and more for images, and compresses those unless set not to."""
    frames = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3), np.uint8)
    demos = Demonstrations.from_arrays([frames], [[0, 1]])
    demos.to_minari("images-v0")
    assert Demonstrations.from_minari("images-v0") == demos


def test_others_can_read_what_we_write():
    DEMOS.to_minari("test/demos-v0")
    dataset = minari.load_dataset("test/demos-v0")
    assert dataset.total_episodes == 2
    assert dataset.total_steps == 5
    assert dataset.observation_space == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    assert dataset.action_space == spaces.Discrete(4)
    episode = dataset[0]
    assert episode.observations.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert episode.actions.tolist() == [0, 1]
    assert episode.rewards.tolist() == [0, 0]
    assert episode.terminations.tolist() == [False, True]
    assert episode.truncations.tolist() == [False, False]
    assert episode.infos["compile_il"]["true_boundaries"].tolist() == [0, 1, -1]
    assert episode.infos["compile_il"]["true_codes"].tolist() == [7, 8, -1]


@pytest.mark.parametrize(
    ("observations", "space"),
    [
        (None, spaces.Box(0, 0, (1,), np.float32)),
        ([[0, 5]], spaces.Discrete(6)),
        ([np.zeros((2, 1, 2, 3), np.uint8)], spaces.Box(0, 255, (1, 2, 3), np.uint8)),
        ([np.zeros((2, 1, 2, 3))], spaces.Box(-np.inf, np.inf, (1, 2, 3), np.float32)),
    ],
)
def test_spaces_come_from_the_data(observations: Any, space: spaces.Space[Any]):
    Demonstrations.from_arrays(observations, [[0.5]]).to_minari("demos-v0")
    dataset = minari.load_dataset("demos-v0")
    assert dataset.observation_space == space
    assert dataset.action_space == spaces.Box(-np.inf, np.inf, (1,), np.float32)
    assert dataset[0].observations[0] in space


def test_the_environment_can_be_named():
    frames = np.zeros((2, 4))
    Demonstrations.from_arrays([frames], [[1]], num_actions=2).to_minari("demos-v0", env_id="CartPole-v1")
    environment = minari.load_dataset("demos-v0").recover_environment()
    assert environment.spec is not None
    assert environment.spec.id == "CartPole-v1"
    environment.close()


def test_an_existing_dataset_is_replaced_only_on_request():
    DEMOS.to_minari("test/demos-v0")
    with pytest.raises(FileExistsError, match="test/demos-v0 exists already; pass overwrite=True"):
        DEMOS[:1].to_minari("test/demos-v0")
    assert Demonstrations.from_minari("test/demos-v0") == DEMOS
    DEMOS[:1].to_minari("test/demos-v0", overwrite=True)
    assert Demonstrations.from_minari("test/demos-v0") == DEMOS[:1]


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_failed_write_leaves_the_old_dataset_and_nothing_else(store: Path, monkeypatch: pytest.MonkeyPatch):
    DEMOS.to_minari("test/demos-v0")
    before = files(store)

    def fail(dataset_id: str, *_: Any, **__: Any) -> None:
        (store / dataset_id / "data").mkdir(parents=True)
        (store / dataset_id / "data" / "main_data.hdf5").write_bytes(b"half of it")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(minari, "create_dataset_from_buffers", fail)
        for dataset_id in ("test/demos-v0", "test/new-v0"):
            with pytest.raises(OSError, match="disk full"):
                DEMOS[:1].to_minari(dataset_id, overwrite=True)
    assert files(store) == before
    assert Demonstrations.from_minari("test/demos-v0") == DEMOS


@pytest.mark.parametrize("env_id", ["Missing-v0", "CartPole-v99", "no such thing"])
def test_an_environment_that_is_not_registered_is_refused_before_anything_is_written(store: Path, env_id: str):
    with pytest.raises(gymnasium.error.Error, match=env_id.split("-", maxsplit=1)[0]):
        DEMOS.to_minari("test/demos-v0", env_id=env_id)
    assert files(store) == set()


def test_a_folder_that_is_no_dataset_is_never_replaced(store: Path):
    DEMOS.to_minari("space-v0/demos-v0")
    with pytest.raises(FileExistsError, match="space-v0 is not a Minari dataset, so it is not replaced"):
        DEMOS.to_minari("space-v0", overwrite=True)
    assert Demonstrations.from_minari("space-v0/demos-v0") == DEMOS


@pytest.mark.parametrize("dataset_id", ["demos", "../demos-v0", "", "a b-v0", "a/demos-v0"])
def test_ids_that_are_none_are_refused_before_anything_is_written(store: Path, dataset_id: str):
    for call in (DEMOS.to_minari, Demonstrations.from_minari):
        with pytest.raises(DemonstrationError, match=r"is not a Minari id; one reads namespace/name-v0.*\(\w"):
            call(dataset_id)
    assert files(store) == set()


def test_an_unknown_dataset_is_not_downloaded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("minari.storage.hosting.download_dataset", lambda *_: pytest.fail("tried to download"))
    with pytest.raises(FileNotFoundError, match=r"no Minari dataset ab/c-v0 .*'minari download ab/c-v0'"):
        Demonstrations.from_minari("ab/c-v0")


@pytest.mark.parametrize("missing", ["minari", "h5py", "PIL"])
def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, missing: str):
    monkeypatch.setitem(sys.modules, missing, None)
    for call in (lambda: DEMOS.to_minari("a-v0"), lambda: Demonstrations.from_minari("a-v0")):
        with pytest.raises(ImportError, match=r"pip install 'compile-il\[minari\]'"):
            call()


def foreign(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    observations: Any,
    actions: Any,
    infos: dict[str, Any] | None = None,
) -> None:
    """A dataset of one episode as others write it."""
    buffer = EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=[1.0] * len(actions),
        terminations=[False] * len(actions),
        truncations=[False] * len(actions),
        infos=infos,
    )
    minari.create_dataset_from_buffers(
        "foreign-v0", [buffer], observation_space=observation_space, action_space=action_space
    )


FOREIGN = pytest.mark.filterwarnings("ignore::UserWarning:minari")


@FOREIGN
def test_a_dataset_of_others_with_vectors_and_continuous_actions():
    frames, actions = np.arange(6.0).reshape(3, 2), np.array([[0.5], [1.5]])
    foreign(
        spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Box(-2, 2, (1,), np.float64), frames, actions,
        infos={"success": np.array([False, False, True])},
    )  # fmt: skip
    assert Demonstrations.from_minari("foreign-v0") == Demonstrations.from_arrays([frames], [actions])


@FOREIGN
def test_a_dataset_of_others_is_read_though_float32_loses_differences():
    frames, actions = 0.4 + np.array([[0.0], [1e-9], [2e-9]]), np.array([[0.5], [1.5]])
    foreign(spaces.Box(-1, 1, (1,), np.float64), spaces.Box(-2, 2, (1,), np.float64), frames, actions)
    (read,) = Demonstrations.from_minari("foreign-v0").observations
    np.testing.assert_array_equal(read, frames.astype(np.float32))


@FOREIGN
def test_a_dataset_of_others_with_images_and_shifted_actions():
    frames = np.arange(18, dtype=np.uint8).reshape(3, 2, 1, 3)
    foreign(spaces.Box(0, 255, (2, 1, 3), np.uint8), spaces.Discrete(5, start=-1), frames, np.array([-1, 2]))
    expected = Demonstrations.from_arrays([frames], [[0, 3]], num_actions=5)
    assert Demonstrations.from_minari("foreign-v0") == expected


@FOREIGN
def test_a_dataset_of_others_with_symbols_and_whole_numbers_in_a_box():
    foreign(
        spaces.Discrete(9, start=1),
        spaces.Box(0, 3, (2,), np.int64),
        np.array([1, 9, 2]),
        np.array([[0, 3], [1, 1]]),
    )
    expected = Demonstrations.from_arrays([[0, 8, 1]], [np.array([[0.0, 3.0], [1.0, 1.0]])])
    assert Demonstrations.from_minari("foreign-v0") == expected


@FOREIGN
@pytest.mark.parametrize(
    ("observation_space", "action_space", "observations", "actions", "message"),
    [
        (
            spaces.Dict({"position": spaces.Box(0, 1, (2,))}),
            spaces.Discrete(2),
            {"position": np.zeros((3, 2))},
            np.array([0, 1]),
            r"observation space of the Minari dataset foreign-v0 is Dict\('position': Box.*from_arrays",
        ),
        (
            spaces.Tuple([spaces.Discrete(2)]),
            spaces.Discrete(2),
            (np.zeros(3, int),),
            np.array([0, 1]),
            r"observation space .* is Tuple\(Discrete\(2\)\)",
        ),
        (
            spaces.Box(0, 1, (2,)),
            spaces.MultiDiscrete([2, 2]),
            np.zeros((3, 2)),
            np.zeros((2, 2), int),
            r"action space .* is MultiDiscrete\(\[2 2\]\)",
        ),
        (
            spaces.Box(0, 1, (2,)),
            spaces.Discrete(2),
            np.full((3, 2), np.nan),
            np.array([0, 1]),
            "Cannot use the Minari dataset foreign-v0: Episode 0, observation 0 holds NaN",
        ),
        (
            spaces.Box(0, 255, (4, 4), np.uint8),
            spaces.Discrete(2),
            np.zeros((3, 4, 4), np.uint8),
            np.array([0, 1]),
            r"foreign-v0: Each observation has shape \(4, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    observation_space: Any, action_space: Any, observations: Any, actions: Any, message: str
):
    foreign(observation_space, action_space, observations, actions)
    with pytest.raises(DemonstrationError, match=message):
        Demonstrations.from_minari("foreign-v0")


def test_combined_datasets_keep_what_all_of_them_know():
    DEMOS.to_minari("one-v0")
    DEMOS.with_truth(boundaries=[[1], []]).to_minari("two-v0")
    minari.combine_datasets([minari.load_dataset("one-v0"), minari.load_dataset("two-v0")], "both-v0")
    both = Demonstrations.from_minari("both-v0")
    assert both[:2] == DEMOS.with_truth(boundaries=[[1], []])
    assert both[2:] == both[:2]
