"""`compile-il reproduce` says what a machine without an accelerator is in for."""

from typing import Any

import pytest
from rich.console import Console

from experiments.paper.__main__ import Reproduce


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, True),
        ({"scale": "paper"}, True),
        ({"scale": "smoke"}, False),
        ({"name": "classic"}, False),
        ({"so_far": True}, False),
        ({"jobs": 2}, False),
    ],
)
def test_a_machine_without_an_accelerator_is_told(settings: dict[str, Any], told: bool) -> None:
    console = Console(record=True, width=200)
    Reproduce(**({"name": "table1"} | settings))._tell_of_processors(console)
    text = console.export_text()
    assert ("is meant for an accelerator, and there is none here" in text) == told
    assert ("--scale smoke" in text) == told
