"""The experiment on learning rates of agents, made tiny."""

import dataclasses
import json
from pathlib import Path

from compile_il.experiments.agent_rates import Run, main
from compile_il.reproduce.studies import AGENT_SIZES


def test_every_variant_has_a_curve(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    sizes = {**AGENT_SIZES["smoke"], "num_ticks": 30}  # so that episodes end
    tiny = dataclasses.replace(Run(out).config, **sizes, half_precision=False)
    main(Run(out, rates=((1e-3, 1e-5),), max_changes=(None, 0.3), num_steps=8 * 30 * 3, config=tiny))
    found = json.loads(out.read_text())
    assert (found["config"]["world"], found["config"]["num_tasks"]) == ("grid-visit", 3)
    assert found["config"]["num_iterations"] == 3
    one, other = found["figures"]["variants"]
    assert (one["rate"], one["final_rate"], one["max_change"], other["max_change"]) == (1e-3, 1e-5, None, 0.3)
    assert len(one["success"]) == 2, "a row for each seed"
    assert all(0 <= share <= 1 for row in one["success"] for share in row)
