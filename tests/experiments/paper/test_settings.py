"""Studies are still those that the committed results are of."""

import json
from typing import Any, get_args

import pytest

from compile_il.config import PAPER_RATE, Config
from compile_il.evaluation.results import read_result
from experiments.paper.names import PaperName, StudyName
from experiments.paper.studies import make_study


def as_it_would_be_now(config: dict[str, Any]) -> dict[str, Any]:
    """What a result file says of a model's settings, with three differences that make none to training."""
    # Settings that are newer than the file are off where nobody asks for them.
    now = Config().to_json() | config
    if now["inference"] == "relaxed" and now["duration_rate"] == PAPER_RATE:
        # The rate of models of a world was a default once; None, for which training takes the same rate, stands for it.
        now["duration_rate"] = None
    if now["inference"] == "exact" and now["num_segments"] is None and now["duration_weight"] is None:
        # Lengths had no weight by default where the number of segments was not known.
        now["duration_weight"] = 0.0
    return now


@pytest.mark.parametrize("name", get_args(StudyName))
def test_results_are_of_the_studies_that_there_are(name: StudyName) -> None:
    study, result = make_study(name, "short"), read_result(name)
    there = result["config"]["parts"]
    assert result["config"]["scale"] == "short"
    assert list(there) == list(result["figures"]) == [part.name for part in study.parts]
    for part in study.parts:
        then, now = there[part.name], json.loads(json.dumps(part.to_json()))
        if "config" in then:
            then = then | {"config": as_it_would_be_now(then["config"])}
        assert now == then, part.name


@pytest.mark.parametrize("name", get_args(PaperName))
def test_the_papers_model_is_trained_as_in_the_paper(name: PaperName) -> None:
    """At the scale of the paper, of which there are no results: Adam with a rate of 1e-4 that stays."""
    for part in make_study(name, "paper").parts:
        config = part.config
        assert (config.batch_size, config.num_maps) == (256, 64)
        assert config.hidden_dim == (128 if name == "figure5" else 256)
        if part.surprisal or config.inference == "relaxed":
            assert (config.learning_rate, config.cooldown) == (1e-4, 0.0)
            assert config.policy_layers == (2 if part.world == "reacher" else 1)
