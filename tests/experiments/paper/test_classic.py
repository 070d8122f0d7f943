"""Classic methods are compared fairly: their settings are chosen on levels that are then not reported."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_il.baselines.base import Cuts
from compile_il.baselines.change_points import EqualCuts
from compile_il.baselines.features import views_for
from compile_il.config import TEST_SEED, VALIDATION_SEED, Config
from compile_il.data.demonstrations import Demonstrations
from compile_il.worlds.demonstrate import demonstrate
from experiments.paper import classic
from experiments.paper.classic import ClassicPart
from experiments.paper.studies import make_study
from tests.experiments.paper.tiny import MARKOV

PART = ClassicPart("symbols, some method", "symbols", Config(num_seeds=3), num_train=10, num_test=9)


@dataclasses.dataclass(frozen=True)
class Levels:
    """Remembers by which seed demonstrations were made."""

    made: dict[bytes, tuple[int, Demonstrations]] = dataclasses.field(default_factory=dict)

    def demonstrate(self, *given: Any, seed: int, **options: Any) -> Demonstrations:
        demos = demonstrate(*given, seed=seed, **options)
        self.made[_actions(demos)] = seed, demos
        return demos

    def seed_of(self, demos: Demonstrations) -> int:
        return self.made[_actions(demos)][0]

    def boundaries_of(self, demos: Demonstrations) -> list[np.ndarray]:
        return list(self.made[_actions(demos)][1].truth.boundaries or [])


def _actions(demos: Demonstrations) -> bytes:
    return b"".join(actions.tobytes() for actions in demos.actions)


@dataclasses.dataclass(frozen=True)
class RightOn:
    """A method that is right on the levels of one seed, and elsewhere cuts into equal lengths. It takes notes."""

    seed: int
    levels: Levels = dataclasses.field(repr=False)
    notes: list[tuple[str, int, int]] = dataclasses.field(default_factory=list, repr=False)

    def fit(self, demos: Demonstrations) -> "RightOn":
        self.notes.append(("fit", self.levels.seed_of(demos), len(demos)))
        return self

    def segment(self, demos: Demonstrations, num_segments: Any) -> Cuts:
        seed = self.levels.seed_of(demos)
        self.notes.append((f"cut into {set(num_segments)}", seed, len(demos)))
        if seed == self.seed:
            return Cuts(self.levels.boundaries_of(demos), None)
        return EqualCuts().segment(demos, num_segments)


def test_settings_are_chosen_on_levels_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that are chosen are fitted to other demonstrations for each seed, and scored on unseen ones."""
    levels = Levels()
    best_in_tests, best = RightOn(TEST_SEED, levels), RightOn(VALIDATION_SEED, levels)
    monkeypatch.setattr(classic, "demonstrate", levels.demonstrate)
    monkeypatch.setattr(ClassicPart, "candidates", lambda part, demos: [best_in_tests, best, EqualCuts()])
    measured = PART.measure([], tmp_path, print)
    assert measured["chosen"] == str(best)
    choice = [("fit", 0, 10), ("cut into {3}", VALIDATION_SEED, 9)]
    assert best_in_tests.notes == choice
    scored = [("cut into {3}", TEST_SEED, 9), ("cut into {5}", TEST_SEED, 9)]
    assert best.notes == choice + [note for seed in range(3) for note in (("fit", seed, 10), *scored)]
    assert {tasks: len(seeds) for tasks, seeds in measured["scores"].items()} == {"3": 3, "5": 3}
    assert all(0 < seed["f1"] < 1 for seeds in measured["scores"].values() for seed in seeds), "equal lengths"


def test_there_is_as_much_to_choose_from_as_is_said() -> None:
    demos = demonstrate("reacher", num_demos=2)
    views = views_for(demos)
    parts = make_study("classic", "short").parts
    assert len(parts) == 3 * 4
    for part in parts:
        assert isinstance(part, ClassicPart)
        num_states = (10, 32) if part.method == "hidden Markov model" else (0,)
        settings = set(map(str, part.candidates(demos)))
        assert len(settings) == (1 if part.method == "equal lengths" else len(views) * len(num_states))
        assert (part.num_train, part.num_test, part.num_seeds) == (1000, 1024, 5)


def test_other_settings_are_fitted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def note(path: Path, *_: Any) -> Any:
        made.append(path.parent.name)
        return 0.5 if path.name.startswith("choice") else {"3": {}, "5": {}}

    monkeypatch.setattr(classic, "keep", note)
    for part in (MARKOV, dataclasses.replace(MARKOV, num_states=(3,)), dataclasses.replace(MARKOV, num_test=9)):  # type: ignore[call-arg]
        part.measure([], tmp_path, print)
    assert len(set(made)) == 3


@pytest.mark.parametrize("kept", [b"", b"{", b"\xff"])
def test_a_fit_that_cannot_be_read_is_made_again(kept: bytes, tmp_path: Path) -> None:
    path = tmp_path / "seed-1.json"
    path.write_bytes(kept)
    for made in (0.5, 0.7):
        assert classic.keep(path, float, made) == 0.5
