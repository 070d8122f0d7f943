"""Demonstrations from worlds: the same seed gives the same bytes, and the truth is true."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import compile_il as cil
from compile_il.worlds import demonstrate as generate
from compile_il.worlds.demonstrate import CPU_CHUNK
from compile_il.worlds.grid import GridWorld
from compile_il.worlds.world import WorldError


@pytest.mark.parametrize("world", ["grid-pickup", "grid-visit", "reacher", "symbols"])
def test_same_seed_same_bytes_on_any_batch_size(world: str) -> None:
    few = cil.demonstrate(world, num_demos=3, seed=7)
    many = cil.demonstrate(world, num_demos=CPU_CHUNK + 5, seed=7)
    again = cil.demonstrate(world, num_demos=CPU_CHUNK + 5, seed=7)
    assert many == again
    assert many[:3] == few
    assert many[3:] != cil.demonstrate(world, num_demos=CPU_CHUNK + 5, seed=8)[3:]
    tail = many[CPU_CHUNK:]
    assert not any(np.array_equal(tail.actions[0], actions) for actions in many[:5].actions)


GOLDEN = {
    "grid-pickup": "b0947fb1efd04d3d",
    "grid-visit": "2b795b4c8b67061d",
    "symbols": "d06000c920729971",
}
"""What seed 0 has meant from the first release on. The reacher's floats may differ from one processor to the next."""


def digest(demos: cil.Demonstrations) -> str:
    total = hashlib.sha256()
    arrays = [demos.storage.observations.values, demos.storage.actions.values, demos.lengths]
    for array in (*arrays, *demos.truth.boundaries, *demos.truth.codes):
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:16]


@pytest.mark.parametrize("world", list(GOLDEN))
def test_a_seed_keeps_its_meaning(world: str) -> None:
    assert digest(cil.demonstrate(world, num_demos=20)) == GOLDEN[world]


@pytest.mark.parametrize("world", list(GOLDEN))
def test_the_size_of_chunks_does_not_matter(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "CPU_CHUNK", 7)
    assert digest(cil.demonstrate(world, num_demos=20)) == GOLDEN[world]


def test_global_settings_of_jax_do_not_matter() -> None:
    code = (
        "import compile_il as cil; from tests.worlds.test_demonstrate import digest;"
        "print([digest(cil.demonstrate(world, num_demos=20)) for world in ('grid-pickup', 'grid-visit', 'symbols')])"
    )
    environment = os.environ | {"JAX_ENABLE_X64": "1", "JAX_DEFAULT_PRNG_IMPL": "rbg"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(list(GOLDEN.values())), done.stderr


def test_kinds_and_shapes() -> None:
    grid = cil.demonstrate("grid-pickup", num_demos=4)
    assert grid.observation_shape == (10, 10, 12)
    assert grid.observations[0].dtype == np.uint8
    assert grid.num_actions == 8
    reacher = cil.demonstrate("reacher", num_demos=4)
    assert reacher.observation_shape == (32,)
    assert reacher.observations[0].dtype == np.float32
    assert reacher.action_dim == 2
    for demos in (grid, reacher):
        for observations, actions in zip(demos.observations, demos.actions, strict=True):
            assert len(observations) == len(actions) + 1


def test_pickup_truth_is_where_things_disappear() -> None:
    demos = cil.demonstrate("grid-pickup", num_demos=200, num_tasks=4)
    for index in range(len(demos)):
        frames = demos.observations[index][..., :10].astype(int)
        gone = frames[:-1].sum(axis=(1, 2)) - frames[1:].sum(axis=(1, 2))
        steps, types = np.nonzero(gone)
        assert demos.truth.boundaries[index].tolist() == (steps[:-1] + 1).tolist()
        assert demos.truth.codes[index].tolist() == types.tolist()
        assert steps[-1] == demos.lengths[index] - 1


def test_reacher_truth_is_where_targets_fade() -> None:
    demos = cil.demonstrate("reacher", num_demos=200, num_tasks=3)
    for index in range(len(demos)):
        alpha = demos.observations[index][:, :30].reshape(-1, 10, 3)[..., 0]
        steps, types = np.nonzero(alpha[:-1] - alpha[1:])
        assert demos.truth.boundaries[index].tolist() == (steps[:-1] + 1).tolist()
        assert demos.truth.codes[index].tolist() == types.tolist()


def test_cut_demonstrations_list_the_tasks_begun() -> None:
    whole = cil.demonstrate("grid-pickup", num_demos=300, num_tasks=5)
    cut = cil.demonstrate("grid-pickup", num_demos=300, num_tasks=5, max_steps=12)
    assert cut.lengths.max() == 12
    assert (whole.lengths > 12).any()
    for index in range(300):
        kept = [b for b in whole.truth.boundaries[index] if b < cut.lengths[index]]
        assert cut.truth.boundaries[index].tolist() == kept
        assert cut.truth.codes[index].tolist() == whole.truth.codes[index][: len(kept) + 1].tolist()
        np.testing.assert_array_equal(cut.actions[index], whole.actions[index][: cut.lengths[index]])


def test_progress_and_worlds_as_values() -> None:
    seen: list[int] = []
    world = GridWorld(kind="visit", num_tasks=2)
    demos = cil.demonstrate(world, num_demos=CPU_CHUNK + 1, on_progress=seen.append)
    assert seen == [CPU_CHUNK, CPU_CHUNK + 1]
    assert demos[:4] == cil.demonstrate("grid-visit", num_demos=4, num_tasks=2)


def test_mistakes_are_refused() -> None:
    with pytest.raises(WorldError, match="num_demos is 0"):
        cil.demonstrate("reacher", num_demos=0)
    with pytest.raises(WorldError, match=r"num_demos is 2\.5: use a whole number"):
        cil.demonstrate("reacher", num_demos=2.5)
    with pytest.raises(WorldError, match="seed is None: use a whole number"):
        cil.demonstrate("reacher", num_demos=1, seed=None)
    with pytest.raises(WorldError, match="seed is -1"):
        cil.demonstrate("reacher", num_demos=1, seed=-1)
    with pytest.raises(WorldError, match="num_tasks go with the name"):
        cil.demonstrate(GridWorld(), num_demos=1, num_tasks=2)
