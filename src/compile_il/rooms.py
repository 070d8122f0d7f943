"""Rooms for demonstrations of different lengths: a few long ones do not slow down the many that are short.

The demonstrations of a batch are padded to the length that there is room for, and sums over segmentations take a time
that grows with the square of it. So where one demonstration in a hundred is thirty times as long as the others, nearly
all work would be done on padding. Instead each batch is shared out over two rooms, one for the usual lengths and a
small one for what is longer; results are the same, since a demonstration does not depend on what lies beside it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from compile_il.batches import AnyArray, Batch, batch_of, frame_budget, pick, rows_filled_up
from compile_il.config import Config
from compile_il.demos import Demonstrations

Cost = Callable[[int], float]
"""A function that gives the cost of one demonstration padded to so many steps, in any unit."""
ONE_IN = 10**9
"""At most one random batch in this many has more long demonstrations than its room holds."""
WORTH_IT = 2.0
"""Factor by which a second room must make batches cheaper, since it means a second program to compile."""


class Room(NamedTuple):
    """Sizes of the part of each batch that holds demonstrations within some range of lengths."""

    more_than: int
    up_to: int
    num_rows: int
    num_frames: int

    def places(self, lengths: NDArray[np.integer]) -> NDArray[np.intp]:
        """Indices of those lengths that belong in this room."""
        return np.flatnonzero((lengths > self.more_than) & (lengths <= self.up_to))


class Group(NamedTuple):
    """The demonstrations of a batch that share a room."""

    batch: Batch
    places: Int[AnyArray, " rows"] | None
    """Their indices in the batch, which say what noise is drawn for them; None where the group is the whole batch."""


def cost_of(config: Config, *, exactly: bool = False) -> Cost:
    """Returns the cost function of a training: time of the sums over starts and ends, or of passes of an LSTM.

    Args:
      config: the settings.
      exactly: whether a model of relaxed inference is summed over, too.
    """
    if config.inference == "relaxed" and not exactly:
        return float
    longest = config.longest_segment
    return lambda steps: float(steps) * (steps if longest is None else min(steps, longest))


def usual_length(lengths: NDArray[np.integer], batch_size: int, cost: Cost) -> int:
    """The length up to which demonstrations get a room of their own; that of the longest if one room is best."""
    known, counts = np.unique(lengths, return_counts=True)
    longest = int(known[-1])
    share_longer = 1 - np.cumsum(counts)[:-1] / len(lengths)
    # A batch without long ones does without their room, which in others is for about so many.
    needed = 1 - (1 - share_longer) ** batch_size
    rows = np.minimum(1 + batch_size * share_longer, batch_size)
    apart = batch_size * np.array([cost(int(n)) for n in known[:-1]]) + needed * rows * cost(longest)
    if not len(apart) or apart.min() * WORTH_IT > batch_size * cost(longest):
        return longest
    return int(known[apart.argmin()])


def most_among(num_chosen: int, num_all: int, batch_size: int) -> int:
    """Rows needed so that a random batch holds more of the chosen demonstrations at most once in `ONE_IN`."""
    ways, tail = math.comb(num_all, batch_size), 0
    for number in range(min(num_chosen, batch_size), 0, -1):
        tail += math.comb(num_chosen, number) * math.comb(num_all - num_chosen, batch_size - number)
        if tail * ONE_IN > ways:
            return number
    return 1


def alike_in_length(lengths: NDArray[np.integer], cost: Cost) -> list[NDArray[np.intp]]:
    """Indices of demonstrations to look at together: all, or those of usual lengths and then the others."""
    usual = usual_length(lengths, len(lengths), cost)
    groups = [np.flatnonzero(lengths <= usual), np.flatnonzero(lengths > usual)]
    return [group for group in groups if len(group)]


def make_rooms(lengths: NDArray[np.integer], batch_size: int, num_shares: int, cost: Cost) -> list[Room]:
    """One room for all demonstrations, or one for the usual lengths and one for the others.

    Rooms are for equal shares of a batch, which has one share for each device. Which lengths are usual does not depend
    on their number: noise is drawn for all steps that there is room for, and is the same on any number of devices.
    """
    usual, longest, share_size = usual_length(lengths, batch_size, cost), int(lengths.max()), batch_size // num_shares
    if usual == longest:
        return [Room(0, longest, share_size, frame_budget(lengths, share_size))]
    is_long = lengths > usual
    num_long = most_among(int(is_long.sum()), len(lengths), share_size)
    return [
        Room(0, usual, share_size, frame_budget(lengths[~is_long], share_size)),
        Room(usual, longest, num_long, frame_budget(lengths[is_long], num_long)),
    ]


def groups_of(
    demos: Demonstrations, chosen: Sequence[NDArray[np.integer]], rooms: Sequence[Room]
) -> Iterator[list[Group]]:
    """Yields, for each room that is needed, one group out of each of several batches.

    Args:
      demos: all demonstrations.
      chosen: indices of the demonstrations of each batch.
      rooms: as `make_rooms` gives them; those of one room keep their order, and what finds no place in it is left out.
    """
    if len(rooms) == 1:
        yield [Group(batch_of(demos[rows], rooms[0].num_frames, rooms[0].up_to), None) for rows in chosen]
        return
    shortest = int(demos.lengths.argmin())
    for room in rooms:
        places = [room.places(demos.lengths[rows])[: room.num_rows] for rows in chosen]
        if any(map(len, places)):
            yield [_group(demos, rows, some, room, shortest) for rows, some in zip(chosen, places, strict=True)]


def _group(
    demos: Demonstrations, rows: NDArray[np.integer], places: NDArray[np.intp], room: Room, shortest: int
) -> Group:
    """Returns the group of a batch that belongs in a room, whose other rows repeat the first demonstration.

    Repeats come last and do not count (`fits`), so that for gradients frames lie one after the other (`unpack`).
    """
    there = demos[rows[places] if len(places) else [shortest]]
    batch = pick(batch_of(there, room.num_frames, room.up_to), rows_filled_up(len(there), room.num_rows))
    is_asked_for = np.arange(room.num_rows) < len(places)
    padded = np.pad(places, (0, room.num_rows - len(places))).astype(np.int32)
    return Group(batch._replace(fits=batch.fits & is_asked_for), padded)


def stacked(groups: Sequence[Group]) -> Group:
    """Stacks groups of one room along a new first axis."""
    result: Group = jax.tree.map(lambda *leaves: np.stack(leaves), *groups)
    return result
