"""The log of a run: rows as they come, none twice after a resume, and the same numbers in TensorBoard."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from compile_il.training.runs import EVENTS_FOLDER, LOG_FILE, TrainingLog, read_log


def row(iteration: int, accuracy: float | None = 0.5) -> dict[str, Any]:
    return {
        "iteration": iteration,
        "seed": 1,
        "loss": iteration / 8,
        "boundary_accuracy": accuracy,
        "by_seed": [{"loss": 2.0}],
    }


def write(folder: Path, iterations: list[int], resumed_at: int = 0) -> None:
    with TrainingLog(folder, resumed_at=resumed_at) as log:
        for iteration in iterations:
            log.write(row(iteration))


def curves(folder: Path) -> dict[str, dict[int, float]]:
    events = EventAccumulator(str(folder / EVENTS_FOLDER))
    events.Reload()
    names = events.Tags()["scalars"]
    for name in names:
        steps = [event.step for event in events.Scalars(name)]
        assert steps == sorted(set(steps)), "a point is there twice"
        assert all(event.wall_time > 1e9 for event in events.Scalars(name))
    return {name: {event.step: event.value for event in events.Scalars(name)} for name in names}


def test_rows_and_curves(tmp_path: Path) -> None:
    write(tmp_path, [2, 4])
    assert read_log(tmp_path) == [row(2), row(4)]
    assert curves(tmp_path) == {"loss": {2: 0.25, 4: 0.5}, "boundary_accuracy": {2: 0.5, 4: 0.5}}


def test_rows_are_there_before_the_end(tmp_path: Path) -> None:
    with TrainingLog(tmp_path) as log:
        log.write(row(2))
        assert read_log(tmp_path) == [row(2)]
        assert curves(tmp_path)["loss"] == {2: 0.25}


def test_what_is_not_known_has_no_curve(tmp_path: Path) -> None:
    with TrainingLog(tmp_path) as log:
        log.write(row(2, accuracy=None))
    assert read_log(tmp_path) == [row(2, accuracy=None)]
    assert list(curves(tmp_path)) == ["loss"]


@pytest.mark.parametrize("resumed_at", [0, 3, 4, 7])
def test_resumed_runs_repeat_no_row(resumed_at: int, tmp_path: Path) -> None:
    write(tmp_path, [2, 4, 6])
    # TensorBoard orders files by the second in their names; real sessions are longer than that.
    for path in (tmp_path / EVENTS_FOLDER).iterdir():
        path.rename(path.with_name("events.out.tfevents.0000000001"))
    again = [iteration for iteration in (2, 4, 6, 8) if iteration > resumed_at]
    write(tmp_path, again, resumed_at=resumed_at)
    assert read_log(tmp_path) == [row(2), row(4), row(6), row(8)]
    assert curves(tmp_path)["loss"] == {2: 0.25, 4: 0.5, 6: 0.75, 8: 1.0}


@pytest.mark.parametrize(
    "damaged", [b'{"iteration": 4, "lo', b"3\n", b"{}\n", b'{"iteration": "4"}\n', b"\xff\xfe{\n", b"\x00\x00\n", b"\n"]
)
def test_damaged_lines_are_left_out(damaged: bytes, tmp_path: Path) -> None:
    whole = [json.dumps(row(iteration)).encode() + b"\n" for iteration in (2, 6)]
    (tmp_path / LOG_FILE).write_bytes(whole[0] + damaged)
    assert read_log(tmp_path) == [row(2)]
    write(tmp_path, [6], resumed_at=5)
    assert (tmp_path / LOG_FILE).read_bytes() == b"".join(whole), "what was cut off stays in the way"
    (tmp_path / LOG_FILE).write_bytes(whole[0] + damaged.rstrip(b"\n") + b"\n" + whole[1])
    assert read_log(tmp_path) == [row(2), row(6)]


def strict(line: str) -> dict[str, Any]:
    """Reads what the standard allows, and no NaN."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(line, parse_constant=refuse)


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    """A seed that has diverged has no loss; the log of the others stays readable, by any program."""
    bad = row(2, accuracy=math.nan) | {"loss": math.inf, "by_seed": [{"loss": math.nan}, {"loss": 2.0}]}
    written = row(2, accuracy=None) | {"loss": None, "by_seed": [{"loss": None}, {"loss": 2.0}]}
    (tmp_path / LOG_FILE).write_text(json.dumps(bad | {"iteration": 1}) + "\n")  # as older versions wrote it
    with TrainingLog(tmp_path, resumed_at=1) as log:
        log.write(bad)
        log.write(row(4))
    lines = (tmp_path / LOG_FILE).read_text().splitlines()
    assert [strict(line) for line in lines] == [written | {"iteration": 1}, written, row(4)]
    assert curves(tmp_path) == {"loss": {4: 0.5}, "boundary_accuracy": {4: 0.5}}
    with pytest.raises(ValueError, match="is not JSON"):
        strict(json.dumps(bad))


def test_no_log_has_no_rows(tmp_path: Path) -> None:
    assert read_log(tmp_path) == []
