"""Settings that cannot work are refused, with a message that says what to change."""

import dataclasses
import json
from typing import Any, get_args

import numpy as np
import pytest

from compile_il.config import Config, ConfigError, SegmentCounts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_iterations": -1}, r"num_iterations is -1: use a whole number of at least 1\."),
        ({"seed": -1}, r"seed is -1: use a whole number from 0 to 4294967295\."),
        ({"num_segments": 0}, r"num_segments is 0: use a whole number of at least 1 or 'unknown' or None"),
        ({"inference": "fuzzy"}, r"inference is 'fuzzy': use 'exact' or 'relaxed'\."),
        ({"max_gradient": 0}, "max_gradient is 0: use a number above 0 or None."),
        ({"cooldown": 1.5}, r"cooldown is 1\.5: use a number from 0 to 1\."),
        ({"readout": "attentive"}, r'readout has no meaning for exact inference: .*inference="relaxed"'),
        ({"inference": "relaxed", "duration_weight": 0.3}, r"duration_weight has no meaning for relaxed inference"),
        ({"code_dim": 8}, r'code_dim has no meaning for exact inference: leave it out, or pass inference="relaxed"'),
        (
            {"inference": "relaxed", "code_dim": 8},
            r'code_dim has no meaning for categorical codes: leave it out, or pass codes="gaussian"\.',
        ),
        ({"inference": "relaxed", "num_segments": 0}, r"num_segments is 0: use a whole number of at least 1"),
        ({"inference": "relaxed", "readout": "first"}, r"readout is 'first': use 'last' or 'attentive'"),
        ({"inference": "relaxed", "temperature": 0.0}, r"temperature is 0\.0: use a number of at least 1e-06"),
        (
            {"inference": "relaxed", "final_temperature": -1.0},
            r"final_temperature is -1\.0: use a number of at least 1e-06",
        ),
        ({"inference": "relaxed", "temperature": 1e-9}, r"temperature is 1e-09: use a number of at least 1e-06"),
        ({"inference": "relaxed", "final_temperature": 2.0}, r"is 2\.0 and temperature 1\.0: temperatures fall"),
        ({"inference": "relaxed", "beta_codes": -0.1}, r"beta_codes is -0\.1: use a number of at least 0"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0: use a number above 0\."),
        ({"learning_rate": float("nan")}, r"learning_rate is nan: use a number above 0\."),
        ({"recurrent": "yes"}, r"recurrent is 'yes': use True or False\."),
        ({"half_precision": 1}, r"half_precision is 1: use True or False\."),
        ({"shared_termination": 0}, r"shared_termination is 0: use True or False or None\."),
        ({"sigma_floor": 0.0}, r"sigma_floor is 0\.0: use a number above 0 or None"),
        ({"duration_weight": -0.1}, r"duration_weight is -0\.1: use a number of at least 0"),
        ({"duration_rate": 0.0}, r"duration_rate is 0\.0: use a number above 0 or None\."),
    ],
)
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**settings)


COUNTS = [field.name for field in dataclasses.fields(Config) if int in (field.type, *get_args(field.type))]


@pytest.mark.parametrize("name", [name for name in COUNTS if name != "seed"])
def test_counts_and_sizes_begin_at_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 0: use a whole number of at least 1"):
        Config(**{name: 0})


def test_json_round_trip() -> None:
    config = Config(num_segments=None, duration_rate=4.25, shared_termination=True, seed=7)
    assert Config().changed(json.loads(json.dumps(config.to_json()))) == config


def test_a_number_of_segments_may_be_called_unknown() -> None:
    config = Config(num_segments="unknown")  # type: ignore[arg-type]
    assert config == Config(num_segments=None)
    assert config.to_json()["num_segments"] is None
    assert Config().changed({"num_segments": "unknown"}) == config


def test_numbers_of_numpy_become_plain_ones() -> None:
    config = Config(
        num_segments=np.int32(4), seed=np.int64(7), learning_rate=np.float32(0.5), sigma_floor=np.float64(2)
    )
    kept = (config.num_segments, config.seed, config.learning_rate, config.sigma_floor)
    assert [(value, type(value)) for value in kept] == [(4, int), (7, int), (0.5, float), (2.0, float)]
    assert Config().changed(json.loads(json.dumps(config.to_json()))) == config
    assert json.dumps(Config(cooldown=1).to_json()) == json.dumps(Config().to_json() | {"cooldown": 1})


@pytest.mark.parametrize("value", [np.float64("nan"), np.array(3.0), np.bool_(True), np.str_("3")])
def test_what_is_no_number_of_numpy_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"learning_rate is .*: use a number"):
        Config(learning_rate=value)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="There is no setting colour: there are num_segments"):
        Config().changed({"colour": "red"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_segments": 2.5}, "num_segments is 2.5: use a whole number"),
        ({"num_segments": True}, "num_segments is True: use a whole number"),
        ({"num_segments": "3"}, "num_segments is '3': use a whole number"),
        ({"num_skills": 3.5}, "num_skills is 3.5: use a whole number"),
        ({"learning_rate": float("inf")}, "learning_rate is inf: use a number"),
        ({"segment_cost": float("nan")}, "segment_cost is nan: use a number"),
        ({"duration_rate": float("nan")}, "duration_rate is nan: use a number"),
        ({"num_segment": 3}, "no setting num_segment: did you mean num_segments"),
    ],
)
def test_numbers_that_are_none(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config().changed(settings)


def test_defaults_that_depend_on_what_is_known() -> None:
    known, unknown = Config().resolved(), Config(num_segments=None).resolved()
    assert (known.shared_termination, known.termination_weight, known.duration_weight) == (False, 1.0, None)
    assert (unknown.shared_termination, unknown.termination_weight, unknown.duration_weight) == (True, 3.0, 1.0)
    assert Config(duration_rate=12.0).resolved().duration_weight is None
    mine = Config(
        num_segments=None,
        termination_weight=2.0,
        duration_weight=0.1,
        shared_termination=False,
        sigma_floor=0.3,
        uniform_share=0.1,
    )
    assert mine.resolved() == mine


def test_defaults_that_depend_on_labelled_counts() -> None:
    unknown, counts = Config(num_segments=None, max_segments=4), SegmentCounts(largest=7, of_all=True)
    assert unknown.resolved(counts) == dataclasses.replace(Config().resolved(), num_segments=None, max_segments=7)
    some = unknown.resolved(SegmentCounts(largest=7))
    assert some == dataclasses.replace(unknown.resolved(), max_segments=7)
    relaxed = dataclasses.replace(unknown, inference="relaxed")
    assert relaxed.resolved(counts).num_segments == 7
    assert relaxed.resolved(SegmentCounts(largest=7)).num_segments is None
    assert unknown.resolved(SegmentCounts(largest=2)) == unknown.resolved()


def test_defaults_that_depend_on_the_inference() -> None:
    exact, relaxed = Config().resolved(), Config(inference="relaxed").resolved()
    assert exact.sigma_floor == 0.5
    assert relaxed.sigma_floor == 0.25
    assert Config(inference="relaxed", sigma_floor=0.1).resolved().sigma_floor == 0.1
