"""The bar: what it shows, that it fits, and that it can be silent."""

import pytest

from compile_il.training import loop as progress
from compile_il.training.loop import ProgressBar

SCORES = "loss 1123.46  held-out -1234.57  boundaries 100.0 %"


def printed(capsys: pytest.CaptureFixture[str], shown: bool | None = True) -> str:
    with ProgressBar(10000, 9380, shown) as bar:
        bar.advance()
        bar.show(SCORES)
        bar.advance()
        bar.say("Kept seed [1]")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_the_scores_fit_into_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said, bar = printed(capsys).splitlines()
    assert said == "Kept seed [1]"
    assert " 9382/10000 " in bar
    assert bar.endswith(" loss 1123.46  held-out -1234.57  boundaries 100.0 %")
    assert len(bar) <= 80


def test_nothing_is_shown_to_those_who_want_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, shown=False) == ""


def test_without_a_terminal_there_is_no_bar_but_what_was_decided_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, shown=None)
    assert "loss" not in text
    assert "Kept" in text


def test_without_a_terminal_there_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    first = printed(capsys, shown=None).splitlines()[0]
    assert first == "9381/10000  loss 1123.46  held-out -1234.57  boundaries 100.0 %"
    assert printed(capsys, shown=False) == ""
