"""Experiments of which results were committed, made tiny: that they still run, and what their files hold."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_il.data import UNKNOWN
from compile_il.data.segments import Segments
from experiments.ablations import (
    durations,
    first_minute,
    imitation,
    meaning,
    stations,
    surprisal,
    told_gaussian,
    variants,
    way_points,
)
from experiments.paper.parts import SMOKE_SIZES


def written(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text())
    assert {"config", "commit", "seeds", "hardware", "wall_time"} <= set(found)
    figures: dict[str, Any] = found["figures"]
    return figures


@pytest.mark.slow
def test_imitation_by_both_decoders(tmp_path: Path) -> None:
    small = dataclasses.replace(imitation.AT_PAPER_SIZES, **SMOKE_SIZES, half_precision=False, inference="relaxed")
    run = imitation.Run(tmp_path / "out.json", "symbols", (3,), num_checks=1, also_exact=True, config=small)
    imitation.main(run)
    figures = written(tmp_path / "out.json")
    assert figures["iterations"] == 2
    assert len(figures["held_out_log_likelihood"]) == 2
    for name in ("scores", "scores, exact decoder"):
        assert len(figures[name]["3"]) == 2
    assert figures["scores"] != figures["scores, exact decoder"]


@pytest.mark.slow
def test_meaning(tmp_path: Path) -> None:
    small: dict[str, Any] = {"num_iterations": 2, "num_seeds": 1, "num_demos": 200, "num_test": 16}
    run = meaning.Run(tmp_path / "out.json", "symbols", ways=("merged",), **small)
    meaning.main(run)
    assert set(written(tmp_path / "out.json")) == {"merged"}
    codes = meaning.labelled(run).labels.segment_codes
    assert codes is not None
    assert [bool((np.asarray(each) != UNKNOWN).all()) for each in codes] == [True] * 2 + [False] * 198


def test_way_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way_points, "SETTINGS", {"mean length told": {"duration_rate": None}})
    small: dict[str, Any] = {"num_iterations": 2, "num_seeds": 1, "num_demos": 20, "num_test": 6}
    way_points.main(way_points.Run(tmp_path / "out.json", ("forces, place",), **small))
    figures = written(tmp_path / "out.json")
    assert set(figures) == {"forces, place"}
    assert set(figures["forces, place"]) == set(way_points.SETTINGS)


@pytest.mark.parametrize("name", ["forces, place", "the same, 6 to 10 visits"])
def test_way_points_are_where_visits_end(name: str) -> None:
    recording = way_points.RECORDINGS[name]
    demos = way_points.record(recording, 20, seed=0)
    truth = demos.truth
    assert truth.boundaries is not None
    assert truth.codes is not None
    for seen, inner, codes in zip(demos.observations, truth.boundaries, truth.codes, strict=True):
        assert (np.diff(codes) != 0).all()
        targets = recording.scale * way_points.WAY_POINTS[codes]
        assert np.linalg.norm(seen[[*inner, -1], :2] - targets, axis=1).max() < way_points.REACH
    assert way_points.mean_length(demos) == demos.lengths.sum() / sum(map(len, truth.codes))


def test_stations(tmp_path: Path) -> None:
    small: dict[str, Any] = {"num_iterations": 2, "num_seeds": 1, "num_few": 20, "num_many": 40, "num_test": 8}
    stations.main(stations.Run(tmp_path / "out.json", ("grouped",), **small))
    figures = written(tmp_path / "out.json")
    assert set(figures) == {"grouped"}
    for way in figures.values():
        assert {"agreement", "boundary_accuracy", "test_log_likelihood"} <= set(way["seeds"][0])


def test_stations_are_where_segments_end() -> None:
    """The places of a demonstration's true ends are grouped as its tasks are, up to the names of groups."""
    demos = stations.station_demos(60, seed=0)
    truth = demos.truth
    assert truth.boundaries is not None
    assert truth.codes is not None
    nothing = [np.zeros(0, np.float32)] * len(demos)
    found = Segments(truth.boundaries, truth.codes, nothing, nothing, np.zeros(len(demos), np.float32))
    groups = np.concatenate(stations.grouped_by_ends(found, demos, len(stations.STATIONS), seed=0))
    pairs = set(zip(groups.tolist(), np.concatenate(truth.codes).tolist(), strict=True))
    assert len(pairs) == len(stations.STATIONS) == len({group for group, _ in pairs})


def test_durations(tmp_path: Path) -> None:
    run = durations.Run(tmp_path / "out.json", ("symbols",), (None,), num_iterations=2, num_seeds=1, num_test=16)
    durations.main(run)
    assert set(written(tmp_path / "out.json")["symbols"]) == {"learned"}


@pytest.mark.slow
def test_first_minute(tmp_path: Path) -> None:
    first_minute.main(first_minute.Run(tmp_path / "out.json", "symbols", seconds=0.0, every=1, num_seeds=1))
    assert len(written(tmp_path / "out.json")) == 1


@pytest.mark.slow
def test_variants(tmp_path: Path) -> None:
    """With Gaussian codes, which the exact decoder cannot read."""
    config = dataclasses.replace(variants.Run(tmp_path).config, **SMOKE_SIZES, num_skills=3)
    name = "Gaussian codes, prior on lengths"
    variants.main(variants.Run(tmp_path / "out.json", (name,), num_demos=8, config=config))
    assert [set(seed) for seed in written(tmp_path / "out.json")[name]] == [{"recognition"}] * 2


@pytest.mark.slow
def test_surprisal(tmp_path: Path) -> None:
    config = dataclasses.replace(surprisal.SMALL, **SMOKE_SIZES)
    surprisal.main(surprisal.Run(tmp_path / "out.json", floors=(0.25,), num_levels=8, config=config))
    (row,) = written(tmp_path / "out.json")["floors"]
    assert row["floor"] == 0.25
    assert len(row["scores"]) == 2


@pytest.mark.slow
def test_told_gaussian(tmp_path: Path) -> None:
    small = dataclasses.replace(told_gaussian.SMALL, num_iterations=2, batch_size=4, hidden_dim=8)
    run = told_gaussian.Run(tmp_path / "out.json", weights=(0.1,), num_levels=8, num_checks=2, config=small)
    told_gaussian.main(run)
    figures = written(tmp_path / "out.json")
    assert list(figures) == ["0.1"]
    assert [check["iteration"] for check in figures["0.1"]] == [1, 2]
    for check in figures["0.1"]:
        for seed in range(2):
            total = sum(check[where][seed] for where in ("hit", "early", "late", "elsewhere"))
            assert abs(total - 1) < 1e-3


def test_where_boundaries_lie() -> None:
    late = np.array([0, 0, -1, 1, 5, -7, 0, -1])
    assert told_gaussian.shares(late) == {"hit": 0.375, "early": 0.25, "late": 0.125, "elsewhere": 0.25}
