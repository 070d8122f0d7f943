"""Work that is dealt in order, whoever is quick and whoever dies; Ray is played by a few lines here."""

import collections
import signal
import time
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_il.rl import ray_actors as crew
from compile_il.rl.config import HierarchyError
from compile_il.rl.ray_actors import MOST_DEATHS, ActingCounts, Crew, EpisodeSoFar, NobodyActsError, Unrolled
from compile_il.training.loop import StopRequest

NUM_ENVIRONMENTS = 2


class Actor:
    """Says what it was told, and where its environments are; their episodes end at every fourth item."""

    def __init__(self, seed: int, episodes: list[EpisodeSoFar]):
        self.seed, self.episodes = seed, list(episodes)
        self.unroll = types.SimpleNamespace(remote=self._unroll)

    def _unroll(self, params: str, item: int) -> Any:
        told = f"actor {self.seed} with {params} at {item} from {self.episodes}"
        after = [EpisodeSoFar(item // 4, (item, number)) for number in range(NUM_ENVIRONMENTS)]
        self.episodes = [one.then(other) for one, other in zip(self.episodes, after, strict=True)]
        return Reference(Unrolled(told, ActingCounts(), after))  # type: ignore[arg-type]


class Reference:
    def __init__(self, found: Unrolled):
        self.found = found


class Ray:
    """One that lets actors be ready in any order, and some of what they found be lost, no item too often."""

    class exceptions:  # noqa: N801 (Ray's name)
        RayActorError, WorkerCrashedError, NodeDiedError, ObjectLostError, OutOfMemoryError = (
            type(name, (Exception,), {}) for name in ("Actor", "Worker", "Node", "Object", "Memory")
        )

    def __init__(self, order: list[int], lost: list[bool], most: int = MOST_DEATHS):
        self.most = most
        self._order, self._lost, self.killed = order.copy(), lost.copy(), []
        self.num_lost: collections.Counter[str] = collections.Counter()

    def wait(self, references: list[Reference], **_: Any) -> tuple[list[Reference], list[Reference]]:
        first = self._order.pop() if self._order else 0
        return [references[first % len(references)]], []

    def get(self, reference: Reference) -> Unrolled:
        told = str(reference.found.trajectory)
        if self._lost and self._lost.pop() and self.num_lost[told] < self.most:
            self.num_lost[told] += 1
            raise self.exceptions.ObjectLostError
        return reference.found

    def kill(self, actor: Actor) -> None:
        self.killed.append(actor)


def taken(ray: Ray, num_actors: int) -> list[str]:
    """What was done, for a dozen items."""
    at_work = Crew(ray, Actor, range(num_actors), NUM_ENVIRONMENTS, "params 0")
    return [at_work.take(f"params {n + 1}").trajectory for n in range(12)]  # type: ignore[misc]


@given(st.integers(1, 4), st.lists(st.integers(0, 3)), st.lists(st.booleans(), max_size=40))
def test_who_does_what_depends_on_nothing_but_its_number(num_actors: int, order: list[int], lost: list[bool]) -> None:
    ray = Ray(order, lost)
    assert taken(ray, num_actors) == taken(Ray([], []), num_actors)
    assert len(set(map(id, ray.killed))) == len(ray.killed)


def test_parameters_are_those_of_the_last_result() -> None:
    told = taken(Ray([], []), 3)
    assert [line.split(" at ")[0] for line in told[:7]] == [
        *("actor 0 with params 0", "actor 1 with params 0", "actor 2 with params 0"),
        *("actor 0 with params 1", "actor 1 with params 2", "actor 2 with params 3", "actor 0 with params 4"),
    ]
    assert [int(line.split(" at ")[1].split()[0]) for line in told] == list(range(12))


def test_deaths_at_one_item_come_to_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HierarchyError, match="Actors die as soon as they are started, or each at the same step"):
        taken(Ray([], [True] * (MOST_DEATHS + 1), most=MOST_DEATHS + 1), 2)
    assert capsys.readouterr().err.count("An actor died and is replaced.") == MOST_DEATHS


def test_who_asks_to_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "STOP_SECONDS", 0.05)
    monkeypatch.setattr(crew, "TICK_SECONDS", 0.01)
    ray = Ray([], [])
    monkeypatch.setattr(
        ray, "wait", lambda references, num_returns, timeout: (time.sleep(timeout), ([], references))[1]
    )
    with StopRequest():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(NobodyActsError, match="No actor has sent anything for 0 s"):
            taken(ray, 2)


def test_who_waits_is_told_for_what(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(crew, "PATIENCE_SECONDS", 0.1)
    ray, began = Ray([], []), time.monotonic()
    wait = ray.wait

    def slow(references: list[Reference], **_: Any) -> Any:
        time.sleep(0.02)
        return wait(references) if time.monotonic() - began > 0.35 else ([], references)

    monkeypatch.setattr(ray, "wait", slow)
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 1.0}, raising=False)
    assert taken(ray, 2) == taken(Ray([], []), 2)
    assert capsys.readouterr().err.count("No actor has sent anything for 0 s; 1 CPUs of the Ray cluster are free.") in (
        2,
        3,
    )
