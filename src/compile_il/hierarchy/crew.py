"""Actors on Ray that are dealt work in order, and can be replaced without a trace.

Of A slots, each with an actor, item n belongs to slot n mod A: one trajectory from each of its environments. Results
are taken in the order of n, not in the order in which they come, and a slot is sent its next item with the parameters
that are the newest when its last result is taken. So which parameters act for which item depends on n alone.

A slot remembers where its environments were before the item that is under way. If the actor dies, another one is told,
brings its own environments there (`EnvActor`), and is sent the same item with the same parameters.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from compile_il.hierarchy.env_actor import EpisodeSoFar, Unrolled
from compile_il.hierarchy.settings import HierarchyError
from compile_il.interrupts import stop_is_requested

TICK_SECONDS = 1.0
"""Seconds between checks for a request to stop."""
STOP_SECONDS = 20.0
"""Seconds without a result after which a request to stop ends the waiting."""
PATIENCE_SECONDS = 60.0
MOST_DEATHS = 3
"""Largest number of actors of one slot that may die at the same item; with more, something else is wrong."""

MakeActor = Callable[[int, list[EpisodeSoFar]], Any]
"""Function from a slot's seed, and from where its environments are, to Ray's handle of a new actor."""


class NobodyActsError(HierarchyError):
    """Error after a request to stop, if no actor has sent anything for so long that none may ever do."""


@dataclasses.dataclass
class Slot:
    """A place for an actor, and all that a new one needs to do what the old one would have done."""

    seed: int
    episodes: list[EpisodeSoFar]
    """How far the slot's environments had come before the item under way."""
    item: int
    params: Any
    """Ray's reference to the parameters that act for the item under way."""
    actor: Any
    under_way: Any = None
    """Ray's reference to the result of the item under way."""
    num_deaths: int = 0
    """Number of the slot's actors that have died since its last result."""


class Crew:
    """Actors on Ray at work: each unrolls the items of its slot, and is replaced if it dies.

    Args:
      ray: the package; it is connected.
      make_actor: starts an actor.
      seeds: of the slots.
      num_environments: of each slot.
      params: Ray's reference to the parameters that act for the first items.
    """

    def __init__(self, ray: Any, make_actor: MakeActor, seeds: Sequence[int], num_environments: int, params: Any):
        self._ray, self._make_actor = ray, make_actor
        gone = ray.exceptions
        # Of an actor, of its process, of its machine, or of what it had found; its own errors are not among them.
        self._deaths = (
            *(gone.RayActorError, gone.WorkerCrashedError, gone.NodeDiedError),
            *(gone.ObjectLostError, gone.OutOfMemoryError),
        )
        self._arrived: dict[int, Unrolled] = {}
        fresh = [EpisodeSoFar()] * num_environments
        self._slots = [
            Slot(seed, fresh, item, params, actor=make_actor(seed, fresh)) for item, seed in enumerate(seeds)
        ]
        for slot in self._slots:
            self._send(slot)

    @property
    def actors(self) -> list[Any]:
        """Ray's handles of the actors, slot by slot."""
        return [slot.actor for slot in self._slots]

    def take(self, params: Any) -> Unrolled:
        """Waits for the result of the next item and returns it; its actor goes on with the given parameters."""
        slot = min(self._slots, key=lambda slot: slot.item)
        while slot.item not in self._arrived:
            self._receive()
        found = self._arrived.pop(slot.item)
        slot.episodes = [before.then(after) for before, after in zip(slot.episodes, found.episodes, strict=True)]
        slot.item, slot.params = slot.item + len(self._slots), params
        self._send(slot)
        return found

    def close(self) -> None:
        """Ends the actors."""
        for actor in self.actors:
            self._ray.kill(actor)

    def _send(self, slot: Slot) -> None:
        slot.under_way = slot.actor.unroll.remote(slot.params, slot.item)

    def _receive(self) -> None:
        """Waits for any actor that is done or dead, whoever is next in turn; those that died are replaced together."""
        slot = self._wait()
        try:
            self._arrived[slot.item] = self._ray.get(slot.under_way)
        except self._deaths as error:
            self._replace(slot, error)
        else:
            slot.num_deaths = 0

    def _replace(self, slot: Slot, error: Exception) -> None:
        slot.num_deaths += 1
        if slot.num_deaths > MOST_DEATHS:
            raise HierarchyError(
                "Actors die as soon as they are started, or each at the same step of an environment, which a run that "
                f"is resumed may not come to: {error}"
            ) from error
        print("An actor died and is replaced.", file=sys.stderr)
        self._ray.kill(slot.actor)  # which may live, where only its result was lost
        slot.actor = self._make_actor(slot.seed, slot.episodes)
        self._send(slot)

    def _wait(self) -> Slot:
        """Waits for a slot whose actor is done or dead; long waits are explained and can be interrupted."""
        under_way = {slot.under_way: slot for slot in self._slots if slot.item not in self._arrived}
        began, told = time.monotonic(), 0
        while True:
            done, _ = self._ray.wait(list(under_way), num_returns=1, timeout=TICK_SECONDS)
            if done:
                return under_way[done[0]]
            waited = time.monotonic() - began
            if waited > STOP_SECONDS and stop_is_requested():
                raise NobodyActsError(f"No actor has sent anything for {waited:.0f} s.")
            if waited > (told + 1) * PATIENCE_SECONDS:
                told += 1
                free = self._ray.available_resources().get("CPU", 0)
                print(
                    f"No actor has sent anything for {waited:.0f} s; {free:g} CPUs of the Ray cluster are free.",
                    file=sys.stderr,
                )
