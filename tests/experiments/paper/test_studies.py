"""Studies are complete, are what their names say, and are those that the committed results are of."""

import dataclasses
import json
from typing import Any, get_args

import pytest

from compile_il.config import Config
from compile_il.evaluation.results import read_result
from compile_il.inference.relaxed.engine import WORLD_RATE
from compile_il.rl.config import AgentConfig
from experiments.paper.agents import AgentPart
from experiments.paper.figures import COLORS
from experiments.paper.jobs import jobs_of
from experiments.paper.parts import Scale
from experiments.paper.published import PAPER
from experiments.paper.studies import PaperName, StudyName, make_study
from tests.experiments.paper.tiny import CONFIG as TINY


@pytest.mark.parametrize("scale", get_args(Scale))
@pytest.mark.parametrize("name", get_args(PaperName))
def test_studies_are_complete(name: PaperName, scale: Scale, tmp_path: Any) -> None:
    study = make_study(name, scale)
    assert len({job.folder for job in jobs_of(study, scale, tmp_path)}) == len(study.parts)
    num_seeds = 1 if name in ("qualitative", "figure5") else 2 if scale == "smoke" else 5
    assert all(part.config.num_seeds == num_seeds for part in study.parts)
    if scale != "paper":
        return
    for part in study.parts:
        config = part.config
        assert (config.batch_size, config.num_maps) == (256, 64)
        assert config.hidden_dim == (128 if name == "figure5" else 256)
        if part.surprisal or config.inference == "relaxed":  # the paper's model, and its baseline
            assert (config.learning_rate, config.cooldown) == (1e-4, 0.0)
            assert config.policy_layers == (2 if part.world == "reacher" else 1)
            iterations = 500_000 if name.startswith("table") else 50_000
            assert config.num_iterations == (iterations // 100 if getattr(part, "early", False) else iterations)


def test_parts_are_what_their_names_say() -> None:
    table3 = {part.name: part for part in make_study("table3", "short").parts}
    assert [table3[f"temperature={tau}"].config.temperature for tau in (1.0, 0.1, 0.01)] == [1.0, 0.1, 0.01]
    assert [table3[f"M={count}"].config.num_segments for count in (3, 4, 5)] == [3, 4, 5]
    assert all(table3[f"M={count}"].as_trained for count in (3, 4, 5))
    assert [table3[f"exact, at most {count}"].config.max_segments for count in (3, 4, 5)] == [3, 4, 5]
    for name in ("table1", "table2", "figure4", "figure7"):
        for part in make_study(name, "short").parts:
            engine, supervision = part.config.inference, part.config.supervision
            if part.surprisal:
                assert part.name.endswith("LSTM surprisal")
                continue
            assert engine == ("exact" if "exact" in part.name else "relaxed")
            assert supervision == ("z" if "z-Comp" in part.name else "b" if "b-Comp" in part.name else "none")
            assert part.unending == ("VAE-BC" in part.name)
            assert part.config.num_segments == (1 if "VAE-BC" in part.name else 3)
            if engine == "relaxed":
                gaussian = name in ("table2", "figure7") or "VAE-BC" in part.name
                assert part.config.codes == ("gaussian" if gaussian else "categorical")


def test_every_panel_has_every_agent() -> None:
    parts = make_study("figure5", "short").parts
    agents = ("hierarchical, exact", "hierarchical, CompILE", "VAE-BC", "low-level")
    panels = {part.name.split(": ")[0] for part in parts}
    assert len(panels) == 2 * 2 * 2
    assert {part.name for part in parts} == {f"{panel}: {agent}" for panel in panels for agent in agents}
    for part in parts:
        assert isinstance(part, AgentPart)
        assert (part.agent.num_seeds, part.config.hidden_dim) == (3, 128)
        assert part.needs_models == ("low-level" not in part.name)
        assert part.name.startswith(f"{part.world}, {part.num_tasks} tasks, {part.reward}")


def test_agents_begin_anew_once_settings_have_changed() -> None:
    part = AgentPart("a: hierarchical", "grid-visit", TINY, agent=AgentConfig(agent="hierarchical"))
    others = [
        dataclasses.replace(part, reward="sparse"),
        dataclasses.replace(part, num_tasks=5),
        dataclasses.replace(part, world="grid-pickup"),
        dataclasses.replace(part, agent=dataclasses.replace(part.agent, learning_rate=1e-3)),
        dataclasses.replace(part, config=dataclasses.replace(TINY, num_skills=4)),
    ]
    assert len({other.learning_hash for other in [part, *others]}) == 6
    assert dataclasses.replace(part, num_test=part.num_test + 1).learning_hash == part.learning_hash


def test_every_method_and_agent_has_a_colour() -> None:
    for name in ("figure4", "figure7"):
        assert {part.name.split(", ", 1)[1] for part in make_study(name, "paper").parts} <= set(COLORS)
    assert {part.name.split(": ", 1)[1] for part in make_study("figure5", "paper").parts} <= set(COLORS)


def test_rows_of_the_paper_have_models() -> None:
    for study, rows in PAPER.items():
        assert set(rows) <= {part.name for part in make_study(study, "short").parts}  # type: ignore[arg-type]


def as_it_would_be_now(config: dict[str, Any]) -> dict[str, Any]:
    """What a result file says of a model's settings, with six differences that make none to training."""
    # Settings that are newer than the file are off where nobody asks for them; one that was always off is gone.
    # Policies had no uniform share then, and no termination rule read changes.
    now = Config().to_json() | {"uniform_share": 0.0} | config
    if now["inference"] == "exact":
        now["change_rule"] = False
    assert not now.pop("counts_told")
    if now["inference"] == "relaxed" and now["duration_rate"] == WORLD_RATE:
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
