"""Experiments of which results were committed, made tiny: that they still run, and what their files hold."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_il.data import UNKNOWN
from compile_il.data.segments import Segments
from experiments.ablations import imitation, meaning, stations, way_points
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
    monkeypatch.setattr(way_points, "SETTINGS", {"mean length given": {"duration_rate": None}})
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


@pytest.mark.slow
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
